"""The tool that appends to a file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaffold.core.printable_text import count_of
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.safe_open import open_file, read_head, record_append, unreadable_reason
from scaffold.tools.content.text_encoding import SNIFF_BYTES, Decoded, detect_encoding, dominant_line_end, split_lines
from scaffold.tools.file.read_write import MAX_READ_BYTES, MORE_FILE_TOOLS, PATH_SCHEMA
from scaffold.tools.workspace import Workspace, failed_answer, resolve_writable, run_in_thread


def append_file(workspace: Workspace) -> Tool:
    """Return the tool that appends to a text file, in its encoding and with its line endings; creates what is missing.

    Either the whole content is appended or nothing.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        """Append the content, or return why not."""
        shown = args["path"]
        target = resolve_writable(workspace, shown)
        if isinstance(target, Refusal):
            return failed_answer(target.reason)
        if target.is_dir():
            return failed_answer(f"{shown} is a folder; name a file in it.")
        is_new = not target.exists()
        if workspace.seen.knows(target):
            found = read_head(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES) if target.exists() else None
            changed = found if isinstance(found, Refusal) else workspace.seen.change_since(target, found, shown)
            if changed:
                return failed_answer(changed.reason)
        with open_file(workspace.root, target, os.O_RDWR | os.O_APPEND | os.O_CREAT, make=True) as fd:
            added = _append_text(fd, args["content"], shown, target, is_new=is_new)
            size = os.fstat(fd).st_size
        if isinstance(added, Refusal):
            return failed_answer(added.reason)
        if is_new or workspace.seen.knows(target):
            content = read_head(workspace.root, target, shown, limit_bytes=MAX_READ_BYTES)
            if not isinstance(content, Refusal):
                workspace.seen.record_change(target, content)
        count, note = added
        lines = len(split_lines(args["content"]))
        return ToolOutput(
            f"{shown} appended: {count_of(count, 'byte')}, {count_of(lines, 'line')}; it has {size} bytes now.{note}"
        )

    return Tool(
        name="append_file",
        description="Append text to a file, without a newline before or after it; creates the file if missing.",
        schema=object_schema({"path": PATH_SCHEMA, "content": {"type": "string", "description": "Text to append."}}),
        category="file_write",
        run=run_in_thread(work),
        group=MORE_FILE_TOOLS,
    )


def _append_text(fd: int, content: str, shown: str, target: Path, *, is_new: bool) -> tuple[int, str] | Refusal:
    status = os.fstat(fd)
    if problem := unreadable_reason(status, shown):
        return problem
    # Of text beyond ASCII the whole file has to tell how it is encoded.
    head = os.pread(fd, SNIFF_BYTES if content.isascii() else MAX_READ_BYTES, 0)
    encoding = detect_encoding(head, whole=status.st_size <= len(head))
    if encoding is None:
        return Refusal(f"{shown} is a binary file; append to it with shell.")
    if dominant_line_end(head.decode(encoding.python_name, errors="replace")) == "\r\n":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    # Encoded before anything is written, so that content that does not fit is not appended in part.
    data = Decoded("", encoding).rewritten(content)
    if isinstance(data, Refusal):
        return data
    data = data[len(encoding.bom) :]
    newline = "\n".encode(encoding.python_name)
    # In UTF-16 a character has two bytes: an odd number would shift everything that follows.
    if status.st_size % len(newline):
        return Refusal(f"{shown} is {encoding.name} and ends with an incomplete character; fix it with python first.")
    last = os.pread(fd, len(newline), max(0, status.st_size - len(newline)))
    record_append(fd, target, data, is_new=is_new)
    _write_all(fd, data, status.st_size)
    broken = status.st_size > len(encoding.bom) and last != newline
    return len(data), " Its last line had no newline, so the content continues that line." if broken else ""


def _write_all(fd: int, data: bytes, size_before: int) -> None:
    # A partial append would look like a complete one, so an error restores the old size.
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        if len(rest) < len(data):
            os.ftruncate(fd, size_before)
        raise
