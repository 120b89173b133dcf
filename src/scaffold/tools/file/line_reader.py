"""Read lines of text files of any length in chunks; lines outside the requested range are only counted."""

import codecs
import os
from collections.abc import Iterator

from msgspec import Struct

from scaffold.tools.content.text_encoding import Encoding
from scaffold.tools.workspace import Deadline

CHUNK_BYTES = 1 << 20


class TextLine(Struct, frozen=True):
    """A line without its line ending; `more` is the number of characters cut from `text`."""

    text: str
    more: int = 0


class LineRange(Struct, frozen=True):
    """Some lines of a text, and the total number of lines read."""

    lines: list[TextLine]
    total: int


def decode_chunks(fd: int, encoding: Encoding, deadline: Deadline) -> Iterator[str]:
    """Yield decoded text without the BOM until EOF or the deadline; undecodable bytes are replaced."""
    # Incremental, because a chunk may end in the middle of a character.
    decoder = codecs.getincrementaldecoder(encoding.python_name)("replace")
    os.lseek(fd, len(encoding.bom), os.SEEK_SET)
    while not deadline.expired:
        data = os.read(fd, CHUNK_BYTES)
        yield decoder.decode(data, final=not data)
        if not data:
            return


def batched_lines(texts: Iterator[str], limit: int) -> Iterator[list[str]]:
    """Yield the lines of a chunked text in batches, each line cut to its first `limit` characters."""
    rest = _PartialLine(limit)
    for text in texts:
        first, *others = text.split("\n")
        rest.add(first)
        if others:
            last = others.pop()
            yield [rest.line(ended=True).text, *(each.removesuffix("\r")[:limit] for each in others)]
            rest = _PartialLine(limit)
            rest.add(last)
    if rest.length:
        yield [rest.line(ended=False).text]


def read_range(texts: Iterator[str], first: int, last: int, limit: int) -> LineRange:
    """Return the existing lines of `first` to `last` (1-based, inclusive), cut to `limit` characters."""
    shown: dict[int, _PartialLine] = {}
    number, begun = 1, False
    for text in texts:
        ends = text.count("\n")
        if number + ends >= first and number <= last:
            parts = text.split("\n")
            start = max(0, first - number)
            for at, part in enumerate(parts[start : last + 1 - number], number + start):
                shown.setdefault(at, _PartialLine(limit)).add(part)
        number += ends
        begun = not text.endswith("\n") if text else begun
    total = number if begun else number - 1
    return LineRange([shown[at].line(ended=at < number) for at in range(first, min(last, total) + 1)], total)


class _PartialLine:
    """A line assembled from parts."""

    def __init__(self, limit: int) -> None:
        self.length = 0
        self._limit = limit
        self._text = ""
        self._last = ""

    def add(self, part: str) -> None:
        """Add the next part."""
        self.length += len(part)
        self._last = part[-1:] or self._last
        if len(self._text) < self._limit:
            self._text += part[: self._limit - len(self._text)]

    def line(self, *, ended: bool) -> TextLine:
        """Return the line; if it `ended` with a newline, without the carriage return before it."""
        length = self.length - (ended and self._last == "\r")
        return TextLine(self._text[:length], max(0, length - self._limit))
