"""A program that reads a PDF with pypdf, where PDFium cannot; see `pdf_child`."""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import pypdf
from pypdf.errors import PyPdfError

from scaffold.memory.documents.pdf_child import numbers, page_line, plain, serve

FAILURES = (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, AssertionError)
"""What pypdf raises for files that it does not expect."""


def read_document(file: BinaryIO, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what is said of a file."""
    try:
        reader = pypdf.PdfReader(file)
        encrypted = reader.is_encrypted and not reader.decrypt("")
        total = 0 if encrypted else len(reader.pages)
    except FAILURES:
        yield {"error": "damaged"}
        return
    if encrypted:
        yield {"error": "encrypted"}
        return
    yield {"total": total}
    for number in numbers(request, total):
        try:
            page = reader.pages[number - 1]
            text = plain(page.extract_text())
            images = not text and "/XObject" in page.get("/Resources", {})
        except FAILURES:
            yield {"page": number, "damaged": True}
        else:
            yield page_line(number, text, request, images=images)
    yield {"end": True}


if __name__ == "__main__":
    serve(read_document)
