"""The tool that changes lines of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scaffold.core.printable_text import count_of, truncate_text
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.line_edits import EditResult, LineEdit, apply_edits, parse_edits
from scaffold.tools.content.safe_open import FileContent, read_whole, replace_file
from scaffold.tools.content.seen_files import whole_content
from scaffold.tools.content.text_encoding import decode, encode_text
from scaffold.tools.content.text_replacement import TextReplacement, replace_text
from scaffold.tools.file.read_write import MAX_READ_BYTES, PATH_SCHEMA
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace, failed_answer, resolve_writable, run_in_thread

MAX_SHOWN_CHARS = 500
"""Of each line in the answer to a change."""
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
        if isinstance(changed, Refusal):
            return failed_answer(changed.reason)
        return ToolOutput(change_report(args["path"], changed.diff))

    return Tool(
        name="apply_delta",
        description=(
            "Change lines of a text file by number. The numbers in all calls of a reply are those of the file as you "
            "last saw it. Give `expected`, the current lines to the last space, unless you have just read the file."
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
    changes = _current_edits(workspace, target, content, shown, operations)
    if isinstance(changes, Refusal):
        return changes
    edited = _edit_bytes(content.data, changes, shown)
    if isinstance(edited, Refusal):
        return edited
    data, outcome = edited
    if refusal := replace_file(workspace.root, target, data, shown, origin=content.origin):
        return refusal
    workspace.seen.record_edits(target, whole_content(data), changes)
    return outcome


def _current_edits(
    workspace: Workspace, target: Path, content: FileContent, shown: str, operations: list[Mapping[str, Any]]
) -> Sequence[LineEdit] | Refusal:
    if changed := workspace.seen.change_since(target, content, shown):
        return changed
    changes = parse_edits(operations)
    if isinstance(changes, Refusal):
        return changes
    if not workspace.seen.knows_lines(target) and any(change.expected is None for change in changes):
        since = " since it was shortened" if workspace.seen.knows(target) else ""
        return Refusal(f"{shown} was not read in this conversation{since}: read it first, or give `expected`.")
    return workspace.seen.renumbered(target, changes)


def _edit_bytes(data: bytes, changes: Sequence[LineEdit], shown: str) -> tuple[bytes, EditResult] | Refusal:
    decoded = decode(data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    outcome = apply_edits(decoded.text, changes)
    if isinstance(outcome, Refusal):
        return outcome
    written = encode_text(outcome.text, decoded.encoding)
    return written if isinstance(written, Refusal) else (decoded.encoding.bom + written, outcome)


def change_report(path: str, diff: Sequence[str]) -> str:
    """Return the answer to a change of a file, which shows the hunks of its diff."""
    added = sum(line.startswith("+") for line in diff)
    removed = sum(line.startswith("-") for line in diff)
    # A line of a generated file may be all there is in it.
    cut = [
        line if (more := len(line) - MAX_SHOWN_CHARS) <= 0 else f"{line[:MAX_SHOWN_CHARS]} ... {more} more characters"
        for line in diff
    ]
    shown = truncate_text("\n".join(cut), MAX_ANSWER_CHARS)
    return f"{path} changed, lines: +{added} -{removed}\n{shown}"


def edit(workspace: Workspace) -> Tool:
    """Return the tool that replaces one exact text in a file, or every occurrence of it.

    Encoding, line endings and the mode are kept.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        replaced = _replace_in_file(workspace, args)
        if isinstance(replaced, Refusal):
            return failed_answer(replaced.reason)
        places = f" {count_of(replaced.count, 'place')} replaced." if args.get("replace_all") else ""
        return ToolOutput(change_report(args["path"], replaced.diff) + places)

    return Tool(
        name="edit",
        description=(
            "Replace `old` by `new` in a text file. `old` must be the exact text, spaces included, and occur once: "
            "include lines around it, or set `replace_all`."
        ),
        schema=object_schema(
            {
                "path": PATH_SCHEMA,
                "old": {"type": "string", "description": "The text to replace, without line numbers."},
                "new": {"type": "string", "description": "What to put in its place; empty to delete it."},
            },
            replace_all={"type": "boolean", "description": "Replace every occurrence."},
        ),
        category="file_write",
        run=run_in_thread(work),
    )


def _replace_in_file(workspace: Workspace, args: Mapping[str, Any]) -> TextReplacement | Refusal:
    shown = args["path"]
    target = resolve_writable(workspace, shown)
    if isinstance(target, Refusal):
        return target
    content = read_whole(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    if changed := workspace.seen.change_since(target, content, shown):
        return changed
    replaced = _replace_content(content, args, shown)
    if isinstance(replaced, Refusal):
        return replaced
    data, replacement = replaced
    if refusal := replace_file(workspace.root, target, data, shown, origin=content.origin):
        return refusal
    workspace.seen.record_edits(target, whole_content(data), replacement.edits)
    return replacement


def _replace_content(
    content: FileContent, args: Mapping[str, Any], shown: str
) -> tuple[bytes, TextReplacement] | Refusal:
    decoded = decode(content.data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    replacement = replace_text(decoded.text, args["old"], args["new"], everywhere=args.get("replace_all", False))
    if isinstance(replacement, Refusal):
        return Refusal(f"{shown}: {replacement.reason}")
    encoded = encode_text(replacement.text, decoded.encoding)
    return encoded if isinstance(encoded, Refusal) else (decoded.encoding.bom + encoded, replacement)
