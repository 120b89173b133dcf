"""Store the files of `memory ingest`, and show the progress."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.cli.commands.memory.documents import library_here, print_answer
from scaffold.cli.render.terminal.screen_redraw import LINE
from scaffold.cli.render.terminal.style import can_draw_on
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import CollectionName
from scaffold.core.printable_text import count_of, printable
from scaffold.host.process.async_runner import run_async
from scaffold.memory.chunking.text_pieces import PieceSize
from scaffold.memory.documents.ingestion import Progress
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.documents.parts import ReadingOptions
from scaffold.memory.documents.source_files import documents_below
from scaffold.memory.notes import MemoryScope
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.ingest import IngestRequest, Reporting, ingested

LINE_EVERY_S = 5.0
DRAW_EVERY_S = 0.1


class IngestArguments(Struct, frozen=True, kw_only=True):
    """The options of the command."""

    index: str
    pages: str
    chunk_size: int
    scope: MemoryScope | None
    no_vectors: bool
    as_json: bool


def run_ingest(paths: Sequence[Path], **given: Any) -> None:
    """Store files and the documents of folders; UsageError at the end if one could not be stored."""
    args = IngestArguments(**given)
    options = ReadingOptions(pages=read_page_ranges(args.pages), size=PieceSize(args.chunk_size))
    progress = ProgressPrinter(quiet=args.as_json)

    async def work(library: DocumentLibrary, access: MemoryAccess) -> MemoryAnswer:
        files = [file for path in paths for file in (await documents_below(path) if path.is_dir() else [path])]
        request = IngestRequest(
            files=files,
            index=CollectionName(args.index),
            scope=args.scope,
            options=options,
            vectors=not args.no_vectors,
        )
        return await ingested(library, access, request, Reporting(progress.document, progress.stored, progress.vectors))

    try:
        with library_here(create=args.scope != "user") as opened:
            answer = run_async(work(*opened))
    finally:
        progress.end()
    print_answer(answer, as_json=args.as_json)
    if failed := answer.data["failed"]:
        raise UsageError(f"{count_of(len(failed), 'file')} could not be stored", "See above what to do.")


class ProgressPrinter:
    """Reports progress on standard error: in one line on a terminal, elsewhere in a line every few seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._draws = not quiet and can_draw_on(sys.stderr)
        self._began = self._last = time.monotonic()
        self._drawn = False

    def document(self, progress: Progress) -> None:
        """Report a stored part."""
        document = progress.document
        rate = progress.chunks / max(time.monotonic() - self._began, 0.001)
        unit = count_of(document.length, progress.unit)
        self._show_progress(
            f"{printable(document.name)}: {document.position:,} of {unit}, "
            f"{count_of(progress.chunks, 'chunk')}, {rate:,.0f} a second"
        )

    def stored(self, text: str) -> None:
        """Print what became of a document."""
        if not self._quiet:
            self.end()
            print_text(text)
            sys.stdout.flush()

    def vectors(self, count: int) -> None:
        """Report stored vectors."""
        self._show_progress(
            f"{count_of(count, 'vector')}, {count / max(time.monotonic() - self._began, 0.001):,.0f} a second"
        )

    def end(self) -> None:
        """Clear the progress line."""
        if self._drawn:
            self._drawn = False
            sys.stderr.write(LINE)
            sys.stderr.flush()

    def _show_progress(self, line: str) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (DRAW_EVERY_S if self._draws else LINE_EVERY_S):
            return
        self._last = now
        if self._draws:
            self._drawn = True
            sys.stderr.write(f"{LINE}{layout_for(sys.stderr).cut(line)}")
            sys.stderr.flush()
        else:
            print_text(line, err=True)
