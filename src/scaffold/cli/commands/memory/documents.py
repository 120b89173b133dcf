"""`memory ingest`, `memory documents` and `memory forget-document`: files that can be searched."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import click

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.layout import layout_for, print_text
from scaffold.cli.render.style import can_draw_on, print_json
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import DOCUMENTS, CollectionName
from scaffold.core.printable_text import count_of, printable
from scaffold.host.process.async_runner import run_async
from scaffold.memory.chunking.pieces import MAX_CHARS, PieceSize
from scaffold.memory.documents.folder import documents_below
from scaffold.memory.documents.ingestion import Progress
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.documents.parts import ReadingOptions
from scaffold.memory.notes import MemoryScope
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.memory.access import MemoryAccess
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.documents import (
    IngestRequest,
    Reporting,
    document_forgotten,
    document_list,
    ingested,
    open_library,
    passages,
)

LEAST_CHARS, MOST_CHARS = 100, 10_000
LINE_EVERY_S = 5.0
DRAW_EVERY_S = 0.1


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--index", default=DOCUMENTS, show_default=True, metavar="NAME", help="The index that they go to.")
@click.option("--pages", default="", metavar="PAGES", help="Of a PDF only these pages: `1-3,7`, `10-`.")
@click.option(
    "--chunk-size",
    type=click.IntRange(LEAST_CHARS, MOST_CHARS),
    default=MAX_CHARS,
    show_default=True,
    metavar="CHARACTERS",
    help="How long a chunk is at most.",
)
@click.option("--scope", type=click.Choice(get_args(MemoryScope)), help="Default: this repository, if there is one.")
@json_option
def ingest(paths: Sequence[Path], *, as_json: bool, index: str, pages: str, chunk_size: int, scope: str | None) -> None:
    """Store files as documents that can be searched: PDFs, Markdown, code and other texts; of a folder all of them.

    It may be killed at any time: the same command goes on where it was. An unchanged file is left as it is, a changed
    one takes the place of its former version.
    """
    options = ReadingOptions(pages=read_page_ranges(pages), size=PieceSize(chunk_size))
    chosen: MemoryScope | None = next((each for each in get_args(MemoryScope) if each == scope), None)
    progress = ProgressPrinter(quiet=as_json)
    with _library(create=chosen != "user") as (library, access):

        async def work() -> MemoryAnswer:
            files = [file for path in paths for file in (await documents_below(path) if path.is_dir() else [path])]
            request = IngestRequest(files=files, index=CollectionName(index), scope=chosen, options=options)
            return await ingested(library, access, request, Reporting(progress.document, progress.vectors))

        try:
            answer = run_async(work())
        finally:
            progress.end()
    print_answer(answer, as_json=as_json)
    if failed := answer.data["failed"]:
        raise UsageError(f"{count_of(len(failed), 'file')} could not be stored", "See above what to do.")


@click.command()
@click.option("--index", metavar="NAME", help="Only those of this index.")
@json_option
@pageable
def documents(*, index: str | None, as_json: bool) -> None:
    """List the documents, and how much of each can be found."""
    with _library() as (library, _):
        print_answer(document_list(library, index), as_json=as_json)


@click.command("forget-document")
@click.argument("names", metavar="DOCUMENT...", nargs=-1, required=True)
@json_option
def forget_document(names: Sequence[str], *, as_json: bool) -> None:
    """Delete documents for good, by name or id: their text, words and vectors. The files stay."""
    with _library() as (library, _):
        print_answer(document_forgotten(library, names), as_json=as_json)


def search_documents(index: str, query: str, *, as_json: bool) -> None:
    """Print the parts of documents that fit a query."""
    with _library() as (library, _):
        print_answer(run_async(passages(library, index, query)), as_json=as_json)


def print_answer(answer: MemoryAnswer, *, as_json: bool) -> None:
    """Print what a command says."""
    if as_json:
        print_json(answer.data)
    else:
        print_text(answer.text)


class ProgressPrinter:
    """Says on standard error how far it is: a terminal shows it in one line, elsewhere there is one now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._draws = not quiet and can_draw_on(sys.stderr)
        self._began = self._last = time.monotonic()
        self._drawn = False

    def document(self, progress: Progress) -> None:
        """Take note of a stored part."""
        document = progress.document
        rate = progress.chunks / max(time.monotonic() - self._began, 0.001)
        unit = count_of(document.length, progress.unit)
        self._say(
            f"{printable(document.name)}: {document.position:,} of {unit}, "
            f"{count_of(progress.chunks, 'chunk')}, {rate:,.0f} a second"
        )

    def vectors(self, count: int) -> None:
        """Take note of stored vectors."""
        self._say(f"{count_of(count, 'vector')}, {count / max(time.monotonic() - self._began, 0.001):,.0f} a second")

    def end(self) -> None:
        """Leave the line to what is printed next."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _say(self, line: str) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (DRAW_EVERY_S if self._draws else LINE_EVERY_S):
            return
        self._last = now
        if self._draws:
            self._drawn = True
            sys.stderr.write(f"\r\x1b[K{layout_for(sys.stderr).cut(line)}")
            sys.stderr.flush()
        else:
            print_text(line, err=True)


@contextmanager
def _library(*, create: bool = False) -> Iterator[tuple[DocumentLibrary, MemoryAccess]]:
    store, cwd = open_user_store(), Path.cwd()
    try:
        access = MemoryAccess(cwd=cwd, store=store, redactor=redactor_for(os.environ, cwd))
        with open_library(access, create=create) as library:
            yield library, access
    finally:
        store.close()
