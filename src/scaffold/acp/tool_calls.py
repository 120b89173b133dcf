"""The tool calls of a session as the editor shows them: announced, running, ended, with the changes they made."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from acp.helpers import start_tool_call, text_block, tool_content, tool_diff_content, update_tool_call
from acp.schema import ContentToolCallContent, FileEditToolCallContent, ToolCallLocation, ToolKind
from msgspec import Struct
from pydantic import BaseModel

from scaffold.core.ports import Clock
from scaffold.core.printable_text import truncate_text
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.random_ids import new_id
from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import parse_patch
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.policy.permission.call_request import category_of
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.running_tools import FinishedCall, RunningTools, patch_of, proposed_text
from scaffold.views.text_format import brief

TITLE_CELLS = 120
QUESTION = "question-"  # begins the ids of subagents' calls; no call of the session's own agent has such an id
SHOWN_CHARACTERS = 20_000  # of a result in the editor; the agent gets all of it
Post = Callable[[BaseModel], None]
Content = ContentToolCallContent | FileEditToolCallContent

CURRENT_CALL: ContextVar[str] = ContextVar("CURRENT_CALL", default="")
"""The id of the call that runs in this context."""

_KINDS: Mapping[str, ToolKind] = {
    "search_files": "search",
    "glob": "search",
    "switch_mode": "switch_mode",
    "TodoWrite": "think",
    "TodoRead": "think",
    "subagent": "think",
    "web_fetch": "fetch",
}
_KINDS_BY_CATEGORY: Mapping[str, ToolKind] = {
    "file_read": "read",
    "file_write": "edit",
    "shell": "execute",
    "python": "execute",
}
_TITLE_KEYS = ("command", "path", "url", "pattern", "query", "name")
"""Arguments that a call's title shows; the first one present counts."""


class AnnouncedCall(Struct):
    """A call that the editor knows and that has not ended."""

    name: str
    args: Mapping[str, Any]
    begun: bool = False


class ToolCalls:
    """Watches the tools of one session."""

    def __init__(self, post: Post, root: Path, clock: Clock, redactor: Redactor, ended: Callable[[], None]) -> None:
        """`root` is the directory tools work in; `ended` is called after each call."""
        self._post = post
        self._root = root
        self._clean = redactor.clean
        self._clean_all = redactor.clean_all
        self._ended = ended
        self._running = RunningTools(root, clock, self._on_finished)
        self._open: dict[str, AnnouncedCall] = {}

    def announce(self, call_id: str, name: str, args: Mapping[str, Any]) -> None:
        """Show a call that the model has made."""
        self._open[call_id] = AnnouncedCall(name, args)
        self._post(
            start_tool_call(
                call_id,
                call_title(name, args),
                kind=call_kind(name),
                status="pending",
                locations=call_locations(self._root, name, args),
                raw_input=dict(args),
            )
        )

    def watch(self, tool: Tool) -> Tool:
        """Return the tool; the editor sees when its calls run, and what they did."""
        watched = self._running.watch(tool)

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            token = CURRENT_CALL.set(self._begin_call(tool.name, args))
            try:
                return await watched.run(args)
            finally:
                CURRENT_CALL.reset(token)

        return msgspec.structs.replace(tool, run=run)

    def result(self, call_id: str, content: str, *, failed: bool) -> None:
        """Show the result of a call that did not run, e.g. of an unknown tool."""
        if call_id in self._open:
            self._close_call(call_id, [_text_content(content)], failed=failed)

    def end_turn(self) -> None:
        """Show the calls that are still open as failed: the turn was cancelled, or broke off."""
        for call_id in tuple(self._open):
            self._close_call(call_id, [_text_content("interrupted")], failed=True)

    def question_call(self, question: ApprovalQuestion) -> str:
        """Return the id of the call that a question is about; a subagent's call gets a new one."""
        if call_id := "" if question.agent else CURRENT_CALL.get():
            return call_id
        call_id = f"{QUESTION}{new_id()}"
        self.announce(call_id, question.tool, self._clean_all(json.loads(question.args)))
        return call_id

    def answered(self, call_id: str, *, allowed: bool) -> None:
        """Close what `question_call` announced for a subagent: its result is the subagent's."""
        if call_id.startswith(QUESTION):
            self._close_call(call_id, [_text_content("allowed" if allowed else "denied")], failed=not allowed)

    def proposed(self, question: ApprovalQuestion) -> list[Content]:
        """Return the change of a file that a question is about; empty if there is none, or it is unknown."""
        call = self._running.call_of(question)
        if patch := patch_of(call):
            return [_text_content(self._clean(patch))]
        after = proposed_text(call)
        return [] if after is None else list(self._diff_content(str(call.args.get("path")), call.before or "", after))

    def _begin_call(self, name: str, args: Mapping[str, Any]) -> str:
        # A tool runs without the call's id: find the announced call by tool, if possible by arguments, too.
        shown = self._clean_all(dict(args))
        waiting = [(call_id, call) for call_id, call in self._open.items() if call.name == name and not call.begun]
        if not waiting:
            return ""
        call_id, call = next((each for each in waiting if each[1].args == shown), waiting[0])
        call.begun = True
        self._post(update_tool_call(call_id, status="in_progress"))
        return call_id

    def _on_finished(self, call: FinishedCall) -> None:
        if call_id := CURRENT_CALL.get():
            content = [part for each in call.changes for part in self._diff_content(each.path, each.before, each.after)]
            if not content:
                content.append(_text_content(self._clean(call.output.content)))
            self._close_call(call_id, content, failed=call.output.failed)
        self._ended()

    def _close_call(self, call_id: str, content: Sequence[Content], *, failed: bool) -> None:
        self._open.pop(call_id, None)
        self._post(update_tool_call(call_id, status="failed" if failed else "completed", content=content))

    def _diff_content(self, path: str, before: str, after: str) -> Iterator[Content]:
        # An editor that undid a redacted change would write the redaction mark into the file.
        if self._clean(before) == before and self._clean(after) == after:
            yield tool_diff_content(str(self._root / path), after, before)
        else:
            yield _text_content(f"{path} was changed; the change is hidden, because the file contains secrets")


def call_kind(name: str) -> ToolKind:
    """Return the protocol's kind of a tool."""
    return _KINDS.get(name) or _KINDS_BY_CATEGORY.get(category_of(name) or "", "other")


def call_title(name: str, args: Mapping[str, Any]) -> str:
    """Return one line about a call: the command itself, or the tool and its telling argument."""
    telling = next((str(args[key]) for key in _TITLE_KEYS if key in args), "") or ", ".join(_patched_paths(name, args))
    return brief(telling if call_kind(name) == "execute" and telling else f"{name} {telling}".rstrip(), TITLE_CELLS)


def call_locations(root: Path, name: str, args: Mapping[str, Any]) -> list[ToolCallLocation]:
    """Return the files that a call works on, as absolute paths."""
    paths = [*_patched_paths(name, args), *(path for path in (args.get("path"),) if isinstance(path, str))]
    line = args.get("start_line")
    known = line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None
    return [ToolCallLocation(path=str(root / path), line=known) for path in dict.fromkeys(paths)]


def _patched_paths(name: str, args: Mapping[str, Any]) -> list[str]:
    patch = args.get("input") if name == "apply_patch" else None
    files = parse_patch(patch) if isinstance(patch, str) else ()
    return [] if isinstance(files, Refusal) else [path for file in files for path in file.paths]


def _text_content(content: str) -> ContentToolCallContent:
    return tool_content(text_block(truncate_text(content, SHOWN_CHARACTERS)))
