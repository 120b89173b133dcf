"""Tool calls of a session: which run now, and the changes they make to files, beforehand and afterwards."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.ports import Clock
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal, resolve_inside
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.tools.content.line_diff import LineDiff, line_diff
from scaffold.tools.content.line_edits import apply_edits, parse_edits
from scaffold.tools.content.safe_open import read_whole
from scaffold.tools.content.text_encoding import decode
from scaffold.tools.content.text_replacement import replace_text
from scaffold.tools.file.apply_patch import WRITING_TOOLS, written_paths

COMPARED_BYTES = 2_000_000  # larger files are not compared


class RunningCall(Struct, frozen=True, eq=False):
    """A running call; `before` is the text of the file it is about to change, None if unknown."""

    name: str
    args: Mapping[str, Any]
    since_s: float
    before: str | None = None


class ChangedText(Struct, frozen=True):
    """A file that a call has changed; one that did not exist before, or does not afterwards, has an empty text."""

    path: str
    before: str
    after: str


class FinishedCall(Struct, frozen=True):
    """A call that has ended, and its change to a file."""

    name: str
    args: Mapping[str, Any]
    output: ToolOutput
    diff: LineDiff | None
    changes: tuple[ChangedText, ...] = ()
    """What became of the files that it writes, as far as that is known; several of a patch."""


class RunningTools:
    """Watches the tools of a session."""

    def __init__(self, root: Path, clock: Clock, finished: Callable[[FinishedCall], None]) -> None:
        """`root` is the directory tools work in; `finished` is called with each call that has ended."""
        self._root = root
        self._clock = clock
        self._finished = finished
        self._running: list[RunningCall] = []

    @property
    def running(self) -> tuple[RunningCall, ...]:
        """The running calls, oldest first."""
        return tuple(self._running)

    def watch(self, tool: Tool) -> Tool:
        """Return the tool with its calls watched."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            """Run the tool, and report the call with the change of its file."""
            # In a thread: a file on a slow disk must not stop the input line.
            texts = await self._call_texts(tool.name, args)
            before = _only_text(texts) if tool.name in WRITING_TOOLS else None
            call = RunningCall(tool.name, args, self._clock.monotonic(), before)
            self._running.append(call)
            try:
                output = await tool.run(args)
            finally:
                self._running.remove(call)
            # Read again, not computed: the diff shows what the tool has done, not what it should do.
            texts_after = {} if output.failed or not texts else await self._call_texts(tool.name, args)
            after = _only_text(texts_after)
            diff = None if before is None or after is None else await asyncio.to_thread(line_diff, before, after)
            changes = (
                ChangedText(path, was, now)
                for path, now in texts_after.items()
                if (was := texts[path]) is not None and now is not None and was != now
            )
            self._finished(FinishedCall(tool.name, args, output, diff, tuple(changes)))
            return output

        return msgspec.structs.replace(tool, run=run)

    def call_of(self, question: ApprovalQuestion) -> RunningCall:
        """Return the call a question is about, the session's or a subagent's, with the current text of its file."""
        args = json.loads(question.args)
        path = args.get("path")
        is_known = question.tool in WRITING_TOOLS and isinstance(path, str)
        before = _read_text(self._root, path) if is_known else None
        return RunningCall(question.tool, args, self._clock.monotonic(), before)

    async def _call_texts(self, name: str, args: Mapping[str, Any]) -> Mapping[str, str | None]:
        if not (paths := written_paths(name, args)):
            return {}
        return await asyncio.to_thread(lambda: {path: _read_text(self._root, path) for path in paths})


def proposed_text(call: RunningCall) -> str | None:
    """Return the text of the file after the call; None if unknown."""
    return None if call.before is None else _text_after(call.name, call.args, call.before)


def patch_of(call: RunningCall) -> str:
    """Return the patch that a call applies, which shows its changes by itself; empty for other calls."""
    patch = call.args.get("input") if call.name == "apply_patch" else None
    return patch if isinstance(patch, str) else ""


def _only_text(texts: Mapping[str, str | None]) -> str | None:
    # Only a change of one file can be shown beforehand.
    return next(iter(texts.values())) if len(texts) == 1 else None


def _read_text(root: Path, path: str) -> str | None:
    # A diff must not show what the tool itself may not read, such as a file behind a link out of the folder.
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


def _text_after(name: str, args: Mapping[str, Any], before: str) -> str | None:
    match name:
        case "write_file":
            return str(args["content"])
        case "append_file":
            return before + str(args["content"])
        case "edit":
            replaced = replace_text(before, args["old"], args["new"], everywhere=args.get("replace_all", False))
            return None if isinstance(replaced, Refusal) else replaced.text
        case "apply_delta":
            changes = parse_edits(args["operations"])
            outcome = changes if isinstance(changes, Refusal) else apply_edits(before, changes)
            return None if isinstance(outcome, Refusal) else outcome.text
        case _:
            return None
