"""A document part by part: each is stored in one transaction, and says how far the document is stored then."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePath

from msgspec import Struct, structs

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import Document
from scaffold.memory.chunking.markdown_sections import PATH_SEPARATOR
from scaffold.memory.chunking.split import kind_of, pieces_of
from scaffold.memory.chunking.text_pieces import USUAL, PieceSize, TextPiece
from scaffold.memory.documents.page_ranges import ALL_PAGES, PageRanges
from scaffold.memory.documents.pdf_reader import DAMAGED, PdfHeading, PdfPage, PdfPart, PdfRequest, read_pdf
from scaffold.memory.documents.reader_sandbox import ReaderPlace
from scaffold.memory.documents.source_files import OpenedFile, read_text
from scaffold.policy.secret.redaction import Redactor

MAX_TITLE_CHARS = 300
PART_PIECES = 500
MOST_FAILURES = 5
"""After so many pages in a row that end the reader, the rest of the document is not tried."""
MOST_DAMAGED = 2_000
"""The same of pages that are damaged: a file can claim to have millions."""
MISSING_CHARS = 1_000
MORE = ",..."


class Outline:
    """Names the pieces of pages; asked for pages in ascending order."""

    def __init__(self, headings: Sequence[PdfHeading]) -> None:
        self._headings = sorted(headings, key=lambda each: each.page)
        self._path: list[PdfHeading] = []
        """The headings above the place that was named last, outermost first."""
        self._next = 0

    def titles(self, page: int, text: str, pieces: Sequence[TextPiece]) -> list[str]:
        """Return the title of each piece of a page, in order."""
        while self._next < len(self._headings) and self._headings[self._next].page < page:
            self._enter_heading(self._headings[self._next])
            self._next += 1
        here = [each for each in self._headings[self._next :] if each.page == page]
        self._next += len(here)
        lowered, start, places = text.casefold(), 0, []
        for heading in here:
            # One that is not found is where the one before it is.
            start = max(lowered.find(heading.text.casefold(), start), start)
            places.append((start, heading))
        titles = []
        for piece in pieces:
            while places and places[0][0] <= (piece.start + piece.end) // 2:
                self._enter_heading(places.pop(0)[1])
            titles.append(PATH_SEPARATOR.join(each.text for each in self._path)[:MAX_TITLE_CHARS])
        for _, heading in places:
            self._enter_heading(heading)
        return titles

    def _enter_heading(self, heading: PdfHeading) -> None:
        self._path = [*(each for each in self._path if each.level < heading.level), heading]


class Piece(Struct, frozen=True):
    """A piece of a document that becomes a chunk; its place is one in the whole document."""

    piece: TextPiece
    page: int = 0


class DocumentPart(Struct, frozen=True, kw_only=True):
    """Some pieces of a document, in order."""

    pieces: Sequence[Piece]
    position: int
    """The last page or character that is stored with them."""
    length: int
    missing: Mapping[str, str]
    """As `Document.missing`, of all parts so far."""


class ReadingOptions(Struct, frozen=True, kw_only=True):
    """What is read of a document, and in how long pieces."""

    pages: PageRanges = ALL_PAGES
    size: PieceSize = USUAL


class DocumentReader:
    """Reads documents part by part, without secrets."""

    def __init__(self, place: ReaderPlace, redactor: Redactor) -> None:
        self._place = place
        self._redactor = redactor
        self._text_of: tuple[OpenedFile, str] | None = None

    def count_pieces(self, opened: OpenedFile, options: ReadingOptions, *, most: int) -> int | None:
        """Return how many pieces a document has, counted up to `most`; None if that is not known beforehand."""
        if opened.is_pdf:
            return None
        return sum(1 for _ in islice(self._text_pieces(opened, options), most))

    async def parts(
        self, opened: OpenedFile, options: ReadingOptions, document: Document, start: int
    ) -> AsyncIterator[DocumentPart]:
        """Yield what is not stored yet; `start` is the place in the document where that begins."""
        if not opened.is_pdf:
            if not options.pages.is_all:
                raise UsageError(f"{opened.name} has no pages", "Leave the pages out.")
            length, after = len(self._clean_text(opened)), document.position
            rest = (each for each in self._text_pieces(opened, options) if each.start >= after)
            while pieces := [Piece(each) for each in islice(rest, PART_PIECES)]:
                yield DocumentPart(pieces=pieces, position=pieces[-1].piece.end, length=length, missing={})
            return
        async for part in self._pdf_parts(opened, options, document, start):
            yield part

    def _text_pieces(self, opened: OpenedFile, options: ReadingOptions) -> Iterator[TextPiece]:
        pieces = pieces_of(self._clean_text(opened), kind_of(PurePath(opened.name)), options.size)
        return (each for each in pieces if _has_words(each.text))

    def _clean_text(self, opened: OpenedFile) -> str:
        if self._text_of is None or self._text_of[0] != opened:
            self._text_of = opened, self._redactor.clean(read_text(opened))
        return self._text_of[1]

    async def _pdf_parts(
        self, opened: OpenedFile, options: ReadingOptions, document: Document, start: int
    ) -> AsyncIterator[DocumentPart]:
        pages, missing, unread = options.pages.after(document.position), document.missing, _UnreadPages()
        if document.position and not pages.count(document.length):
            return  # the process that stored the last part has died since
        part: PdfPart | None = None
        outline = Outline(())
        while part is None or pages.count(part.total):
            request = PdfRequest(pages=pages, headings=part is None)
            part = await read_pdf(opened.file, opened.name, request, self._place, part.reader if part else None)
            if not part.pages:
                raise UsageError(
                    f"{opened.name} has no page {options.pages}: it has {part.total:,}", "Name pages that it has."
                )
            outline = Outline(part.headings) if request.headings else outline
            pieces: list[Piece] = []
            for page in part.pages:
                text = self._redactor.clean(page.text).strip()
                found = [each for each in pieces_of(text, "text", options.size) if _has_words(each.text)]
                titles = map(self._redactor.clean, outline.titles(page.number, text, found))
                for each, title in zip(found, titles, strict=True):
                    moved = structs.replace(each, title=title, start=each.start + start, end=each.end + start)
                    pieces.append(Piece(moved, page.number))
                start += len(text) + 1 if text else 0
                missing = with_problem(missing, page)
            unread.count(part.pages, opened.name)
            last = part.pages[-1].number
            pages = pages.after(last)
            yield DocumentPart(pieces=pieces, position=last, length=part.total, missing=missing)


class _UnreadPages:
    """Counts pages in a row that cannot be read."""

    def __init__(self) -> None:
        self._failures, self._damaged = 0, 0

    def count(self, pages: Sequence[PdfPage], name: str) -> None:
        """Count them; UsageError if they are so many that the rest of the document is not tried."""
        for page in pages:
            self._failures = self._failures + 1 if page.ended_reader else 0
            self._damaged = self._damaged + 1 if page.problem == DAMAGED else 0
        if self._failures >= MOST_FAILURES or self._damaged >= MOST_DAMAGED:
            raise UsageError(
                f"{name} cannot be read around page {pages[-1].number:,}: "
                f"{pages[-1].problem.removeprefix('cannot be read: ')}",
                "Open it in a viewer, and save or print it to a new PDF.",
            )


def with_problem(missing: Mapping[str, str], page: PdfPage) -> Mapping[str, str]:
    """Return what is missing of a document, with the problem of another page."""
    known = missing.get(page.problem, "")
    if not page.problem or known.endswith(MORE):
        return missing
    before, _, last = known.rpartition(",")
    first, _, end = last.partition("-")
    if last and int(end or first) == page.number - 1:
        parts = f"{before},{first}-{page.number}" if before else f"{first}-{page.number}"
    else:
        parts = f"{known},{page.number}" if known else f"{page.number}"
    return {**missing, page.problem: parts if len(parts) < MISSING_CHARS else f"{known}{MORE}"}


def _has_words(text: str) -> bool:
    return any(each.isalnum() for each in text)
