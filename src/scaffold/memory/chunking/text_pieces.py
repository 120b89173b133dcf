"""Split text into pieces at paragraphs, lines and sentences, so that none is longer than an embedding model reads."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

MAX_CHARS = 1_200
"""No piece is longer unless asked for: about 300 tokens of English."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_LINE_END = re.compile(r"\n")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"')\]]*\s+|(?<=[。！？])")
_WORD_END = re.compile(r"\s+")


class TextPiece(Struct, frozen=True):
    """A piece of a document: characters from `start` up to `end`, without white space around them."""

    text: str
    start: int
    end: int
    title: str = ""
    """The headings above it, outermost first, or what it defines."""


class PieceSize(Struct, frozen=True):
    """How long pieces are, in characters."""

    most: int = MAX_CHARS
    """No piece is longer."""

    @property
    def aim(self) -> int:
        """Short paragraphs that follow each other are joined up to this length."""
        return max(self.most * 2 // 3, 1)


USUAL = PieceSize()


class _Range(Struct, frozen=True):
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def split_paragraphs(
    text: str, start: int = 0, end: int | None = None, *, title: str = "", size: PieceSize = USUAL
) -> Iterator[TextPiece]:
    """Yield the pieces of a range of `text`, in order; they do not overlap, and only white space is between them."""
    whole = _Range(start, len(text) if end is None else end)
    short = (part for each in _cut_range(text, whole, _PARAGRAPH_END) for part in _shorten_range(text, each, size))
    for part in _join_ranges(short, size):
        content = text[part.start : part.end]
        if stripped := content.strip():
            first = part.start + len(content) - len(content.lstrip())
            yield TextPiece(stripped, first, first + len(stripped), title)


def _shorten_range(text: str, part: _Range, size: PieceSize) -> Iterator[_Range]:
    # At the largest boundaries that make the parts short enough.
    pending: list[tuple[_Range, Sequence[re.Pattern[str]]]] = [(part, (_LINE_END, _SENTENCE_END, _WORD_END))]
    while pending:
        each, boundaries = pending.pop()
        if each.length <= size.most:
            yield each
        elif boundaries:
            joined = _join_ranges(_cut_range(text, each, boundaries[0]), size)
            pending += [(inner, boundaries[1:]) for inner in reversed(tuple(joined))]
        else:
            yield from (_Range(at, min(at + size.most, each.end)) for at in range(each.start, each.end, size.most))


def _cut_range(text: str, part: _Range, boundary: re.Pattern[str]) -> Iterator[_Range]:
    start = part.start
    for found in boundary.finditer(text, part.start, part.end):
        if found.end() > start:
            yield _Range(start, found.end())
            start = found.end()
    if start < part.end:
        yield _Range(start, part.end)


def _join_ranges(parts: Iterable[_Range], size: PieceSize) -> Iterator[_Range]:
    current: _Range | None = None
    for part in parts:
        if current is not None and part.end - current.start <= size.aim:
            current = _Range(current.start, part.end)
            continue
        if current is not None:
            yield current
        current = part
    if current is not None:
        yield current
