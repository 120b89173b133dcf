"""A program that reads a PDF with PDFium; see `pdf_child`."""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import pypdfium2

from scaffold.memory.documents.pdf_child import numbers, page_line, plain, serve

MOST_HEADINGS = 2_000
HEADING_CHARS = 200
HEADING_DEPTH = 4
IMAGE_DEPTH = 3


def read_document(file: BinaryIO, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what is said of a file."""
    try:
        document = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        yield {"error": "encrypted" if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD else "damaged"}
        return
    total = len(document)
    yield {"total": total}
    if request["headings"]:
        yield {"headings": _read_headings(document)}
    for number in numbers(request, total):
        try:
            text, images = _read_page(document, number)
        except pypdfium2.PdfiumError:
            yield {"page": number, "damaged": True}
        else:
            yield page_line(number, text, request, images=images)
    yield {"end": True}


def _read_page(document: Any, number: int) -> tuple[str, bool]:
    """Return the text of a page, and whether a page without text has pictures."""
    page = document[number - 1]
    text_page = page.get_textpage()
    text = plain(text_page.get_text_bounded())
    text_page.close()
    images = not text and any(
        True for _ in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=IMAGE_DEPTH)
    )
    page.close()
    return text, images


def _read_headings(document: Any) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for mark in document.get_toc(max_depth=HEADING_DEPTH):
        if len(found) >= MOST_HEADINGS:
            break
        place = mark.get_dest()
        page = None if place is None else place.get_index()
        title = " ".join(plain(mark.get_title()).split())[:HEADING_CHARS]
        if page is not None and title:
            found.append((page + 1, mark.level, title))
    return found


if __name__ == "__main__":
    serve(read_document)
