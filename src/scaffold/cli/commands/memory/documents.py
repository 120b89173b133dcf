"""`memory documents` and `memory forget-document`, and the jobs of `memory ingest --detach`.

A job writes a record when it begins and deletes it when all is stored. A record whose process is gone means that the
job died; repeating the command continues it.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import click
import msgspec
from msgspec import Struct, structs

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.core.printable_text import printable
from scaffold.host.atomic_files import write_atomic
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.child import start_detached
from scaffold.host.process_identity import is_alive, own_identity
from scaffold.host.random_ids import new_id
from scaffold.host.user_dirs import user_dirs
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.document_commands import document_forgotten, document_list, open_library, passages_if_any
from scaffold.session.memory.embedding import EmbedderSource, MemoryAccess
from scaffold.views.text_format import local_time

FOLDER = "ingestion"
KEPT = timedelta(days=7)  # how long an unfinished job is listed
POLL_S = 0.05
TAIL_CHARS = 2_000  # of the log, in an error


class IngestionJob(Struct, frozen=True, kw_only=True):
    """A process that stores documents in the background, as its file has it."""

    process: ProcessIdentity
    cwd: str
    words: tuple[str, ...]
    """The arguments of the command, without `--detach`."""
    started_at: datetime
    failed: bool = False
    """Whether it ended with an error; False also if it was killed."""

    @property
    def command(self) -> str:
        """Return the command that does it again, or goes on."""
        return printable(shlex.join(["scaffold", "memory", "ingest", *self.words]))


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


def start_job(words: Sequence[str]) -> MemoryAnswer:
    """Run `memory ingest` with these arguments in the background; return the answer of the command.

    ScaffoldError with the end of its output if it ends before it has begun.
    """
    record = _jobs_folder() / f"{new_id()}.json"
    log = record.with_suffix(".log")
    # Records of processes that ended long ago, or with the same command here, which starts again now.
    oldest, here = SystemClock().now() - KEPT, (str(Path.cwd()), tuple(words))
    for path, job in _read_jobs():
        again = (job.cwd, job.words) == here
        if (again or job.started_at < oldest) and not is_alive(job.process):
            path.with_suffix(".log").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    argv = [*PROGRAM, "memory", "ingest", "--record", str(record), *words]
    process = start_detached(argv, cwd=Path.cwd(), env=os.environ, log=log)
    alive = True
    while alive:
        alive = is_alive(process)  # asked first: the process may begin and end between the two
        # A short one has finished, and has deleted both.
        if record.exists() or not log.exists():
            break
        Event().wait(POLL_S)
    else:
        said = log.read_text(errors="replace")[-TAIL_CHARS:].strip()
        raise ScaffoldError(f"the job did not start in the background: {printable(said)}", "Try it without `--detach`.")
    text = (
        f"Storing them in the background (process {process.pid}); its output goes to {log}\n"
        "`scaffold memory documents` shows how far it is."
    )
    return MemoryAnswer(text, {"pid": process.pid, "log": str(log)})


@contextmanager
def recorded(record: Path | None, words: Sequence[str]) -> Iterator[None]:
    """Keep a record of this process in `record` while the block runs, and afterwards if it fails."""
    if record is None:
        yield
        return
    job = IngestionJob(process=own_identity(), cwd=str(Path.cwd()), words=tuple(words), started_at=SystemClock().now())
    _write_job(record, job)
    try:
        yield
    except ScaffoldError:
        _write_job(record, structs.replace(job, failed=True))
        raise
    # Last: the command that waits for the end looks for the record.
    record.with_suffix(".log").unlink(missing_ok=True)
    record.unlink(missing_ok=True)


def job_lines() -> Iterator[str]:
    """Yield lines about each unfinished job, the oldest first."""
    now = SystemClock().now()
    for record, job in _read_jobs():
        began = f"{local_time(job.started_at, now)} in {printable(job.cwd)}"
        if is_alive(job.process):
            yield f"Being stored since {began} (process {job.process.pid}): {job.command}"
        elif job.failed:
            yield f"Not everything was stored (begun at {began}): {job.command}"
            yield f"  The reason is in {record.with_suffix('.log')}"
        else:
            yield f"Ended before everything was stored (begun at {began}). To go on, repeat there: {job.command}"


def jobs_json() -> list[dict[str, Any]]:
    """Return the unfinished jobs as JSON, the oldest first."""
    return [
        {
            "pid": job.process.pid,
            "state": "running" if is_alive(job.process) else "failed" if job.failed else "ended",
            "cwd": job.cwd,
            "arguments": list(job.words),
            "started_at": job.started_at,
            "log": str(record.with_suffix(".log")),
        }
        for record, job in _read_jobs()
    ]


def _jobs_folder() -> Path:
    return user_dirs().data / FOLDER


def _write_job(record: Path, job: IngestionJob) -> None:
    write_atomic(record, msgspec.json.encode(job))


def _read_jobs() -> list[tuple[Path, IngestionJob]]:
    found = list[tuple[Path, IngestionJob]]()
    for path in _jobs_folder().glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):  # the job has finished since, or another version wrote it
            found.append((path, msgspec.json.decode(path.read_bytes(), type=IngestionJob)))
    return sorted(found, key=lambda each: each[1].started_at)
