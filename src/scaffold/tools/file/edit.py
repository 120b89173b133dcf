"""The tool that changes lines of a file."""

from collections.abc import Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.file.line_edits import EditResult, LineEdit, apply_edits, parse_edits
from scaffold.tools.file.read_write import MAX_READ_BYTES, PATH_SCHEMA
from scaffold.tools.file.safe_open import read_whole, replace_file
from scaffold.tools.file.text_encoding import decode, encode_text
from scaffold.tools.workspace import (
    MAX_ANSWER_CHARS,
    Workspace,
    failed_answer,
    resolve_writable,
    run_in_thread,
    truncate_text,
)

_LINE = {"type": "integer", "minimum": 1}
_OPERATION = object_schema(
    {
        "operation": {"type": "string", "enum": ["insert", "replace", "delete"]},
        "start_line": _LINE
        | {"description": "First line; insert puts its content before it (total_lines + 1: at the end)."},
    },
    end_line=_LINE | {"description": "Last line, inclusive; default as many lines as `expected` has, or one."},
    content={"type": "string", "description": "The new lines, for insert and replace."},
    expected={"type": "string", "description": "The current lines; if they differ, nothing is changed."},
)


def apply_delta(workspace: Workspace) -> Tool:
    """Return the tool that inserts, replaces and deletes lines of a text file: all operations or none.

    Line numbers are those before the call. Encoding, line endings, a missing final newline and the mode are kept.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        changed = _apply_to_file(workspace, args["path"], args["operations"])
        return (
            failed_answer(changed.reason)
            if isinstance(changed, Refusal)
            else ToolOutput(_report(args["path"], changed))
        )

    return Tool(
        name="apply_delta",
        description=(
            "Change lines of a text file: all operations or none. Line numbers are those before the call. "
            "Give `expected`, the lines as you know them, to avoid changing the wrong lines."
        ),
        schema=object_schema({"path": PATH_SCHEMA, "operations": {"type": "array", "items": _OPERATION}}),
        category="file_write",
        run=run_in_thread(work),
    )


def _apply_to_file(workspace: Workspace, shown: str, operations: list[Mapping[str, Any]]) -> EditResult | Refusal:
    target = resolve_writable(workspace, shown)
    if isinstance(target, Refusal):
        return target
    content = read_whole(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    changes = parse_edits(operations)
    if isinstance(changes, Refusal):
        return changes
    edited = _edit_bytes(content.data, changes, shown)
    if isinstance(edited, Refusal):
        return edited
    data, outcome = edited
    return replace_file(workspace.root, target, data, shown, origin=content.origin) or outcome


def _edit_bytes(data: bytes, changes: Sequence[LineEdit], shown: str) -> tuple[bytes, EditResult] | Refusal:
    decoded = decode(data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    outcome = apply_edits(decoded.text, changes)
    if isinstance(outcome, Refusal):
        return outcome
    written = encode_text(outcome.text, decoded.encoding)
    return written if isinstance(written, Refusal) else (decoded.encoding.bom + written, outcome)


def _report(path: str, outcome: EditResult) -> str:
    added = sum(line.startswith("+") for line in outcome.diff)
    removed = sum(line.startswith("-") for line in outcome.diff)
    warnings = [f"Warning: {warning}" for warning in outcome.warnings]
    diff = truncate_text("\n".join(outcome.diff), MAX_ANSWER_CHARS)
    return "\n".join([f"{path} changed, lines: +{added} -{removed}", *warnings, diff])
