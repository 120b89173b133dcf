"""Split Python by its functions and classes; each piece is named by what it defines."""

import ast
import re
import warnings
from collections.abc import Iterator

from msgspec import Struct

from scaffold.memory.chunking.text_pieces import USUAL, PieceSize, TextPiece, split_paragraphs

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python; `str.splitlines` knows more."""
MAX_PARSED_CHARS = 2_000_000
"""Longer code is split by its lines: the parser's memory grows with it."""


def split_python(text: str, size: PieceSize = USUAL) -> Iterator[TextPiece] | None:
    """Return the pieces of a module, in order; None if it is no Python of this interpreter's version."""
    if len(text) > MAX_PARSED_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    # A file may be made to exhaust the parser.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    starts = [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]
    return _Module(text, starts, size).pieces(module.body, 0, len(text), "")


class _Module(Struct, frozen=True):
    text: str
    starts: list[int]
    """Where each line starts, and the end."""
    size: PieceSize

    def pieces(self, body: list[ast.stmt], start: int, end: int, inside: str) -> Iterator[TextPiece]:
        """Yield the pieces from `start` to `end`, where `body` is; what is between definitions belongs to `inside`."""
        for node in body:
            if not isinstance(node, _Definition):
                continue
            first = self.starts[min((each.lineno for each in node.decorator_list), default=node.lineno) - 1]
            last = self.starts[node.end_lineno or node.lineno]
            if first < start:
                continue  # on one line with the definition before
            yield from self._paragraphs(start, first, inside)
            name = f"{inside}.{node.name}" if inside else node.name
            if isinstance(node, ast.ClassDef) and last - first > self.size.most:
                yield from self.pieces(node.body, first, last, name)
            else:
                yield from self._paragraphs(first, last, name)
            start = last
        yield from self._paragraphs(start, end, inside)

    def _paragraphs(self, start: int, end: int, title: str) -> Iterator[TextPiece]:
        return split_paragraphs(self.text, start, end, title=title, size=self.size)
