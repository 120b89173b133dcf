"""`memory ingest`, `memory documents` and `memory forget-document`: files that can be searched."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import click

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.memory.detached_ingest import job_lines, jobs_json, recorded, start_job
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.settings import load_settings
from scaffold.core.knowledge import DOCUMENTS
from scaffold.host.process.async_runner import run_async
from scaffold.host.startup import lazy_import
from scaffold.memory.chunking.text_pieces import MAX_CHARS
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.notes import MemoryScope
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.document_commands import (
    document_forgotten,
    document_list,
    open_library,
    passages_if_any,
)
from scaffold.session.memory.embedding import EmbedderSource
from scaffold.session.memory.lazy_memories import MemoryAccess

LEAST_CHARS, MOST_CHARS = 100, 10_000
RUN_INGEST = "scaffold.cli.commands.memory.ingest_progress:run_ingest"
"""Few commands need what reads files."""


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
@click.option("--no-vectors", is_flag=True, help="Leave the vectors to searches, which compute some each time.")
@click.option("--detach", is_flag=True, help="Do it in the background.")
@click.option("--record", type=click.Path(path_type=Path), hidden=True)
@json_option
def ingest(paths: Sequence[Path], *, detach: bool, record: Path | None, **given: Any) -> None:
    """Store files as documents that can be searched: PDFs, Markdown, code and other texts; of a folder all of them.

    It may be killed at any time: the same command goes on where it was. An unchanged file is left as it is, a changed
    one takes the place of its former version.
    """
    words = _words(paths, given)
    if detach:
        read_page_ranges(given["pages"])  # wrong ones are said here
        print_answer(start_job(words), as_json=given["as_json"])
        return
    run: Callable[..., None] = lazy_import(RUN_INGEST)
    with recorded(record, words):
        run(paths, **given)


def _words(paths: Sequence[Path], given: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `ingest` that mean the same; relative paths stay so."""
    usual = {"index": DOCUMENTS, "chunk_size": MAX_CHARS, "as_json": given["as_json"]}
    words: list[str] = []
    for name, value in sorted(given.items()):
        if value and value != usual.get(name):
            option = f"--{name.replace('_', '-')}"
            words.append(option if value is True else f"{option}={value}")
    return [*words, *(["--"] if any(str(path).startswith("-") for path in paths) else []), *map(str, paths)]


@click.command()
@click.option("--index", metavar="NAME", help="Only those of this index.")
@json_option
@pageable
def documents(*, index: str | None, as_json: bool) -> None:
    """List the documents, and how much of each can be found."""
    with library_here() as (library, _):
        answer = document_list(library, index)
    text = "\n".join([answer.text, *job_lines()])
    print_answer(MemoryAnswer(text, {**answer.data, "background": jobs_json()}), as_json=as_json)


@click.command("forget-document")
@click.argument("names", metavar="DOCUMENT...", nargs=-1, required=True)
@json_option
def forget_document(names: Sequence[str], *, as_json: bool) -> None:
    """Delete documents for good, by name or id: their text, words and vectors. The files stay."""
    with library_here() as (library, _):
        print_answer(document_forgotten(library, names), as_json=as_json)


def search_documents(index: str, query: str, *, as_json: bool) -> bool:
    """Print the parts of documents that fit a query; return False, and print nothing, if the index has none."""
    with library_here() as (library, _):
        answer = run_async(passages_if_any(library, index, query))
    if answer is not None:
        print_answer(answer, as_json=as_json)
    return answer is not None


def print_answer(answer: MemoryAnswer, *, as_json: bool) -> None:
    """Print what a command says."""
    if as_json:
        print_json(answer.data)
    else:
        print_text(answer.text)


@contextmanager
def library_here(*, create: bool = False) -> Iterator[tuple[DocumentLibrary, MemoryAccess]]:
    """Open the documents of this folder's repository and of the user."""
    store, cwd = open_user_store(), Path.cwd()
    try:
        redactor = redactor_for(os.environ, cwd)
        model = load_settings(cwd, os.environ, {}).text("models.embedding")
        embedding = EmbedderSource(model, store, redactor, patient=True)
        access = MemoryAccess(cwd=cwd, store=store, redactor=redactor, embedding=embedding)
        with open_library(access, create=create) as library:
            yield library, access
    finally:
        store.close()
