"""An agent's tools, and how a model's calls are answered: whatever happens, each call gets one result."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

import msgspec

from scaffold.core.conversation import ToolCall, ToolResult
from scaffold.core.errors import WaitsForHuman
from scaffold.core.legible import legible
from scaffold.core.tool import Category, Tool, ToolOutput
from scaffold.llm.arguments import UNREADABLE
from scaffold.policy.redaction import Redactor
from scaffold.tools.arguments import misfit, without_nulls
from scaffold.tools.reads import duplicates, only_reads
from scaffold.tools.workspace import excerpt

RESULT_LIMIT = 40_000
"""Characters of a tool result that the model gets to see."""
SIDE_BY_SIDE = 10
"""So many calls run at once, at the most."""
UNKNOWN = "Whether this ran is not known: the work was interrupted. It is not run again; look at what is there now."
NOT_BEGUN = "Not run: the work was interrupted before."
WRITING: frozenset[Category] = frozenset({"file_write", "shell", "python"})
"""Categories of tools that may put what they are told into a file."""


class Toolbox:
    """The tools one agent has, by name."""

    def __init__(self, tools: Sequence[Tool], redactor: Redactor | None = None) -> None:
        """Take the tools, and who takes secrets out of what they answer."""
        self._redactor = redactor or Redactor()
        self._tools = {tool.name: tool for tool in tools}
        self.tools = tuple(self._tools.values())
        """The tools, in the order they were given; always the same object, so that models measure it once."""

    def batch(self, calls: Sequence[ToolCall]) -> "Batch":
        """Return the calls of one reply, ready to be run."""
        return Batch(self, calls)

    def only_reads(self, call: ToolCall) -> bool:
        """Tell whether a call changes nothing."""
        tool = self._tools.get(call.name)
        return tool is not None and only_reads(tool)

    async def result(self, call: ToolCall) -> ToolResult:
        """Run one call and return its result; raises nothing but cancellation, and WaitsForHuman."""
        output = await self._output(call)
        content = self._redactor.clean(legible(output.content))
        return ToolResult(call.id, call.name, excerpt(content, RESULT_LIMIT), output.failed)

    async def _output(self, call: ToolCall) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none at all"
            return ToolOutput(f"There is no tool `{call.name}`; the tools are: {known}.", failed=True)
        if UNREADABLE in call.args:
            return ToolOutput(f"Not run: the arguments are {call.args[UNREADABLE]}", failed=True)
        args = without_nulls(tool, call.args)
        problem = misfit(tool, args)
        if problem is not None:
            return ToolOutput(f"Not run: {problem}.", failed=True)
        mark = self._redactor.mark_in(args) if tool.category in WRITING else None
        if mark is not None:
            return ToolOutput(_unknown_secret(mark), failed=True)
        try:
            return await tool.run(args)
        except WaitsForHuman:
            raise
        except Exception as error:  # noqa: BLE001 - a tool may be anybody's: what it raises is the model's to mend
            return ToolOutput(f"{call.name} broke: {type(error).__name__}: {error}", failed=True)


def _unknown_secret(mark: str) -> str:
    return (
        f"Not run: {mark} stands for a secret that you are not shown, and would be written in its place. Leave it out: "
        "a line it stands in can be replaced or removed whole, by its number and without `expected`. What needs the "
        "secret itself is for the user to do."
    )


class Batch:
    """The calls of one reply, on their way to results."""

    def __init__(self, toolbox: Toolbox, calls: Sequence[ToolCall]) -> None:
        self._toolbox = toolbox
        self._calls = calls
        self._begun: set[str] = set()
        self._ended: dict[str, ToolResult] = {}

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Return one result for each call, in their order; what has not ended is told as such."""
        return tuple(self._ended.get(call.id) or self._open(call) for call in self._calls)

    async def run(self) -> None:
        """Run the calls in their order; neighbours that only read run side by side, equal ones among them once.

        Cancelling it ends what is running, and so does WaitsForHuman; the results of what had ended by then stay.
        """
        for reads, group in groupby(self._calls, key=self._toolbox.only_reads):
            if reads:
                await self._together(tuple(group))
            else:
                for call in group:
                    await self._answer(call)

    async def _together(self, calls: Sequence[ToolCall]) -> None:
        same = duplicates(calls)
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def answer(call: ToolCall) -> None:
            async with room:
                await self._answer(call)

        try:
            async with asyncio.TaskGroup() as together:
                for index, call in enumerate(calls):
                    if index not in same:
                        together.create_task(answer(call))
        except ExceptionGroup as waits:
            raise waits.exceptions[0] from None  # it is WaitsForHuman: a call raises nothing else
        finally:
            for index, first in same.items():
                self._copy(calls[first], calls[index])

    async def _answer(self, call: ToolCall) -> None:
        self._begun.add(call.id)
        self._ended[call.id] = await self._toolbox.result(call)

    def _copy(self, first: ToolCall, again: ToolCall) -> None:
        """Let an equal call have the same result, if there is one."""
        if first.id in self._ended:
            self._ended[again.id] = msgspec.structs.replace(self._ended[first.id], call_id=again.id)

    def _open(self, call: ToolCall) -> ToolResult:
        why = UNKNOWN if call.id in self._begun else NOT_BEGUN
        return ToolResult(call.id, call.name, why, failed=True)
