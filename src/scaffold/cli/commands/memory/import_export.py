"""Memories written to a Markdown file, and read from one."""

from pathlib import Path

from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of, one_line
from scaffold.memory.markdown import ReadMemory, is_export, memories_as_markdown, read_memories
from scaffold.memory.memories import USER, Memories
from scaffold.memory.notes import MemoryScope
from scaffold.session.memory.answer import MemoryAnswer

MAX_BYTES = 4_000_000
MOST_SHOWN = 10
MOST_PARTS = 200
"""Parts of a file that is not an export."""


def export_memories(memories: Memories, file: Path | None) -> str:
    """Write all memories to a new file, and say so; without a file, return them."""
    found = memories.newest(most=1_000_000)
    text = memories_as_markdown(found)
    if file is None:
        return text.rstrip("\n")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already", "Name a new file.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "Name another file.") from error
    return f"{count_of(len(found), 'memory', 'memories')} written to {file}"


def import_memories(memories: Memories, file: Path, *, scope: MemoryScope | None, confirmed: bool) -> MemoryAnswer:
    """Store each piece of a file as a memory, and report the pieces that were refused. Safe to repeat."""
    source = USER if confirmed else f"file:{one_line(file.name)}"
    new, known, refused = 0, 0, []
    text = _read_file(file)
    parts = read_memories(text, file)
    if len(parts) > MOST_PARTS and not is_export(text):
        what = f"{file} has {len(parts):,} parts: it is a document, and at most {MOST_PARTS} become memories"
        raise UsageError(what, "Write down in another file what is worth remembering of it.")
    for number, each in enumerate(parts, 1):
        try:
            done = memories.remember(
                each.text, source=source, scope=_memory_scope(memories, scope, each), kind=each.kind
            )
        except UsageError as error:
            refused.append(f"part {number} of the file: {error.what}")  # its text may be a secret
            continue
        new, known = new + done.is_new, known + (not done.is_new)
    lines = [f"{count_of(new, 'memory', 'memories')} added, {known} known already, {len(refused)} refused", *refused]
    if len(refused) > MOST_SHOWN:
        lines = [*lines[: MOST_SHOWN + 1], f"... {len(refused) - MOST_SHOWN} more"]
    return MemoryAnswer("\n".join(lines), {"added": new, "known": known, "refused": refused})


def _memory_scope(memories: Memories, scope: MemoryScope | None, read: ReadMemory) -> MemoryScope | None:
    if scope is not None:
        return scope
    return read.scope if read.scope == "user" or memories.has_project else None


def _read_file(file: Path) -> str:
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "Name another file.") from error
    if size > MAX_BYTES:
        raise UsageError(f"{file} is too large: {size:,} bytes, at most {MAX_BYTES:,}", "Split it.")
    if b"\0" in content:
        raise UsageError(f"{file} is not a text", "Export its text first.")
    return content.decode("utf-8", "replace")
