"""Tools at work: which ones run now, what each one made of a file, and what it is about to make of it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.cli.repl.line_diff import LineDiff, line_diff
from scaffold.core.ports import Clock
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal, resolve_inside
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.tools.file.line_edits import apply_edits, parse_edits
from scaffold.tools.file.safe_open import read_whole
from scaffold.tools.file.text_encoding import decode

WRITING_TOOLS = frozenset({"write_file", "append_file", "apply_delta"})
"""Tools whose change can be told beforehand."""
COMPARED_BYTES = 2_000_000
"""Files up to this are compared."""


class RunningCall(Struct, frozen=True, eq=False):
    """A call that runs; `before` is the text of the file it is about to change, None where that is not known."""

    name: str
    args: Mapping[str, Any]
    since_s: float
    before: str | None = None


class FinishedCall(Struct, frozen=True):
    """A call that ended, and what it made of its file."""

    name: str
    args: Mapping[str, Any]
    output: ToolOutput
    patch: LineDiff | None


class RunningTools:
    """The tools of a session, watched."""

    def __init__(self, root: Path, clock: Clock, done: Callable[[FinishedCall], None]) -> None:
        """Watch what works in `root`; `done` is told of each call that ended."""
        self._root = root
        self._clock = clock
        self._done = done
        self._running: list[RunningCall] = []

    @property
    def running(self) -> tuple[RunningCall, ...]:
        """Return the calls that run, the oldest first."""
        return tuple(self._running)

    def watch(self, tool: Tool) -> Tool:
        """Return the tool, watched."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            before = await self._text(tool.name, args)
            call = RunningCall(tool.name, args, self._clock.monotonic(), before)
            self._running.append(call)
            try:
                output = await tool.run(args)
            finally:
                self._running.remove(call)
            after = None if before is None or output.failed else await self._text(tool.name, args)
            made = None if before is None or after is None else await asyncio.to_thread(line_diff, before, after)
            self._done(FinishedCall(tool.name, args, output, made))
            return output

        return msgspec.structs.replace(tool, run=run)

    def call_of(self, question: ApprovalQuestion) -> RunningCall:
        """Return the call a question is about, whoever wishes it, with what is in its file now."""
        args = json.loads(question.args)
        return RunningCall(question.tool, args, self._clock.monotonic(), _text(self._root, question.tool, args))

    async def _text(self, name: str, args: Mapping[str, Any]) -> str | None:
        return await asyncio.to_thread(_text, self._root, name, args)


def proposed_text(call: RunningCall) -> str | None:
    """Return the text a call would leave in its file, None where that cannot be told."""
    return None if call.before is None else _after(call.name, call.args, call.before)


def _text(root: Path, name: str, args: Mapping[str, Any]) -> str | None:
    """Return the text of the file a call writes, empty if it is not there yet; None for calls that write none."""
    path = args.get("path")
    return _read(root, path) if name in WRITING_TOOLS and isinstance(path, str) else None


def _read(root: Path, path: str) -> str | None:
    place = resolve_inside(root, path)
    if isinstance(place, Refusal):
        return None
    try:
        if not place.exists():
            return ""
        content = read_whole(root, place, path, limit_bytes=COMPARED_BYTES)
    except OSError:
        return None
    decoded = None if isinstance(content, Refusal) else decode(content.data)
    return None if decoded is None else decoded.text.replace("\r\n", "\n")


def _after(name: str, args: Mapping[str, Any], before: str) -> str | None:
    match name:
        case "write_file":
            return str(args["content"])
        case "append_file":
            return before + str(args["content"])
        case "apply_delta":
            changes = parse_edits(args["operations"])
            outcome = changes if isinstance(changes, Refusal) else apply_edits(before, changes)
            return None if isinstance(outcome, Refusal) else outcome.text
        case _:
            return None
