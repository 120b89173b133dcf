"""One agent: a conversation between a model and its tools, turn by turn."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from scaffold.agent.journal import Journal
from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Message,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ModelTrouble
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import misfit
from scaffold.tools.workspace import excerpt

RESULT_LIMIT = 40_000
"""Characters of a tool result that the model gets to see."""

CUT_OFF = "Your reply was cut off at its length limit, and no tool call of it was run. Go on in smaller steps."


class Finish(Struct, frozen=True):
    """How a turn ended: the last reply's plain words, and what the turn used."""

    text: str
    usage: Usage
    requests: int


class Agent:
    """One conversation; what is said in a turn is remembered in the next."""

    def __init__(
        self,
        *,
        model: Model,
        tools: Sequence[Tool],
        system: str,
        caller: Caller,
        journal: Journal,
        budget: Budget,
        max_requests: int = 100,
    ) -> None:
        self._model = model
        self._tools = {tool.name: tool for tool in tools}
        self._system = system
        self._caller = caller
        self._journal = journal
        self._budget = budget
        self._max_requests = max_requests
        self._messages: list[Message] = []
        self._requests = 0

    async def turn(self, prompt: str) -> Finish:
        """Say `prompt`, then let model and tools go on until a reply without tool calls.

        Raises ModelTrouble when no reply is to be had or `max_requests` of the conversation are used up, BudgetSpent
        when no further request may start.
        """
        self._journal.note("prompt", text=prompt)
        self._messages.append(UserMessage((Text(prompt),)))
        before, usage = self._requests, Usage()
        while True:
            reply = await self._ask()
            usage += reply.usage
            calls = reply.message.tool_calls
            if reply.stop == "max_tokens":
                self._messages.append(UserMessage(_cut_off(calls)))
            elif calls:
                self._messages.append(UserMessage(await self._results(calls)))
            else:
                return Finish(reply.message.text, usage, self._requests - before)

    async def _ask(self) -> Reply:
        if self._requests >= self._max_requests:
            raise ModelTrouble(
                f"The turn limit is reached: {self._max_requests} requests without an end.",
                "Make the task smaller, or raise the limit.",
            )
        self._budget.admit()
        request = Request(
            caller=msgspec.structs.replace(self._caller, turn=self._caller.turn + self._requests),
            system=self._system,
            messages=tuple(self._messages),
            tools=tuple(self._tools.values()),
        )
        self._requests += 1
        reply = await self._model.reply(request)
        self._budget.settle(reply.usage)
        self._messages.append(reply.message)
        self._write_down(reply.message, reply.usage)
        return reply

    async def _results(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Run the calls and return their results in the same order; neighbours that only read run side by side."""
        results: list[ToolResult] = []
        for reads, group in groupby(calls, key=self._only_reads):
            if reads:
                async with asyncio.TaskGroup() as together:
                    tasks = [together.create_task(self._result(call)) for call in group]
                results += [task.result() for task in tasks]
            else:
                results += [await self._result(call) for call in group]
        for result in results:
            self._journal.note(
                "tool_result", id=result.call_id, name=result.name, content=result.content, failed=result.failed
            )
        return tuple(results)

    async def _result(self, call: ToolCall) -> ToolResult:
        output = await self._output(call)
        # names that are not UTF-8 reach us as lone surrogates, which neither a journal nor a wire can carry
        content = output.content.encode(errors="backslashreplace").decode()
        return ToolResult(call.id, call.name, excerpt(content, RESULT_LIMIT), output.failed)

    async def _output(self, call: ToolCall) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none at all"
            return ToolOutput(f"There is no tool `{call.name}`; the tools are: {known}.", failed=True)
        problem = misfit(tool, call.args)
        if problem is not None:
            return ToolOutput(f"Not run: {problem}.", failed=True)
        return await tool.run(call.args)

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.category == "file_read"

    def _write_down(self, message: AssistantMessage, usage: Usage) -> None:
        for part in message.parts:
            match part:
                case Thinking(text=text):
                    self._journal.note("thinking", text=text)
                case Text(text=text):
                    self._journal.note("text", text=text)
                case ToolCall(id=call_id, name=name, args=args):
                    self._journal.note("tool_call", id=call_id, name=name, args=args)
        self._journal.note("usage", **msgspec.structs.asdict(usage))


def _cut_off(calls: Sequence[ToolCall]) -> tuple[Text | ToolResult, ...]:
    """Return what a model is told whose reply was cut off: every call it made gets a result, or wires refuse it."""
    return tuple(ToolResult(call.id, call.name, CUT_OFF, failed=True) for call in calls) or (Text(CUT_OFF),)
