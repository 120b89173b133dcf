"""Memories as a Markdown file that people can read, keep and read in again."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from scaffold.memory.chunking.split import kind_of, split_text
from scaffold.memory.chunking.text_pieces import TextPiece
from scaffold.memory.notes import Memory, MemoryScope, MemoryType, scope_of, type_of

TITLE = "# Memories"
NOTE = "Exported by scaffold. `scaffold memory import FILE` reads it in again."
_HEADING = re.compile(r"^## ", re.MULTILINE)
_HEADING_LINE = re.compile(r"\A#{1,6} .*\n?")
_FIELD = re.compile(r"^- (?P<name>[a-z]+): (?P<value>.*)$", re.MULTILINE)


class ReadMemory(Struct, frozen=True):
    """A memory as a file has it."""

    text: str
    kind: MemoryType = "fact"
    scope: MemoryScope | None = None


def memories_as_markdown(memories: Sequence[Memory]) -> str:
    """Return memories as Markdown: a section for each, with its text as a quotation."""
    lines = [TITLE, "", NOTE]
    for memory in memories:
        chunk = memory.chunk
        fields = {
            "type": memory.type,
            "scope": memory.scope,
            "state": chunk.state,
            "source": chunk.source,
            "created": chunk.created_at.isoformat(),
            "until": chunk.valid_until.isoformat() if chunk.valid_until else "",
            "replaced": chunk.superseded_by or "",
        }
        lines += ["", f"## {memory.id}", "", *(f"- {name}: {value}" for name, value in fields.items() if value), ""]
        # A quotation, so that no line of a memory can pass for a field or a heading.
        lines += [f"> {line}".rstrip() for line in chunk.text.split("\n")]
    return "\n".join(lines) + "\n"


def is_export(text: str) -> bool:
    """Return whether a text is what `memories_as_markdown` wrote."""
    return text.lstrip("\ufeff").startswith(TITLE + "\n")


def read_memories(text: str, path: PurePath) -> tuple[ReadMemory, ...]:
    """Return the memories of an export; of any other text, each section, paragraph or function."""
    if not is_export(text):
        return tuple(filter(None, map(_read_piece, split_text(text, kind_of(path)))))
    return tuple(filter(None, map(_read_section, _HEADING.split(text)[1:])))


def _read_piece(piece: TextPiece) -> ReadMemory | None:
    """Return a piece with the headings above it in front; None for one that is only a heading."""
    text = _HEADING_LINE.sub("", piece.text, count=1).strip() if piece.title else piece.text
    return ReadMemory(f"{piece.title}: {text}" if piece.title else text) if text else None


def _read_section(section: str) -> ReadMemory | None:
    lines = section.split("\n")
    fields = {found["name"]: found["value"].strip() for found in map(_FIELD.match, lines) if found is not None}
    text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines if line.startswith(">")).strip()
    if not text or fields.get("state") == "superseded":
        return None
    return ReadMemory(text, type_of(fields.get("type", "")), scope_of(fields.get("scope", "")))
