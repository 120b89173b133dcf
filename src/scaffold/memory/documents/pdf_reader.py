"""Read pages of a PDF in a process that may crash, hang or lie without harm to this one."""

import contextlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import CommandResult, Containment, OutputCapture, run_command
from scaffold.memory.documents.page_ranges import PageRanges
from scaffold.memory.documents.reader_sandbox import MEMORY_BYTES, ReaderPlace
from scaffold.memory.documents.source_files import HEAD_BYTES, MAGIC

DAMAGED = "cannot be read: it is damaged"
IMAGE = "has no text: it is an image, which needs OCR"
EMPTY = "has no text: it is empty"
PLURALS: Mapping[str, str] = {
    DAMAGED: "cannot be read: they are damaged",
    IMAGE: "have no text: they are images, which need OCR",
    EMPTY: "have no text: they are empty",
}
Reader = Literal["pdfium", "pypdf"]
LIBRARIES: Mapping[Reader, str] = {"pdfium": "pypdfium2", "pypdf": "pypdf"}
"""The library of each reader, the better one first."""
PROGRAMS = "scaffold.memory.documents.{}_child"
MAX_FILE_BYTES = 1_000_000_000
MAX_PAGE_CHARS = 200_000
"""The rest of a page is not read; a page of small print has 10,000."""
PART_SECONDS = 2.0
PART_PAGES = 500
TIMEOUT_S = 30.0
CPU_S = 20
MAX_OUTPUT_BYTES = 64_000_000
MOST_PAGES = 5_000_000
ENCRYPTED = "encrypted"
CPU_SIGNAL = 24
"""SIGXCPU."""
_ERROR = re.compile(r"\b[A-Z][A-Za-z]{2,40}Error\b")


class PdfPage(Struct, frozen=True, kw_only=True):
    """A page: its text, and why there is none or only a part of it."""

    number: int
    text: str = ""
    problem: str = ""
    ended_reader: bool = False
    """Whether the process that read it crashed, or took too long."""


class PdfHeading(Struct, frozen=True):
    """An entry of a table of contents."""

    page: int
    level: int
    text: str


class PdfPart(Struct, frozen=True, kw_only=True):
    """Some pages of a PDF, in order, of the `total` that it has."""

    total: int
    reader: Reader
    pages: tuple[PdfPage, ...]
    headings: tuple[PdfHeading, ...] = ()


class PdfRequest(Struct, frozen=True, kw_only=True):
    """What to read: the first of the pages, as many as can be read in `seconds`, one at least."""

    pages: PageRanges
    most_pages: int = PART_PAGES
    seconds: float = PART_SECONDS
    page_chars: int = MAX_PAGE_CHARS
    headings: bool = False
    timeout_s: float = TIMEOUT_S


class _PdfLine(Struct, frozen=True):
    """What the child says in a line; all of it may be wrong."""

    total: int | None = None
    page: int | None = None
    text: str = ""
    chars: int = 0
    images: bool = False
    damaged: bool = False
    error: Literal["encrypted", "damaged"] | None = None
    headings: tuple[tuple[int, int, str], ...] = ()
    end: bool = False


_DECODER = msgspec.json.Decoder(_PdfLine)


async def read_pdf(
    file: int, name: str, request: PdfRequest, place: ReaderPlace, reader: Reader | None = None
) -> PdfPart:
    """Return the first of the wanted pages of an open file, with the `reader` that has read others of it.

    UsageError if it is not a PDF, is encrypted, damaged or too large, or if no PDF library is installed.
    """
    check_pdf(file, name)
    readers = [each for each, library in LIBRARIES.items() if importlib.util.find_spec(library) is not None]
    if not readers:
        raise UsageError(
            f"{name} cannot be read: no library for PDFs is installed",
            "Install it: pip install 'ralph-scaffold[documents]'.",
        )
    problem = ""
    for each in readers if reader is None else [reader]:
        part = await _read_with(each, file, request, place)
        if isinstance(part, PdfPart):
            return part
        problem = part
        if problem == ENCRYPTED:
            raise UsageError(f"{name} is encrypted: it needs a password", "Save a copy without one, and read that.")
    raise UsageError(f"{name} cannot be read: {problem}", "Open it in a viewer, and save or print it to a new PDF.")


def check_pdf(file: int, name: str) -> None:
    """Raise UsageError unless an open file is a PDF that can be read."""
    size = os.fstat(file).st_size
    if not size:
        raise UsageError(f"{name} is empty", "Name another file.")
    if size > MAX_FILE_BYTES:
        raise UsageError(f"{name} is too large: {size:,} bytes, at most {MAX_FILE_BYTES:,}", "Split it.")
    # Viewers accept some bytes before the header, and such files exist.
    if MAGIC not in os.pread(file, HEAD_BYTES, 0):
        raise UsageError(f"{name} is not a PDF", "Read a text with `read_file`; convert other documents to PDF first.")


async def _read_with(reader: Reader, file: int, request: PdfRequest, place: ReaderPlace) -> PdfPart | str:
    """Return the pages that a reader could read, the one at which it failed as the last; why, if it read none."""
    finished = await _run_reader(reader, file, request, place)
    lines: list[_PdfLine] = []
    # Up to the first line that is not as agreed.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        for line in finished.stdout.split(b"\n"):
            lines.append(_DECODER.decode(line))  # noqa: PERF401 - what was decoded before an error counts
    error = next((each.error for each in lines if each.error), None)
    if error is not None:
        return ENCRYPTED if error == "encrypted" else "it is damaged"
    total = next((each.total for each in lines if each.total is not None), None)
    if total is None:
        return _failure_reason(finished)
    # The child may say anything, as the file may have taken it over.
    if not 0 < total <= MOST_PAGES:
        return f"it claims to have {total:,} pages"
    pages = tuple(_wanted_pages(lines, request.pages, total))
    following = _first_page(request.pages, total)
    if not pages and following is not None:
        # A fresh process reads what comes after this page.
        problem = f"cannot be read: {_failure_reason(finished)}"
        pages = (PdfPage(number=following, problem=problem, ended_reader=True),)
    headings = tuple(PdfHeading(*each) for line in lines for each in line.headings)
    return PdfPart(total=total, reader=reader, pages=pages, headings=headings)


async def _run_reader(reader: Reader, file: int, request: PdfRequest, place: ReaderPlace) -> CommandResult:
    asked = {
        "pages": [[each.first, each.last] for each in request.pages.parts],
        "most_pages": request.most_pages,
        "seconds": request.seconds,
        "page_chars": request.page_chars,
        "headings": request.headings,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
    }
    # An earlier reader has moved the position, which it shares with us.
    os.lseek(file, 0, os.SEEK_SET)
    return await run_command(
        [sys.executable, "-I", "-m", PROGRAMS.format(reader), json.dumps(asked)],
        cwd=place.folder,
        env=child_environment(os.environ),
        timeout_s=request.timeout_s,
        stdin=file,
        output=OutputCapture(limit_bytes=MAX_OUTPUT_BYTES),
        containment=Containment(sandbox=place.sandbox),
    )


def _wanted_pages(lines: Sequence[_PdfLine], pages: PageRanges, total: int) -> Iterator[PdfPage]:
    # Each once and in order: whatever else a child says is left out.
    rest = pages
    for line in lines:
        if line.page is None or line.page != _first_page(rest, total):
            continue  # repeated, skipped or made up
        rest = rest.after(line.page)
        text, problem = line.text[:MAX_PAGE_CHARS], ""
        if line.damaged:
            text, problem = "", DAMAGED
        elif not text.strip():
            text, problem = "", IMAGE if line.images else EMPTY
        elif line.chars > len(line.text) or len(line.text) > len(text):
            problem = f"is read up to character {len(text):,}"
        yield PdfPage(number=line.page, text=text, problem=problem)


def _first_page(pages: PageRanges, total: int) -> int | None:
    return next((each.first for each in pages.parts if each.first <= total), None)


def _failure_reason(finished: CommandResult) -> str:
    """Return why a child ended before it had read all that it should."""
    if finished.timed_out or finished.signal == CPU_SIGNAL:
        return "it takes too long"
    if finished.signal is not None:
        return f"the reader crashed (signal {finished.signal})"
    # Of its last words only the name of the error: they may be made up.
    named = _ERROR.search(finished.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    if named is not None and named[0] == MemoryError.__name__:
        return "it needs too much memory"
    return f"the reader failed ({named[0]})" if named is not None else "the reader failed"


def in_number(problem: str, pages: int) -> str:
    """Return the problem of so many pages."""
    return problem if pages == 1 else PLURALS.get(problem, problem)
