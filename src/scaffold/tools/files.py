"""Reading, writing and listing files of a workspace."""

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.passage import Passage, passage, pieces
from scaffold.tools.regular import opened, opened_folder, read_beginning, replace_regular
from scaffold.tools.text import LATIN_1, SNIFFED_BYTES, UTF_8, Decoded, Encoding, as_bytes, decode, lines_of, sniff
from scaffold.tools.workspace import (
    ANSWER_LIMIT,
    Patience,
    Place,
    Workspace,
    failed,
    in_a_thread,
    in_bounded_time,
    may_read,
    may_write,
    shown_name,
)

LINES_AT_ONCE = 2_000
LINE_LIMIT = 2_000
"""Characters of a line that are shown."""
READABLE_BYTES = 10_000_000
"""Files up to this are read whole, and edited; of longer ones the beginning tells the encoding."""
READ_TIME_S = 10.0
"""For a range of a long file, and for counting its lines."""
ENTRIES_AT_ONCE = 1_000

PATH = {"type": "string", "description": "Relative to the workspace."}


def read_file(workspace: Workspace, *, time_limit_s: float = READ_TIME_S) -> Tool:
    """Return the tool that shows a text file: a line with total and range, then `NUMBER<TAB>LINE` for each line.

    A file may have any length. Of one that is not counted in time the total is said to be more than what was counted.
    """

    def work(args: Mapping[str, Any], patience: Patience) -> ToolOutput:
        place = may_read(workspace, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        start = args.get("start_line", 1)
        if args.get("end_line", start) < start:
            return failed(f"`end_line` {args['end_line']} is before `start_line` {start}; give the lower number first.")
        end = min(args.get("end_line", start + LINES_AT_ONCE), start - 1 + LINES_AT_ONCE)
        part = _part(place, args["path"], start, end, patience)
        return failed(part.reason) if isinstance(part, Refusal) else _numbered(args, part)

    return Tool(
        name="read_file",
        description=f"Read a text file with line numbers; at most {LINES_AT_ONCE} lines at once.",
        schema=object_schema(
            {"path": PATH},
            start_line={"type": "integer", "minimum": 1, "description": "First line, from 1; default 1."},
            end_line={"type": "integer", "minimum": 1, "description": "Last line, included; default the end."},
        ),
        category="file_read",
        run=in_bounded_time(work, time_limit_s),
    )


def write_file(workspace: Workspace) -> Tool:
    """Return the tool that replaces or creates a whole file; missing folders are made, a file's mode is kept."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = may_write(workspace, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        data = as_bytes(args["content"], UTF_8)
        if isinstance(data, Refusal):
            return failed(data.reason)
        done = "replaced" if place.exists() else "created"
        refusal = replace_regular(workspace.root, place, data, args["path"], origin=None)
        if refusal:
            return failed(refusal.reason)
        return ToolOutput(f"{args['path']} {done}: {len(data)} bytes, {len(lines_of(args['content']))} lines.")

    return Tool(
        name="write_file",
        description="Write a whole text file; creates it and its folders if needed, replaces what was there.",
        schema=object_schema({"path": PATH, "content": {"type": "string", "description": "The whole new content."}}),
        category="file_write",
        run=in_a_thread(work),
    )


def list_dir(workspace: Workspace) -> Tool:
    """Return the tool that lists a folder: `KIND SIZE MTIME NAME` a line, sorted by name, sizes in bytes."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = may_read(workspace, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        if not place.path.is_dir():
            return failed(f"{args['path']} is no folder; list the one it would be in.")
        with opened_folder(place.folder, place.path) as folder:
            entries = sorted(name for name in os.listdir(folder) if name != ".git")  # noqa: PTH208 - of a descriptor
            lines = [line for name in entries[:ENTRIES_AT_ONCE] if (line := _entry(folder, name))]
        left_out = len(entries) - len(lines)
        more = [f"... {left_out} more; list a folder inside, or use search_files."] if left_out else []
        return ToolOutput("\n".join([f"{args['path']}: {len(entries)} entries", *lines, *more]))

    return Tool(
        name="list_dir",
        description="List a folder: kind, size in bytes, time of the last change (UTC) and name of each entry.",
        schema=object_schema({"path": PATH}),
        category="file_read",
        run=in_a_thread(work),
    )


def text_of(place: Place, shown: str) -> Decoded | Encoding | Refusal:
    """Return the text of a file, only its encoding if it is too long to be read whole, or why it is not to be had.

    `shown` is what the model calls it.
    """
    content = read_beginning(place.folder, place.path, shown, limit_bytes=READABLE_BYTES)
    if isinstance(content, Refusal):
        return content
    if content.cut:
        known: Decoded | Encoding | None = sniff(content.data[:SNIFFED_BYTES], whole=False)
    else:
        known = decode(content.data)
    size = max(content.origin.size, len(content.data))  # what the system makes up while it is read has no size
    return known or Refusal(f"{shown} is a binary file of {size} bytes; look at it with shell (file, xxd).")


def changed_at(status: os.stat_result) -> str:
    """Return when a file was last changed: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat().replace("+00:00", "Z")


def kind_of(status: os.stat_result) -> str:
    """Return `file`, `dir`, `link`, or `other` for pipes, sockets and devices."""
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "dir"), (stat.S_ISREG, "file"))
    return next((kind for fits, kind in kinds if fits(status.st_mode)), "other")


class _Part(Struct, frozen=True):
    """What is shown of a file; `counted` tells whether it was read to its end."""

    passage: Passage
    start: int
    encoding: Encoding
    counted: bool


def _part(place: Place, shown: str, start: int, end: int, patience: Patience) -> _Part | Refusal:
    """Return the lines `start` to `end` of a file, or why they are not to be had."""
    text = text_of(place, shown)
    if isinstance(text, Refusal):
        return text
    if isinstance(text, Decoded):
        return _Part(passage(iter([text.text]), start, end, LINE_LIMIT), start, text.encoding, counted=True)
    with opened(place.folder, place.path, os.O_RDONLY) as fd:
        found = passage(pieces(fd, text, patience), start, end, LINE_LIMIT)
    return _Part(found, start, text, counted=not patience.is_over)


def _numbered(args: Mapping[str, Any], part: _Part) -> ToolOutput:
    path, start, total = args["path"], part.start, part.passage.total
    if total == 0 and part.counted:
        return ToolOutput(f"{path}: total_lines 0, the file is empty")
    wanted = min(args.get("end_line", total), total)
    if not part.passage.lines:
        return failed(_unfound(path, total, counted=part.counted))
    shown: list[str] = []
    room = ANSWER_LIMIT
    for number, line in enumerate(part.passage.lines, start):
        more = f" ... {line.more} more characters" if line.more else ""
        shown.append(f"{number}\t{line.text}{more}")
        room -= len(shown[-1]) + 1
        if room < 0:
            break
    last = start - 1 + len(shown)
    rest = [f"... go on with start_line {last + 1}"] if last < wanted else []
    count = f"{total}" if part.counted else f"more than {total}"
    head = f"{path}: total_lines {count}, range {start}-{last}{_note(part.encoding)}"
    return ToolOutput("\n".join([head, *shown, *rest]))


def _unfound(path: str, total: int, *, counted: bool) -> str:
    if counted:
        return f"{path} has {total} lines; ask for a range inside 1-{total}."
    return f"What was read of {path} in time has {total} lines; take later ones with shell (sed -n, tail)."


def _note(encoding: Encoding) -> str:
    if encoding == UTF_8:
        return ""
    return f", encoding {encoding.name}" + (" (a guess: it is not UTF-8)" if encoding == LATIN_1 else "")


def _entry(folder: int, name: str) -> str | None:
    """Return the line on an entry of a folder, None if it is gone."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind, changed, shown = kind_of(status), changed_at(status), shown_name(name)
        match kind:
            case "link":
                target = shown_name(os.readlink(name, dir_fd=folder))
                return f"link {status.st_size} {changed} {shown} -> {target}"
            case "dir":
                return f"dir - {changed} {shown}/"
            case _:
                return f"{kind} {status.st_size} {changed} {shown}"
    except FileNotFoundError:
        return None
