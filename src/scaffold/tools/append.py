"""Adding to the end of a file."""

import os
from collections.abc import Mapping
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.files import PATH
from scaffold.tools.regular import opened, unreadable
from scaffold.tools.text import SNIFFED_BYTES, as_bytes, lines_of, sniff
from scaffold.tools.workspace import Workspace, failed, in_a_thread, may_write


def append_file(workspace: Workspace) -> Tool:
    """Return the tool that adds to a text file, in the file's encoding; it and its folders are made if need be.

    All of the content is added or none of it.
    """

    def work(args: Mapping[str, Any]) -> ToolOutput:
        """Add the content, or say what stands in the way."""
        shown = args["path"]
        place = may_write(workspace, shown)
        if isinstance(place, Refusal):
            return failed(place.reason)
        if place.is_dir():
            return failed(f"{shown} is a folder; name a file in it.")
        with opened(workspace.root, place, os.O_RDWR | os.O_APPEND | os.O_CREAT, make=True) as fd:
            added = _append(fd, args["content"], shown)
            size = os.fstat(fd).st_size
        if isinstance(added, Refusal):
            return failed(added.reason)
        count, note = added
        lines = len(lines_of(args["content"]))
        return ToolOutput(f"{shown} appended: {count} bytes, {lines} lines; it has {size} bytes now.{note}")

    return Tool(
        name="append_file",
        description="Add text to the end of a file as it is, without a line break of its own; creates it if needed.",
        schema=object_schema({"path": PATH, "content": {"type": "string", "description": "What is added."}}),
        category="file_write",
        run=in_a_thread(work),
    )


def _append(fd: int, content: str, shown: str) -> tuple[int, str] | Refusal:
    """Return how many bytes were added and a note on the line they began in, or why nothing was."""
    status = os.fstat(fd)
    if problem := unreadable(status, shown):
        return problem
    encoding = sniff(os.pread(fd, SNIFFED_BYTES, 0), whole=status.st_size <= SNIFFED_BYTES)
    if encoding is None:
        return Refusal(f"{shown} is a binary file; add to it with shell.")
    data = as_bytes(content, encoding)
    if isinstance(data, Refusal):
        return data
    newline = "\n".encode(encoding.codec)
    if status.st_size % len(newline):
        return Refusal(f"{shown} is {encoding.name} and ends in half a character; mend it with python first.")
    last = os.pread(fd, len(newline), max(0, status.st_size - len(newline)))
    _write_all(fd, data, status.st_size)
    broken = status.st_size > len(encoding.mark) and last != newline
    return len(data), " Its last line had no end, so the content goes on in that line." if broken else ""


def _write_all(fd: int, data: bytes, size_before: int) -> None:
    """Write all of `data`, or take back what was written."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        if len(rest) < len(data):
            os.ftruncate(fd, size_before)
        raise
