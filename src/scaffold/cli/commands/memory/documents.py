"""`memory documents` and `memory forget-document`: files that can be searched."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.memory.detached_ingest import job_lines, jobs_json
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.settings import load_settings
from scaffold.host.process.async_runner import run_async
from scaffold.memory.documents.library import DocumentLibrary
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
