"""PDF files for tests and benches, written by hand: text, pictures, outlines, and what hostile files do."""

import zlib
from collections.abc import Mapping, Sequence

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
LINE_CHARS = 90
PICTURE = b"q 400 0 0 400 50 300 cm /Im1 Do Q"


def pdf_of(pages: Sequence[str], *, pictures: Sequence[int] = (), outline: Mapping[str, int] | None = None) -> bytes:
    """Return a PDF with a page for each text; the pages with a number in `pictures` (from 1) show one, too.

    `outline` are the headings of the table of contents, with the page of each.
    """
    count = len(pages)
    objects: dict[int, bytes] = {1: b"", 2: b"", 3: FONT, 4: stream(b"\x80" * 64, IMAGE_FIELDS)}
    first = 5
    for number, text in enumerate(pages):
        page, content = first + 2 * number, first + 2 * number + 1
        shown = drawn(text) + (b"\n" + PICTURE if number + 1 in pictures else b"")
        objects[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> /XObject << /Im1 4 0 R >> >> >>" % content
        )
        objects[content] = stream(shown)
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(count))
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count)
    objects[1] = b"<< /Type /Catalog /Pages 2 0 R%s >>" % _outline(objects, outline or {}, first)
    return assembled(objects)


IMAGE_FIELDS = b"/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray /BitsPerComponent 8 "


def assembled(objects: Mapping[int, bytes], trailer: bytes = b"/Root 1 0 R") -> bytes:
    """Return a file with these objects, by their numbers from 1, and its table of where they are."""
    file, places = bytearray(b"%PDF-1.7\n"), {}
    for number, content in sorted(objects.items()):
        places[number] = len(file)
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start, size = len(file), max(objects) + 1
    file += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        file += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    file += b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    return bytes(file)


def drawn(text: str) -> bytes:
    """Return what draws a text on a page."""
    lines = [part for line in text.split("\n") for part in _wrapped(line)]
    shown = b"\n".join(b"(%s) Tj T*" % _escaped(line) for line in lines)
    return b"BT /F1 9 Tf 11 TL 40 760 Td\n%s\nET" % shown if text else b""


def _wrapped(line: str) -> list[str]:
    parts, rest = [], line
    while len(rest) > LINE_CHARS:
        cut = rest.rfind(" ", 0, LINE_CHARS)
        cut = cut if cut > 0 else LINE_CHARS
        parts.append(rest[:cut])
        rest = rest[cut:].lstrip()
    return [*parts, rest]


def _escaped(line: str) -> bytes:
    plain = line.encode("cp1252", "replace")
    return plain.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def stream(data: bytes, fields: bytes = b"") -> bytes:
    """Return a compressed stream with further fields."""
    packed = zlib.compress(data)
    return b"<< %s/Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (fields, len(packed), packed)


def _outline(objects: dict[int, bytes], headings: Mapping[str, int], first: int) -> bytes:
    if not headings:
        return b""
    top = max(objects) + 1
    last = top + len(headings)
    for number, (heading, page) in enumerate(headings.items(), top + 1):
        beside = (b"/Prev %d 0 R " % (number - 1) if number > top + 1 else b"") + (
            b"/Next %d 0 R " % (number + 1) if number < last else b""
        )
        place = first + 2 * (page - 1)
        objects[number] = b"<< /Title (%s) /Parent %d 0 R %s/Dest [%d 0 R /Fit] >>" % (
            _escaped(heading),
            top,
            beside,
            place,
        )
    objects[top] = b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>" % (top + 1, last, len(headings))
    return b" /Outlines %d 0 R" % top
