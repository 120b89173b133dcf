"""The headings that are above a place in a document, by its table of contents."""

from collections.abc import Sequence

from scaffold.memory.chunking.markdown_sections import PATH_SEPARATOR
from scaffold.memory.chunking.text_pieces import TextPiece
from scaffold.memory.documents.pdf_reader import PdfHeading

MAX_TITLE_CHARS = 300


class Outline:
    """Names the pieces of pages; asked for pages in ascending order."""

    def __init__(self, headings: Sequence[PdfHeading]) -> None:
        self._headings = sorted(headings, key=lambda each: each.page)
        self._path: list[PdfHeading] = []
        """The headings above the place that was named last, outermost first."""
        self._next = 0

    def titles(self, page: int, text: str, pieces: Sequence[TextPiece]) -> list[str]:
        """Return the title of each piece of a page, in order."""
        self._pass_until(page)
        here = [each for each in self._headings[self._next :] if each.page == page]
        self._next += len(here)
        places = _places(text, here)
        titles = []
        for piece in pieces:
            while places and places[0][0] <= (piece.start + piece.end) // 2:
                self._enter(places.pop(0)[1])
            titles.append(self._title())
        for _, heading in places:
            self._enter(heading)
        return titles

    def _pass_until(self, page: int) -> None:
        while self._next < len(self._headings) and self._headings[self._next].page < page:
            self._enter(self._headings[self._next])
            self._next += 1

    def _enter(self, heading: PdfHeading) -> None:
        self._path = [*(each for each in self._path if each.level < heading.level), heading]

    def _title(self) -> str:
        return PATH_SEPARATOR.join(each.text for each in self._path)[:MAX_TITLE_CHARS]


def _places(text: str, headings: Sequence[PdfHeading]) -> list[tuple[int, PdfHeading]]:
    """Return where on their page the headings are, in order; one that is not found is where the one before is."""
    lowered, start, places = text.casefold(), 0, []
    for heading in headings:
        found = lowered.find(heading.text.casefold(), start)
        start = max(found, start)
        places.append((start, heading))
    return places
