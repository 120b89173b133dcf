"""Reading, writing and listing files of a workspace."""

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.arguments import object_schema
from scaffold.tools.regular import read_regular, replace_regular
from scaffold.tools.text import LATIN_1, UTF_8, Decoded, Encoding, as_bytes, decode, lines_of
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace, failed, in_a_thread

LINES_AT_ONCE = 2_000
LINE_LIMIT = 2_000
"""Characters of a line that are shown."""
READABLE_BYTES = 10_000_000
ENTRIES_AT_ONCE = 1_000

PATH = {"type": "string", "description": "Relative to the workspace."}


def read_file(workspace: Workspace) -> Tool:
    """Return the tool that shows a text file: a line with total and range, then `NUMBER<TAB>LINE` for each line."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = confine(workspace.root, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        decoded = readable_text(workspace.root, place, args["path"])
        if isinstance(decoded, Refusal):
            return failed(decoded.reason)
        return _numbered(args["path"], decoded, args.get("start_line", 1), args.get("end_line"))

    return Tool(
        name="read_file",
        description=f"Read a text file with line numbers; at most {LINES_AT_ONCE} lines at once.",
        schema=object_schema(
            {"path": PATH},
            start_line={"type": "integer", "minimum": 1, "description": "First line, from 1; default 1."},
            end_line={"type": "integer", "minimum": 1, "description": "Last line, included; default the end."},
        ),
        category="file_read",
        run=in_a_thread(work),
    )


def write_file(workspace: Workspace) -> Tool:
    """Return the tool that replaces or creates a whole file; missing folders are made, a file's mode is kept."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = confine(workspace.root, args["path"])
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
        place = confine(workspace.root, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        if not place.is_dir():
            return failed(f"{args['path']} is no folder; list the one it would be in.")
        entries = sorted(entry for entry in place.iterdir() if entry.name != ".git")
        lines = [_entry(entry) for entry in islice(entries, ENTRIES_AT_ONCE)]
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


def readable_text(root: Path, place: Path, shown: str) -> Decoded | Refusal:
    """Return the text of a file inside `root`, or why it is not to be had; `shown` is what the model calls it."""
    content = read_regular(root, place, shown, limit_bytes=READABLE_BYTES)
    if isinstance(content, Refusal):
        return content
    decoded = decode(content.data)
    if decoded is None:
        return Refusal(f"{shown} is a binary file of {len(content.data)} bytes; look at it with shell (file, xxd).")
    return decoded


def changed_at(status: os.stat_result) -> str:
    """Return when a file was last changed: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat().replace("+00:00", "Z")


def kind_of(status: os.stat_result) -> str:
    """Return `file`, `dir`, `link`, or `other` for pipes, sockets and devices."""
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "dir"), (stat.S_ISREG, "file"))
    return next((kind for fits, kind in kinds if fits(status.st_mode)), "other")


def _numbered(path: str, decoded: Decoded, start: int, end: int | None) -> ToolOutput:
    lines = lines_of(decoded.text)
    total = len(lines)
    if total == 0:
        return ToolOutput(f"{path}: total_lines 0, the file is empty")
    if start > total or (end is not None and end < start):
        return failed(f"{path} has {total} lines; ask for a range inside 1-{total}.")
    shown: list[str] = []
    room = ANSWER_LIMIT
    for number, line in islice(enumerate(lines, 1), start - 1, min(end or total, start - 1 + LINES_AT_ONCE)):
        shown.append(f"{number}\t{_cut(line)}")
        room -= len(shown[-1]) + 1
        if room < 0:
            break
    last = start - 1 + len(shown)
    wanted = min(end or total, total)
    more = [f"... go on with start_line {last + 1}"] if last < wanted else []
    head = f"{path}: total_lines {total}, range {start}-{last}{_note(decoded.encoding)}"
    return ToolOutput("\n".join([head, *shown, *more]))


def _note(encoding: Encoding) -> str:
    if encoding == UTF_8:
        return ""
    return f", encoding {encoding.name}" + (" (a guess: it is not UTF-8)" if encoding == LATIN_1 else "")


def _cut(line: str) -> str:
    if len(line) <= LINE_LIMIT:
        return line
    return f"{line[:LINE_LIMIT]} ... {len(line) - LINE_LIMIT} more characters"


def _entry(entry: Path) -> str:
    status = entry.lstat()
    kind, changed = kind_of(status), changed_at(status)
    match kind:
        case "link":
            return f"link {status.st_size} {changed} {entry.name} -> {entry.readlink()}"
        case "dir":
            return f"dir - {changed} {entry.name}/"
        case _:
            return f"{kind} {status.st_size} {changed} {entry.name}"
