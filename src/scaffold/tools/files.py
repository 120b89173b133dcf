"""Reading, writing and listing files of a workspace."""

import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.files import write_atomic
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace, failed, in_a_thread

LINES_AT_ONCE = 2_000
LINE_LIMIT = 2_000
"""Characters of a line that are shown."""
READABLE_BYTES = 10_000_000
ENTRIES_AT_ONCE = 1_000
SNIFFED_BYTES = 8_192

PATH = {"type": "string", "description": "Relative to the workspace."}


def read_file(workspace: Workspace) -> Tool:
    """Return the tool that shows a text file: a line with total and range, then `NUMBER<TAB>LINE` for each line."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = confine(workspace.root, args["path"])
        if isinstance(place, Refusal):
            return failed(place.reason)
        text = readable_text(place, args["path"])
        if isinstance(text, Refusal):
            return failed(text.reason)
        return _numbered(args["path"], text, args.get("start_line", 1), args.get("end_line"))

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
        if place.exists() and not place.is_file():
            return failed(f"{args['path']} is no file; choose another path.")
        try:
            data = args["content"].encode()
        except UnicodeEncodeError:
            return failed("`content` has half a surrogate pair in it; send whole Unicode characters.")
        done = "replaced" if place.exists() else "created"
        _write(place, data)
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


def readable_text(place: Path, shown: str) -> str | Refusal:
    """Return the text of a file, or why it is not to be had; `shown` is what the model calls it."""
    data = _content(place, shown)
    if isinstance(data, Refusal):
        return data
    if b"\0" in data[:SNIFFED_BYTES]:
        return Refusal(f"{shown} is a binary file of {len(data)} bytes; look at it with shell (file, xxd).")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return Refusal(f"{shown} is not UTF-8 text (byte {error.start}); convert it with shell (iconv) to read it.")


def _content(place: Path, shown: str) -> bytes | Refusal:
    if place.is_dir():
        return Refusal(f"{shown} is a folder; use list_dir.")
    if not place.is_file():
        return Refusal(f"There is no file {shown}; look with list_dir, or find it with search_files.")
    try:
        size = place.stat().st_size
        if size > READABLE_BYTES:
            return Refusal(f"{shown} has {size} bytes, too many to read; take a part with shell (head, sed -n, grep).")
        return place.read_bytes()
    except OSError as error:
        return Refusal(f"{shown} cannot be read ({error.strerror}); use another file.")


def lines_of(text: str) -> list[str]:
    r"""Return the lines without their ends, which are `\n` or `\r\n`; a last end opens no further line."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _numbered(path: str, text: str, start: int, end: int | None) -> ToolOutput:
    lines = lines_of(text)
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
    return ToolOutput("\n".join([f"{path}: total_lines {total}, range {start}-{last}", *shown, *more]))


def _cut(line: str) -> str:
    if len(line) <= LINE_LIMIT:
        return line
    return f"{line[:LINE_LIMIT]} ... {len(line) - LINE_LIMIT} more characters"


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()  # gives a new file the mode that the user's umask asks for
    mode = stat.S_IMODE(place.stat().st_mode)
    write_atomic(place, data)
    place.chmod(mode)


def _entry(entry: Path) -> str:
    status = entry.lstat()
    changed = datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat().replace("+00:00", "Z")
    if stat.S_ISLNK(status.st_mode):
        return f"link {status.st_size} {changed} {entry.name} -> {entry.readlink()}"
    if stat.S_ISDIR(status.st_mode):
        return f"dir - {changed} {entry.name}/"
    kind = "file" if stat.S_ISREG(status.st_mode) else "other"
    return f"{kind} {status.st_size} {changed} {entry.name}"
