"""Split Markdown by its sections: each piece knows the headings above it."""

import re
from collections.abc import Iterator

from scaffold.memory.chunking.text_pieces import USUAL, PieceSize, TextPiece, split_paragraphs

_LINE = re.compile(r"[^\n]*\n?")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*\r?\n?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
PATH_SEPARATOR = " > "


def split_markdown(text: str, size: PieceSize = USUAL) -> Iterator[TextPiece]:
    """Yield the pieces of a Markdown text, in order; a heading is in the first piece of its section."""
    path: list[tuple[int, str]] = []
    start, title, fence = 0, "", ""
    for line in _LINE.finditer(text):
        if found := _FENCE.match(line[0]):
            # A fence is closed by one of the same kind that is at least as long.
            fence = "" if fence and found[1].startswith(fence) else fence or found[1]
        heading = None if fence else _HEADING.fullmatch(line[0])
        if heading is None or not line[0]:
            continue
        if line.start() > start:
            yield from split_paragraphs(text, start, line.start(), title=title, size=size)
        level = len(heading[1])
        path = [each for each in path if each[0] < level] + [(level, heading[2].strip())]
        start, title = line.start(), PATH_SEPARATOR.join(name for _, name in path if name)
    if start < len(text):
        yield from split_paragraphs(text, start, len(text), title=title, size=size)
