"""`memory`: the group of its commands, which do what `/memory` does in a conversation."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import click

from scaffold.cli.commands.memory.documents import (
    documents,
    forget_document,
    print_answer,
    recorded,
    search_documents,
    start_job,
)
from scaffold.cli.commands.memory.ingest_progress import ProgressPrinter
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.terminal.style import is_terminal, print_note
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import DOCUMENTS, MEMORIES
from scaffold.core.printable_text import count_of, one_line
from scaffold.host.process.async_runner import run_async
from scaffold.host.startup import importing
from scaffold.memory.chunking.text_pieces import MAX_CHARS
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.markdown import is_export, memories_as_markdown, read_memories
from scaffold.memory.memories import USER, Memories
from scaffold.memory.notes import MemoryScope, MemoryType
from scaffold.memory.opening import open_memories, open_user_memories
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.memory import commands
from scaffold.session.memory.answer import MemoryAnswer
from scaffold.session.memory.embedding import EmbedderSource

MAX_BYTES = 4_000_000
MOST_SHOWN = 10
MOST_PARTS = 200  # of a file that is not an export: a document belongs into `memory ingest`
LEAST_CHARS, MOST_CHARS = 100, 10_000


@click.group(invoke_without_command=True)
@click.pass_context
def memory(ctx: click.Context) -> None:
    """Show, search, correct and delete what `ralph` remembers beyond a conversation, and add to it.

    Memories of this repository are in its database, those of yours for all folders in your own. The agent gets what
    fits your message, as data that gives no orders. Without a command, all are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, index=MEMORIES, as_json=False)


@memory.command("list")
@click.argument("index", default=MEMORIES)
@json_option
@pageable
def list_(index: str, *, as_json: bool) -> None:
    """List the memories, or what another INDEX has, the newest first."""
    with _open_memories() as memories:
        print_answer(commands.listed(memories, index, width=_terminal_width()), as_json=as_json)


@memory.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--index", metavar="INDEX", default=MEMORIES, help="Search in another index, e.g. `documents`.")
@json_option
def search(query: Sequence[str], *, index: str, as_json: bool) -> None:
    """Show the memories, or the parts of documents, that fit QUERY, by words and by meaning."""
    if index != MEMORIES and search_documents(index, " ".join(query), as_json=as_json):
        return
    with _open_memories() as memories:
        found = commands.searched(memories, " ".join(query), index=index, width=_terminal_width())
        print_answer(run_async(found), as_json=as_json)


@memory.command()
@click.argument("name", metavar="MEMORY")
@json_option
def show(name: str, *, as_json: bool) -> None:
    """Show one memory, who said it, since when, and what contradicts it; or an item of another index."""
    with _open_memories() as memories:
        print_answer(commands.shown(memories, name), as_json=as_json)


@memory.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--scope", type=click.Choice(get_args(MemoryScope)), help="Default: this repository, if there is one.")
@click.option("--type", "kind", type=click.Choice(get_args(MemoryType)), default="fact", show_default=True)
@click.option("--supersedes", metavar="MEMORY", default="", help="The memory whose place it takes.")
@json_option
def add(text: Sequence[str], *, as_json: bool, **given: Any) -> None:
    """Remember TEXT; it counts at once."""
    with _open_memories(create=given["scope"] != "user") as memories:
        print_answer(commands.added(memories, " ".join(text), **given), as_json=as_json)


@memory.command()
@click.argument("name", metavar="MEMORY")
@click.argument("field", type=click.Choice(tuple(commands.FIELDS)))
@click.argument("value", nargs=-1, required=True)
@json_option
def edit(name: str, field: str, value: Sequence[str], *, as_json: bool) -> None:
    """Change the text, type or state of a memory; a former text is deleted for good."""
    with _open_memories() as memories:
        print_answer(commands.edited(memories, name, field, " ".join(value)), as_json=as_json)


@memory.command()
@click.argument("names", metavar="MEMORY...", nargs=-1, required=True)
@json_option
def confirm(names: Sequence[str], *, as_json: bool) -> None:
    """Let memories count that an agent noted; those of yours count in all folders then."""
    with _open_memories() as memories:
        print_answer(commands.confirmed(memories, names), as_json=as_json)


@memory.command()
@click.argument("names", metavar="MEMORY...", nargs=-1, required=True)
@json_option
def forget(names: Sequence[str], *, as_json: bool) -> None:
    """Delete memories for good: text, words and vectors."""
    with _open_memories() as memories:
        print_answer(commands.forgotten(memories, names), as_json=as_json)


@memory.command()
@json_option
def indices(*, as_json: bool) -> None:
    """List the indexes, and how full they are."""
    with _open_memories() as memories:
        print_answer(commands.indices(memories), as_json=as_json)


@memory.command()
@click.argument("index", default=MEMORIES)
@json_option
def stats(index: str, *, as_json: bool) -> None:
    """Show one index in numbers."""
    with _open_memories() as memories:
        print_answer(commands.stats(memories, index), as_json=as_json)


@memory.command()
@click.argument("index")
@json_option
def drop(index: str, *, as_json: bool) -> None:
    """Delete an INDEX that agents have made, with all it has, for good."""
    with _open_memories() as memories:
        print_answer(commands.dropped(memories, index), as_json=as_json)


@memory.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
def export(file: Path | None) -> None:
    """Write all memories as Markdown to a new FILE, or to standard output."""
    with _open_memories() as memories:
        print_text(export_memories(memories, file))


@memory.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--scope", type=click.Choice(get_args(MemoryScope)), help="Default: as exported, else this repository.")
@click.option("--confirmed", is_flag=True, help="They count at once, as if you had said them.")
@json_option
def import_(file: Path, *, scope: MemoryScope | None, confirmed: bool, as_json: bool) -> None:
    """Read memories from FILE: an export, or a text of which each section becomes one. They are unconfirmed."""
    with _open_memories(create=scope != "user") as memories:
        print_answer(import_memories(memories, file, scope=scope, confirmed=confirmed), as_json=as_json)


@memory.command()
@click.option("--again", is_flag=True, help="Compute all of them anew.")
@json_option
def index(*, again: bool, as_json: bool) -> None:
    """Compute the vectors that are missing, and a new index file where there are very many.

    If it is interrupted, the next one goes on. Vectors of another model than the configured one are computed anew.
    """
    with _open_memories(patient=True) as memories:
        with _vector_progress() as tell:
            answer = run_async(commands.indexed(memories, again=again, tell=tell))
        print_answer(answer, as_json=as_json)


@memory.command()
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
    usual = {"index": DOCUMENTS, "chunk_size": MAX_CHARS, "as_json": given["as_json"]}
    words = list[str]()
    for name, value in sorted(given.items()):
        if value and value != usual.get(name):
            option = f"--{name.replace('_', '-')}"
            words.append(option if value is True else f"{option}={value}")
    # Relative paths stay so: the background process has the same current folder.
    words += [*(["--"] if any(str(path).startswith("-") for path in paths) else []), *map(str, paths)]
    if detach:
        read_page_ranges(given["pages"])  # wrong ones are said here
        print_answer(start_job(words), as_json=given["as_json"])
        return
    with importing():  # few commands need what reads files
        from scaffold.cli.commands.memory.ingest_progress import run_ingest
    with recorded(record, words):
        run_ingest(paths, **given)


for command in (documents, forget_document):
    memory.add_command(command)


@contextmanager
def _open_memories(*, create: bool = False, patient: bool = False) -> Iterator[Memories]:
    cwd = Path.cwd()
    redactor = redactor_for(os.environ, cwd)
    with open_user_memories() as user:
        model = load_settings(cwd, os.environ, {}).text("models.embedding")
        embedder = EmbedderSource(model, user, redactor, patient=patient).get()
        with open_memories(cwd, user, redactor, create=create, embedder=embedder) as memories:
            if memories.databases.left_out is not None:
                print_note(memories.databases.left_out.in_full)
            yield memories


@contextmanager
def _vector_progress() -> Iterator[Callable[[int], None]]:
    shown = ProgressPrinter(quiet=not is_terminal(sys.stderr))
    try:
        yield shown.vectors
    finally:
        shown.end()


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200


def export_memories(memories: Memories, file: Path | None) -> str:
    """Write all memories to a new file, and say so; without a file, return them."""
    found = memories.newest(most=1_000_000)
    text = memories_as_markdown(found)
    if file is None:
        return text.rstrip("\n")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already", "Name a new file.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "Name another file.") from error
    return f"{count_of(len(found), 'memory', 'memories')} written to {file}"


def import_memories(memories: Memories, file: Path, *, scope: MemoryScope | None, confirmed: bool) -> MemoryAnswer:
    """Store each piece of a file as a memory, and report the pieces that were refused. Safe to repeat."""
    source = USER if confirmed else f"file:{one_line(file.name)}"
    new, known, refused = 0, 0, []
    text = _read_file(file)
    parts = read_memories(text, file)
    if len(parts) > MOST_PARTS and not is_export(text):
        what = f"{file} has {len(parts):,} parts: it is a document, and at most {MOST_PARTS} become memories"
        raise UsageError(what, "Write down in another file what is worth remembering of it.")
    for number, each in enumerate(parts, 1):
        # Without a project here, only what is the user's own keeps its scope.
        own = each.scope if each.scope == "user" or memories.has_project else None
        try:
            done = memories.remember(each.text, source=source, scope=own if scope is None else scope, kind=each.kind)
        except UsageError as error:
            refused.append(f"part {number} of the file: {error.what}")  # its text may be a secret
            continue
        new, known = new + done.is_new, known + (not done.is_new)
    lines = [f"{count_of(new, 'memory', 'memories')} added, {known} known already, {len(refused)} refused", *refused]
    if len(refused) > MOST_SHOWN:
        lines = [*lines[: MOST_SHOWN + 1], f"... {len(refused) - MOST_SHOWN} more"]
    return MemoryAnswer("\n".join(lines), {"added": new, "known": known, "refused": refused})


def _read_file(file: Path) -> str:
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "Name another file.") from error
    if size > MAX_BYTES:
        raise UsageError(f"{file} is too large: {size:,} bytes, at most {MAX_BYTES:,}", "Split it.")
    if b"\0" in content:
        raise UsageError(f"{file} is not a text", "Export its text first.")
    return content.decode("utf-8", "replace")
