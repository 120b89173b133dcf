"""The text of a PDF as the answer of a tool: whole pages, as many as fit, and how to go on."""

import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.tool import ToolOutput
from scaffold.memory.documents.page_ranges import MAX_PARTS, PageRanges, read_page_ranges
from scaffold.memory.documents.pdf_reader import PdfPage, PdfRequest, check_pdf, in_number, read_pdf
from scaffold.memory.documents.reader_sandbox import ReaderPlace, reader_place
from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.near_paths import missing_file
from scaffold.tools.content.safe_open import open_file, unreadable_reason
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace, failed_answer, printable_name, resolve_readable

PAGES_AT_ONCE = 25
TIME_LIMIT_S = 60.0
MARK_CHARS = 40  # what is between two pages, at most, beside what is said of one


class OpenPdf(Struct, frozen=True):
    """An open file that begins as a PDF does, its path, and its path as the agent wrote it."""

    file: int
    path: Path
    shown: str


class _Shown(Struct, frozen=True, kw_only=True):
    total: int
    pages: Sequence[PdfPage]
    rest: PageRanges | None
    """What was asked for and is not shown; None if nothing is left."""


async def pdf_text(workspace: Workspace, args: Mapping[str, Any]) -> ToolOutput:
    """Return pages of a PDF in the workspace, as text or as JSON."""

    async def answer(pdf: OpenPdf) -> ToolOutput:
        wanted = read_page_ranges(args.get("pages", ""))
        async with reader_place() as place:
            found = await _read_pages(pdf.file, pdf.shown, wanted, place)
        return ToolOutput(_as_json(found) if args.get("format") == "json" else _as_text(pdf.shown, found))

    return await with_workspace_pdf(workspace, args["path"], answer)


async def _read_pages(file: int, name: str, wanted: PageRanges, place: ReaderPlace) -> _Shown:
    pages: list[PdfPage] = []
    rest, room, part = wanted, MAX_ANSWER_CHARS, None
    until = time.monotonic() + TIME_LIMIT_S
    while part is None or (rest.count(part.total) and room > 0 and time.monotonic() < until):
        request = PdfRequest(pages=rest, most_pages=PAGES_AT_ONCE)
        part = await read_pdf(file, name, request, place, part.reader if part else None)
        if not part.pages:
            raise UsageError(f"{name} has no page {rest}: it has {part.total:,}", "Ask for pages that it has.")
        for page in part.pages:
            size = len(json.dumps(page.text, ensure_ascii=False)) + len(page.problem) + MARK_CHARS
            if pages and size > room:
                room = 0
                break
            if len(page.text) > room:
                problem = f"has {len(page.text):,} characters, of which {room:,} are shown"
                page = structs.replace(page, text=page.text[:room], problem=problem)  # noqa: PLW2901 - the shown part
            pages.append(page)
            room -= size
            rest = rest.after(page.number)
    return _Shown(total=part.total, pages=pages, rest=rest if rest.count(part.total) else None)


def _as_text(name: str, found: _Shown) -> str:
    numbers = f"{found.pages[0].number}-{found.pages[-1].number}" if len(found.pages) > 1 else found.pages[0].number
    lines = [f"{name}: total_pages {found.total}, pages {numbers}"]
    for problem, group in groupby(found.pages, key=lambda page: None if page.text else page.problem):
        pages = list(group)
        if problem is None:
            for page in pages:
                lines += [f"--- page {page.number}{' ' if page.problem else ''}{page.problem} ---", page.text]
            continue
        # Scans have no text on any page: one line for all of them.
        unread = str(read_page_ranges(",".join(str(each.number) for each in pages[:MAX_PARTS])))
        more = ", ..." if len(pages) > MAX_PARTS else ""
        lines.append(f"--- page{'s' if len(pages) > 1 else ''} {unread}{more} {in_number(problem, len(pages))} ---")
    lines += [f"... continue with pages {found.rest}"] if found.rest else []
    return "\n".join(lines)


def _as_json(found: _Shown) -> str:
    pages = [
        {"page": each.number, "text": each.text, **({"problem": each.problem} if each.problem else {})}
        for each in found.pages
    ]
    more = {"continue_with": str(found.rest)} if found.rest else {}
    return json.dumps({"total_pages": found.total, "pages": pages, **more}, ensure_ascii=False)


async def with_workspace_pdf(
    workspace: Workspace, path: str, work: Callable[[OpenPdf], Awaitable[ToolOutput]]
) -> ToolOutput:
    """Return what `work` answers for a PDF, or why it cannot be read."""
    readable = resolve_readable(workspace, path)
    if isinstance(readable, Refusal):
        return failed_answer(readable.reason)
    shown = printable_name(path)
    try:
        with open_file(readable.folder, readable.path, os.O_RDONLY) as file:
            problem = unreadable_reason(os.fstat(file), shown)
            if problem is None:
                check_pdf(file, shown)
            return failed_answer(problem.reason) if problem else await work(OpenPdf(file, readable.path, shown))
    except ScaffoldError as error:
        return failed_answer(error.in_full)
    except FileNotFoundError:
        return failed_answer(missing_file(readable.folder, path))
    except IsADirectoryError:
        return failed_answer(f"{shown} is a folder; use list_dir.")
    except OSError as error:
        return failed_answer(f"{shown} cannot be read ({error.strerror}); use another file.")
