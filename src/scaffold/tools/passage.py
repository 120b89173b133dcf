"""Lines of text files of any length, read in pieces: what is not asked for is counted and let go."""

import codecs
import os
from collections.abc import Iterator

from msgspec import Struct

from scaffold.tools.text import Encoding
from scaffold.tools.workspace import Patience

PIECE_BYTES = 1 << 20


class Line(Struct, frozen=True):
    """A line without its end, and how many more characters it has than there are in `text`."""

    text: str
    more: int = 0


class Passage(Struct, frozen=True):
    """Some lines of a text, and how many lines were read."""

    lines: list[Line]
    total: int


def pieces(fd: int, encoding: Encoding, patience: Patience) -> Iterator[str]:
    """Yield the text of a file, without its mark, until its end or the end of `patience`.

    Bytes that are none of the encoding are replaced.
    """
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
    os.lseek(fd, len(encoding.mark), os.SEEK_SET)
    while not patience.is_over:
        data = os.read(fd, PIECE_BYTES)
        yield decoder.decode(data, final=not data)
        if not data:
            return


def blocks(texts: Iterator[str], limit: int) -> Iterator[list[str]]:
    """Yield the lines of a text that comes in pieces, many at once, each with its first `limit` characters."""
    rest = _Unended(limit)
    for text in texts:
        first, *others = text.split("\n")
        rest.add(first)
        if others:
            last = others.pop()
            yield [rest.line(ended=True).text, *(each.removesuffix("\r")[:limit] for each in others)]
            rest = _Unended(limit)
            rest.add(last)
    if rest.length:
        yield [rest.line(ended=False).text]


def passage(texts: Iterator[str], first: int, last: int, limit: int) -> Passage:
    """Return the lines `first` to `last`, from 1, both included, as far as there are any, `limit` as for `blocks`."""
    shown: dict[int, _Unended] = {}
    number, begun = 1, False
    for text in texts:
        ends = text.count("\n")
        if number + ends >= first and number <= last:
            parts = text.split("\n")
            start = max(0, first - number)
            for at, part in enumerate(parts[start : last + 1 - number], number + start):
                shown.setdefault(at, _Unended(limit)).add(part)
        number += ends
        begun = not text.endswith("\n") if text else begun
    total = number if begun else number - 1
    return Passage([shown[at].line(ended=at < number) for at in range(first, min(last, total) + 1)], total)


class _Unended:
    """A line that comes in parts."""

    def __init__(self, limit: int) -> None:
        self.length = 0
        self._limit = limit
        self._text = ""
        self._last = ""

    def add(self, part: str) -> None:
        """Take the next part."""
        self.length += len(part)
        self._last = part[-1:] or self._last
        if len(self._text) < self._limit:
            self._text += part[: self._limit - len(self._text)]

    def line(self, *, ended: bool) -> Line:
        """Return the line, without the carriage return that belongs to its end if it `ended`."""
        length = self.length - (ended and self._last == "\r")
        return Line(self._text[:length], max(0, length - self._limit))
