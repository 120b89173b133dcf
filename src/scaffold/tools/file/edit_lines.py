"""The tool that changes lines of a file."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from scaffold.core.printable_text import count_of, truncate_text
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.line_edits import EditResult, LineEdit, apply_edits, parse_edits
from scaffold.tools.content.safe_open import FileContent, hard_link_note, read_whole, replace_file
from scaffold.tools.content.seen_files import whole_content
from scaffold.tools.content.text_encoding import decode
from scaffold.tools.content.text_replacement import TextReplacement, replace_text
from scaffold.tools.file.read_write import MAX_READ_BYTES, MORE_FILE_TOOLS, PATH_SCHEMA
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace, failed_answer, resolve_writable, run_in_thread

MAX_SHOWN_CHARS = 500
"""Of each line in the answer to a change."""
ResultT = TypeVar("ResultT", bound=EditResult)
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
        def change(target: Path, text: str) -> EditResult | Refusal:
            changes = _current_edits(workspace, target, args["path"], args["operations"])
            return changes if isinstance(changes, Refusal) else apply_edits(text, changes)

        changed = _change_file(workspace, args["path"], change)
        return failed_answer(changed.reason) if isinstance(changed, Refusal) else ToolOutput(changed[0])

    return Tool(
        name="apply_delta",
        description=(
            "Change lines of a text file by number. The numbers in all calls of a reply are those of the file as you "
            "last saw it. Give `expected`, the current lines to the last space, unless you have just read the file."
        ),
        schema=object_schema({"path": PATH_SCHEMA, "operations": {"type": "array", "items": _OPERATION}}),
        category="file_write",
        run=run_in_thread(work),
        group=MORE_FILE_TOOLS,
    )


def _change_file(
    workspace: Workspace, shown: str, change: Callable[[Path, str], ResultT | Refusal]
) -> tuple[str, ResultT] | Refusal:
    """Give a file the text that `change` makes of its path and text; return the report, and what `change` returned."""
    target = resolve_writable(workspace, shown)
    if isinstance(target, Refusal):
        return target
    content = read_whole(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    if outdated := workspace.seen.change_since(target, content, shown):
        return outdated
    changed = changed_content(content, shown, partial(change, target))
    if isinstance(changed, Refusal):
        return changed
    data, result = changed
    if refusal := replace_file(workspace.root, target, data, shown, origin=content.origin):
        return refusal
    workspace.seen.record_edits(target, whole_content(data), result.edits)
    return change_report(shown, result.diff) + hard_link_note(content), result


def changed_content(
    content: FileContent, shown: str, change: Callable[[str], ResultT | Refusal]
) -> tuple[bytes, ResultT] | Refusal:
    """Return a file's bytes with the text that `change` makes of its text, in its encoding, and what that returned."""
    decoded = decode(content.data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file; change it with shell or python.")
    result = change(decoded.text)
    if isinstance(result, Refusal):
        return result
    data = decoded.rewritten(result.text)
    return data if isinstance(data, Refusal) else (data, result)


def _current_edits(
    workspace: Workspace, target: Path, shown: str, operations: list[Mapping[str, Any]]
) -> Sequence[LineEdit] | Refusal:
    changes = parse_edits(operations)
    if isinstance(changes, Refusal):
        return changes
    if not workspace.seen.knows_lines(target) and any(change.expected is None for change in changes):
        since = " since it was shortened" if workspace.seen.knows(target) else ""
        return Refusal(f"{shown} was not read in this conversation{since}: read it first, or give `expected`.")
    return workspace.seen.renumbered(target, changes)


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
        everywhere = args.get("replace_all", False)

        def change(_: Path, text: str) -> TextReplacement | Refusal:
            found = replace_text(text, args["old"], args["new"], everywhere=everywhere)
            return Refusal(f"{args['path']}: {found.reason}") if isinstance(found, Refusal) else found

        changed = _change_file(workspace, args["path"], change)
        if isinstance(changed, Refusal):
            return failed_answer(changed.reason)
        report, replacement = changed
        return ToolOutput(report + (f" {count_of(replacement.count, 'place')} replaced." if everywhere else ""))

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
