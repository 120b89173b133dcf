"""Split a text in the way that fits its kind."""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from msgspec import Struct

from scaffold.host.startup import importing
from scaffold.memory.chunking.languages import LANGUAGES
from scaffold.memory.chunking.markdown_sections import split_markdown
from scaffold.memory.chunking.text_pieces import USUAL, PieceSize, TextPiece, split_paragraphs

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python; `str.splitlines` knows more."""
MAX_PARSED_CHARS = 2_000_000
"""Longer code is split by its lines: the parser's memory grows with it."""
TextKind = str
"""`text`, `markdown`, `python`, or the name of a language that has a grammar."""
KINDS: Mapping[str, TextKind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".py": "python",
    ".pyi": "python",
    **{suffix: name for name, language in LANGUAGES.items() for suffix in language.suffixes},
}
"""How files are split, by the end of their name."""


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
            yield from self._split_range(start, first, inside)
            name = f"{inside}.{node.name}" if inside else node.name
            if isinstance(node, ast.ClassDef) and last - first > self.size.most:
                yield from self.pieces(node.body, first, last, name)
            else:
                yield from self._split_range(first, last, name)
            start = last
        yield from self._split_range(start, end, inside)

    def _split_range(self, start: int, end: int, title: str) -> Iterator[TextPiece]:
        return split_paragraphs(self.text, start, end, title=title, size=self.size)


def kind_of(path: PurePath) -> TextKind:
    """Return of which kind a file is, by its name."""
    return KINDS.get(path.suffix.lower(), "text")


def split_text(text: str, kind: TextKind = "text") -> tuple[TextPiece, ...]:
    """Return the pieces of a text, in order, none of them empty or too long for an embedding model."""
    return tuple(pieces_of(text, kind))


def pieces_of(text: str, kind: TextKind = "text", size: PieceSize = USUAL) -> Iterator[TextPiece]:
    """Yield the pieces of a text, in order, none of them empty or longer than its size allows."""
    if kind == "markdown":
        return split_markdown(text, size)
    pieces = split_python(text, size) if kind == "python" else None
    if kind in LANGUAGES:
        with importing():  # needs the parser, which takes long to load
            from scaffold.memory.chunking.syntax_tree import split_code
        pieces = split_code(text, kind, size)
    # By its paragraphs where no grammar fits it.
    return split_paragraphs(text, size=size) if pieces is None else pieces


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
