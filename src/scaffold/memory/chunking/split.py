"""Split a text in the way that fits its kind."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal

from scaffold.memory.chunking.markdown import split_markdown
from scaffold.memory.chunking.pieces import TextPiece, split_paragraphs
from scaffold.memory.chunking.python_code import split_python

TextKind = Literal["text", "markdown", "python"]
_KINDS: Mapping[str, TextKind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".py": "python",
    ".pyi": "python",
}


def kind_of(path: PurePath) -> TextKind:
    """Return of which kind a file is, by its name."""
    return _KINDS.get(path.suffix.lower(), "text")


def split_text(text: str, kind: TextKind = "text") -> tuple[TextPiece, ...]:
    """Return the pieces of a text, in order, none of them empty or too long for an embedding model."""
    if kind == "markdown":
        return split_markdown(text)
    pieces = split_python(text) if kind == "python" else None
    return split_paragraphs(text) if pieces is None else pieces
