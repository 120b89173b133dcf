"""An agent's tools, and how a model's calls are answered: whatever happens, each call gets one result."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

from scaffold.core.conversation import ToolCall, ToolResult
from scaffold.core.legible import legible
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.arguments import UNREADABLE
from scaffold.tools.arguments import misfit
from scaffold.tools.workspace import excerpt

RESULT_LIMIT = 40_000
"""Characters of a tool result that the model gets to see."""


class Toolbox:
    """The tools one agent has, by name."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.tools = tuple(self._tools.values())
        """The tools, in the order they were given; always the same object, so that models measure it once."""

    async def answer(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Run the calls and return their results in the same order; neighbours that only read run side by side."""
        results: list[ToolResult] = []
        for reads, group in groupby(calls, key=self._only_reads):
            if reads:
                async with asyncio.TaskGroup() as together:
                    tasks = [together.create_task(self._result(call)) for call in group]
                results += [task.result() for task in tasks]
            else:
                results += [await self._result(call) for call in group]
        return tuple(results)

    async def _result(self, call: ToolCall) -> ToolResult:
        output = await self._output(call)
        return ToolResult(call.id, call.name, excerpt(legible(output.content), RESULT_LIMIT), output.failed)

    async def _output(self, call: ToolCall) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none at all"
            return ToolOutput(f"There is no tool `{call.name}`; the tools are: {known}.", failed=True)
        if UNREADABLE in call.args:
            return ToolOutput(f"Not run: the arguments are {call.args[UNREADABLE]}", failed=True)
        problem = misfit(tool, call.args)
        if problem is not None:
            return ToolOutput(f"Not run: {problem}.", failed=True)
        try:
            return await tool.run(call.args)
        except Exception as error:  # noqa: BLE001 - a tool may be anybody's: what it raises is the model's to mend
            return ToolOutput(f"{call.name} broke: {type(error).__name__}: {error}", failed=True)

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.category == "file_read"
