"""Changing some lines of a file."""

from collections.abc import Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.delta import Change, Outcome, apply, read_changes
from scaffold.tools.files import PATH, READABLE_BYTES
from scaffold.tools.regular import read_regular, replace_regular
from scaffold.tools.text import as_bytes, decode
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace, excerpt, failed, in_a_thread, may_write

_LINE = {"type": "integer", "minimum": 1}
_OPERATION = object_schema(
    {
        "operation": {"type": "string", "enum": ["insert", "replace", "delete"]},
        "start_line": _LINE
        | {"description": "First line; insert puts its content before it (total_lines + 1: at the end)."},
    },
    end_line=_LINE | {"description": "Last line, included; default as many lines as `expected` has, or one."},
    content={"type": "string", "description": "The new lines, for insert and replace."},
    expected={"type": "string", "description": "The lines as they are now: if they are not, nothing is changed."},
)


def apply_delta(workspace: Workspace) -> Tool:
    """Return the tool that inserts, replaces and deletes lines of a text file: all operations or none.

    Line numbers are those before the call. Encoding, line ends, the end of the last line and the mode stay.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        changed = _change(workspace, args["path"], args["operations"])
        return failed(changed.reason) if isinstance(changed, Refusal) else ToolOutput(_report(args["path"], changed))

    return Tool(
        name="apply_delta",
        description=(
            "Change lines of a text file: all operations or none, each by the line numbers from before the call. "
            "Give `expected`, the lines as you know them, so that nothing is changed by mistake."
        ),
        schema=object_schema({"path": PATH, "operations": {"type": "array", "items": _OPERATION}}),
        category="file_write",
        run=in_a_thread(work),
    )


def _change(workspace: Workspace, shown: str, operations: list[Mapping[str, Any]]) -> Outcome | Refusal:
    place = may_write(workspace, shown)
    if isinstance(place, Refusal):
        return place
    content = read_regular(workspace.root, place, shown, limit_bytes=READABLE_BYTES)
    if isinstance(content, Refusal):
        return content
    changes = read_changes(operations)
    if isinstance(changes, Refusal):
        return changes
    edited = _edited(content.data, changes, shown)
    if isinstance(edited, Refusal):
        return edited
    data, outcome = edited
    return replace_regular(workspace.root, place, data, shown, origin=content.origin) or outcome


def _edited(data: bytes, changes: Sequence[Change], shown: str) -> tuple[bytes, Outcome] | Refusal:
    decoded = decode(data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    outcome = apply(decoded.text, changes)
    if isinstance(outcome, Refusal):
        return outcome
    written = as_bytes(outcome.text, decoded.encoding)
    return written if isinstance(written, Refusal) else (decoded.encoding.mark + written, outcome)


def _report(path: str, outcome: Outcome) -> str:
    added = sum(line.startswith("+") for line in outcome.diff)
    removed = sum(line.startswith("-") for line in outcome.diff)
    warnings = [f"Warning: {warning}" for warning in outcome.warnings]
    diff = excerpt("\n".join(outcome.diff), ANSWER_LIMIT)
    return "\n".join([f"{path} changed: +{added} -{removed} lines", *warnings, diff])
