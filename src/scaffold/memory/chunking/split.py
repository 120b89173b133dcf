"""Split a text in the way that fits its kind."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

from scaffold.host.startup import lazy_import
from scaffold.memory.chunking.languages import LANGUAGES
from scaffold.memory.chunking.markdown_sections import split_markdown
from scaffold.memory.chunking.python_code import split_python
from scaffold.memory.chunking.text_pieces import USUAL, PieceSize, TextPiece, split_paragraphs

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
SPLIT_CODE = "scaffold.memory.chunking.syntax_tree:split_code"
"""Needs the parser, which takes long to load."""


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
    pieces = split_python(text, size) if kind == "python" else _split_code(text, kind, size)
    return split_paragraphs(text, size=size) if pieces is None else pieces


def _split_code(text: str, kind: TextKind, size: PieceSize) -> Iterator[TextPiece] | None:
    """Return the pieces of code; None if there is no grammar of its language, or it does not fit it."""
    if kind not in LANGUAGES:
        return None
    split: Callable[[str, str, PieceSize], Iterator[TextPiece] | None] = lazy_import(SPLIT_CODE)
    return split(text, kind, size)
