"""The tools that read, write and list files of a workspace."""

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.near_paths import missing_folder
from scaffold.tools.content.safe_open import (
    FileContent,
    hard_link_note,
    open_file,
    open_folder,
    read_head,
    replace_file,
)
from scaffold.tools.content.seen_files import SeenFiles, whole_content
from scaffold.tools.content.text_encoding import (
    BYTE_ORDER_MARK,
    SNIFF_BYTES,
    UTF_8,
    Decoded,
    Encoding,
    decode,
    detect_encoding,
    dominant_line_end,
    split_lines,
)
from scaffold.tools.file.line_reader import LineRange, decode_chunks, read_range
from scaffold.tools.workspace import (
    MAX_ANSWER_CHARS,
    Deadline,
    ReadablePath,
    Workspace,
    failed_answer,
    printable_name,
    resolve_readable,
    resolve_writable,
    run_in_thread,
    run_with_deadline,
)

MAX_LINES = 2_000
MAX_LINE_CHARS = 2_000
"""Longer lines are cut to this."""
MAX_READ_BYTES = 10_000_000
"""Files up to this size are read whole and can be edited; longer ones are streamed, encoding detected from the head."""
READ_TIMEOUT_S = 10.0
"""For reading a range of a long file and counting its lines."""
MAX_ENTRIES = 1_000

PATH_SCHEMA = {"type": "string"}
MORE_FILE_TOOLS = ToolGroup("files")
"""What few conversations need besides the other file tools."""


def read_file(workspace: Workspace, *, time_limit_s: float = READ_TIMEOUT_S) -> Tool:
    """Return the tool that shows a text file: a line with total and range, then `NUMBER<TAB>LINE` for each line.

    Files may have any length. If counting times out, the total is given as `more than` the lines counted.
    """

    def work(args: Mapping[str, Any], deadline: Deadline) -> ToolOutput:
        readable = resolve_readable(workspace, args["path"])
        if isinstance(readable, Refusal):
            return failed_answer(readable.reason)
        start = args.get("start_line", 1)
        if args.get("end_line", start) < start:
            return failed_answer(
                f"`end_line` {args['end_line']} is before `start_line` {start}; give the lower number first."
            )
        end = min(args.get("end_line", start + MAX_LINES), start - 1 + MAX_LINES)
        part = _read_excerpt(workspace.seen, readable, args["path"], start, end, deadline)
        return failed_answer(part.reason) if isinstance(part, Refusal) else _numbered_output(args, part)

    return Tool(
        name="read_file",
        description=f"Read a text file with line numbers; at most {MAX_LINES} lines at once.",
        schema=object_schema(
            {"path": PATH_SCHEMA},
            start_line={"type": "integer", "minimum": 1, "description": "First line, from 1; default 1."},
            end_line={"type": "integer", "minimum": 1, "description": "Last line, inclusive; default the end."},
        ),
        category="file_read",
        run=run_with_deadline(work, time_limit_s),
    )


def write_file(workspace: Workspace) -> Tool:
    """Return the tool that creates or replaces a whole file; creates missing folders.

    What is replaced keeps its mode, encoding, line endings, and a newline at its end.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        """Write the file, or return why it cannot be written."""
        written = _write_whole(workspace, args["path"], args["content"])
        return failed_answer(written.reason) if isinstance(written, Refusal) else ToolOutput(written)

    return Tool(
        name="write_file",
        description="Write a whole text file: creates missing folders; replaces a file only after you have read it.",
        schema=object_schema(
            {"path": PATH_SCHEMA, "content": {"type": "string", "description": "The whole new content."}}
        ),
        category="file_write",
        run=run_in_thread(work),
    )


def _write_whole(workspace: Workspace, shown: str, text: str) -> str | Refusal:
    target = resolve_writable(workspace, shown)
    if isinstance(target, Refusal):
        return target
    before = content_before(workspace, target, shown)
    if isinstance(before, Refusal):
        return before
    replacement = in_the_manner_of(before, text, shown)
    if isinstance(replacement, Refusal):
        return replacement
    text, data, encoding = replacement
    if refusal := replace_file(workspace.root, target, data, shown, origin=before.origin if before else None):
        return refusal
    workspace.seen.record(target, whole_content(data))
    size = f"{count_of(len(data), 'byte')}, {count_of(len(split_lines(text)), 'line')}"
    crlf = ", lines end with CRLF" if dominant_line_end(text) == "\r\n" else ""
    kept = f"{size}{_encoding_note(encoding)}{crlf}"
    return f"{shown} {'replaced' if before else 'created'}: {kept}.{hard_link_note(before)}"


def content_before(workspace: Workspace, target: Path, shown: str) -> FileContent | Refusal | None:
    """Return the file that is about to be replaced, None if there is none, or why it must not be replaced."""
    if not target.is_file():  # anything but a regular file is refused when it is to be replaced
        return workspace.seen.change_since(target, None, shown)
    content = read_head(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    if changed := workspace.seen.change_since(target, content, shown):
        return changed
    if content.data and not workspace.replaces_unread and not workspace.seen.knows(target):
        return Refusal(
            f"{shown} exists and was not read in this conversation; nothing was written. Read it first, or change "
            "only a part of it with edit."
        )
    return content


def in_the_manner_of(before: FileContent | None, text: str, shown: str) -> tuple[str, bytes, Encoding] | Refusal:
    """Return the text with the line endings and the newline at the end of what it replaces, its bytes, its encoding.

    A byte order mark belongs to the encoding, so the text's own is left out. Refused if they cannot be encoded so.
    """
    old = Decoded("", UTF_8)
    if before is not None and before.data:
        encoding = detect_encoding(before.data, whole=not before.cut)
        if encoding is None:
            return Refusal(
                f"{shown} is a binary file, or UTF-16 without a byte order mark; nothing was written. Delete it first "
                "if it is to become a text."
            )
        old = (None if before.cut else decode(before.data)) or Decoded(
            before.data[len(encoding.bom) :].decode(encoding.python_name, errors="replace"), encoding
        )
    text = text.removeprefix(BYTE_ORDER_MARK) if old.encoding.bom else text
    if before and "\n" in old.text:
        end = dominant_line_end(old.text)
        text = text.replace("\r\n", "\n").replace("\n", end)
        if text and old.text.endswith("\n") and not before.cut and not text.endswith("\n"):
            text += end
    data = old.rewritten(text)
    return data if isinstance(data, Refusal) else (text, data, old.encoding)


def list_dir(workspace: Workspace) -> Tool:
    """Return the tool that lists a folder: `KIND SIZE MTIME NAME` a line, sorted by name, sizes in bytes."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        readable = resolve_readable(workspace, args["path"])
        if isinstance(readable, Refusal):
            return failed_answer(readable.reason)
        if not readable.path.is_dir():
            if readable.path.exists():
                return failed_answer(f"{args['path']} is not a folder; list its parent folder.")
            return failed_answer(missing_folder(readable.folder, args["path"]))
        with open_folder(readable.folder, readable.path) as folder:
            entries = sorted(name for name in os.listdir(folder) if name != ".git")  # noqa: PTH208 - of a descriptor
            lines = [line for name in entries[:MAX_ENTRIES] if (line := _folder_entry(folder, name))]
        left_out = len(entries) - len(lines)
        more = [f"... {left_out} more; list a subfolder, or use search_files."] if left_out else []
        return ToolOutput("\n".join([f"{args['path']}: {count_of(len(entries), 'entry', 'entries')}", *lines, *more]))

    return Tool(
        name="list_dir",
        description="List a folder: kind, size in bytes, last change (UTC) and name of each entry.",
        schema=object_schema({"path": PATH_SCHEMA}),
        category="file_read",
        run=run_in_thread(work),
    )


def decode_file(readable: ReadablePath, shown: str) -> Decoded | Encoding | Refusal:
    """Return a file's text, only its encoding if it is too long to read whole, or why it cannot be read.

    `shown` is the path as the model wrote it.
    """
    content = read_head(readable.folder, readable.path, shown, limit_bytes=MAX_READ_BYTES)
    return content if isinstance(content, Refusal) else _decode_content(content, shown)


def _decode_content(content: FileContent, shown: str) -> Decoded | Encoding | Refusal:
    if content.cut:
        known: Decoded | Encoding | None = detect_encoding(content.data[:SNIFF_BYTES], whole=False)
    else:
        known = decode(content.data)
    size = max(content.origin.size, len(content.data))  # files generated by the kernel (/proc) report size 0
    return known or Refusal(f"{shown} is a binary file of {size} bytes; inspect it with shell (file, xxd).")


def format_mtime(status: os.stat_result) -> str:
    """Return the time of the last change: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat().replace("+00:00", "Z")


def file_kind(status: os.stat_result) -> str:
    """Return `file`, `dir`, `link`, or `other` for pipes, sockets and devices."""
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "dir"), (stat.S_ISREG, "file"))
    return next((kind for fits, kind in kinds if fits(status.st_mode)), "other")


class _FileExcerpt(Struct, frozen=True):
    """The shown part of a file; `counted` if the file was read to its end."""

    passage: LineRange
    start: int
    encoding: Encoding
    counted: bool


def _read_excerpt(
    seen: SeenFiles, readable: ReadablePath, shown: str, start: int, end: int, deadline: Deadline
) -> _FileExcerpt | Refusal:
    content = read_head(readable.folder, readable.path, shown, limit_bytes=MAX_READ_BYTES)
    if isinstance(content, Refusal):
        return content
    text = _decode_content(content, shown)
    if isinstance(text, Refusal):
        return text
    seen.record(readable.path, content)
    if isinstance(text, Decoded):
        return _FileExcerpt(
            read_range(iter([text.text]), start, end, MAX_LINE_CHARS), start, text.encoding, counted=True
        )
    with open_file(readable.folder, readable.path, os.O_RDONLY) as fd:
        found = read_range(decode_chunks(fd, text, deadline), start, end, MAX_LINE_CHARS)
    return _FileExcerpt(found, start, text, counted=not deadline.expired)


def _numbered_output(args: Mapping[str, Any], part: _FileExcerpt) -> ToolOutput:
    path, start, total = args["path"], part.start, part.passage.total
    if total == 0 and part.counted:
        return ToolOutput(f"{path}: total_lines 0, the file is empty")
    requested_end = min(args.get("end_line", total), total)
    if not part.passage.lines:
        if part.counted:
            return failed_answer(f"{path} has {count_of(total, 'line')}; ask for a range inside 1-{total}.")
        return failed_answer(
            f"Reading {path} timed out after {total} lines; read later ones with shell (sed -n, tail)."
        )
    shown: list[str] = []
    room = MAX_ANSWER_CHARS
    for number, line in enumerate(part.passage.lines, start):
        more = f" ... {line.more} more characters" if line.more else ""
        shown.append(f"{number}\t{line.text}{more}")
        room -= len(shown[-1]) + 1
        if room < 0:
            break
    last = start - 1 + len(shown)
    search = ", or find lines with search_files" if requested_end - last > MAX_LINES else ""
    rest = [f"... continue with start_line {last + 1}{search}"] if last < requested_end else []
    count = f"{total}" if part.counted else f"more than {total}"
    head = f"{path}: total_lines {count}, range {start}-{last}{_encoding_note(part.encoding)}"
    return ToolOutput("\n".join([head, *shown, *rest]))


def _encoding_note(encoding: Encoding) -> str:
    if encoding == UTF_8:
        return ""
    return f", encoding {encoding.name}" + (" (guessed: it is not UTF-8)" if encoding.guessed else "")


def _folder_entry(folder: int, name: str) -> str | None:
    # An entry may be gone by the time it is looked at.
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind, changed, shown = file_kind(status), format_mtime(status), printable_name(name)
        match kind:
            case "link":
                target = printable_name(os.readlink(name, dir_fd=folder))
                return f"link {status.st_size} {changed} {shown} -> {target}"
            case "dir":
                return f"dir - {changed} {shown}/"
            case _:
                return f"{kind} {status.st_size} {changed} {shown}"
    except FileNotFoundError:
        return None
