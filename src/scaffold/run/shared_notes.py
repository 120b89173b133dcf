"""Notes that agents share, and copies of the edits they ask for, in the projections: one file for each story."""

import contextlib
import os
from collections import Counter
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId, RunId
from scaffold.host.atomic_files import FileLock, read_untrusted, write_atomic
from scaffold.run.context import RunContext, safe_file_name

EDITS = "workflow_edits"
"""The folder of edit files, in the projections and in an attempt's shared folder; nothing reads the copies."""
FAILED = "failed"
"""The folder in the projections' one for edits that are not used."""
MAX_BYTES = 256 * 1024
"""The largest file of notes, in bytes."""
LOCK_TIMEOUT_S = 60.0
ARCHIVE = "archive"
"""The folder of the notes of completed stories, by run."""
SCRATCH = "scratch.md"
"""The notes of all agents."""


class UnusableNotes(Struct, frozen=True):
    """Why a file of notes is not used."""

    why: str


def notes_of_story(story: ActionKey) -> str:
    """Return the name of the file with the notes of a story."""
    return f"scratch_{safe_file_name(story)}.md"


async def file_notes(context: RunContext, run_id: RunId, story: ActionKey, *, completed: bool) -> None:
    """Move a story's notes to the archive once it is completed, and back if it is open again.

    Safe to repeat after a kill, and nothing is lost: notes that are in both places become one text, the older first.
    """
    name = notes_of_story(story)
    places = context.projections / name, context.projections / ARCHIVE / run_id / name
    source, target = places if completed else reversed(places)
    if not source.is_file():  # the usual case takes no lock
        return
    async with FileLock(context.repository.common_dir / "scaffold" / f"{name}.lock", timeout_s=LOCK_TIMEOUT_S):
        if not source.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            source.replace(target)
            return
        # The archive has the older notes.
        moved, there = source.read_bytes(), target.read_bytes()
        first, second = (there, moved) if completed else (moved, there)
        # Killed between the two, it may have been added already.
        if not (there.endswith(moved) if completed else there.startswith(moved)):
            write_atomic(target, first if not second else first.removesuffix(b"\n") + b"\n" + second)
        source.unlink()


async def add_notes(context: RunContext, name: str, text: str) -> str | UnusableNotes:
    """Add lines of our own at the end of a file of notes, unless they are in it; return all, or why that failed."""
    return await _append_notes(context, name, context.redactor.clean(text), once=True)


async def merge_notes(context: RunContext, name: str, given: str, written: str) -> str | UnusableNotes:
    """Add the lines to a file of notes that `written` has and `given` does not; return all, or why that failed.

    What is there stays: others may have written meanwhile, and a copy may have been emptied.
    """
    # Lines are counted: one that is written twice is meant twice.
    known, added = Counter(given.splitlines()), []
    for line in written.splitlines():
        if known[line]:
            known[line] -= 1
        else:
            added.append(line)
    return await _append_notes(context, name, context.redactor.clean("\n".join(added).strip("\n")))


async def _append_notes(context: RunContext, name: str, added: str, *, once: bool = False) -> str | UnusableNotes:
    target = context.projections / name
    # Several workers and the owner add to the same file.
    async with FileLock(context.repository.common_dir / "scaffold" / f"{name}.lock", timeout_s=LOCK_TIMEOUT_S):
        now = read_notes(target) or ""
        if isinstance(now, UnusableNotes) or not added or (once and f"\n{added}\n" in f"\n{now}\n"):
            return now
        text = f"{now}\n{added}\n" if now and not now.endswith("\n") else f"{now}{added}\n"
        if len(text.encode()) > MAX_BYTES:
            return UnusableNotes(f"with them the file has more than {MAX_BYTES} bytes; shorten it")
        try:
            write_atomic(target, text.encode())
        except OSError as error:
            return UnusableNotes(str(error))
    return text


def read_notes(path: Path | str, *, folder: int | None = None) -> str | UnusableNotes | None:
    """Return the text of a notes file, None if it is missing; with an open `folder`, `path` is a name in it."""
    try:
        os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        return UnusableNotes(str(error))
    content = read_untrusted(path, MAX_BYTES, folder=folder)
    if isinstance(content, str):
        return UnusableNotes(content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return UnusableNotes("it is not UTF-8 text")
    return UnusableNotes("it contains NUL") if "\0" in text else text


def edit_file_name(story: ActionKey) -> str:
    """Return the name of the file with the edits of a story."""
    return f"{safe_file_name(story)}.json"


def keep_edits(context: RunContext, story: ActionKey, edits: str) -> None:
    """Keep edits of a story that are pending or applied; a checkout that cannot be written is left alone."""
    _write_edits(context, edit_file_name(story), edits.encode())


def keep_unused_file(context: RunContext, attempt: AttemptId, name: str, content: bytes) -> None:
    """Keep an edit file of an attempt that is not used."""
    _write_edits(context, f"{FAILED}/{attempt}-{name}", content)


def keep_unused_edits(context: RunContext, attempt: AttemptId, story: ActionKey, edits: str) -> None:
    """Keep edits that were rejected or whose step failed; they are no longer pending."""
    name, content = edit_file_name(story), edits.encode()
    keep_unused_file(context, attempt, name, content)
    pending = context.projections / EDITS / name
    if read_untrusted(pending, len(content)) == content:
        with contextlib.suppress(OSError):
            pending.unlink()


def _write_edits(context: RunContext, name: str, content: bytes) -> None:
    with contextlib.suppress(OSError):
        write_atomic(context.projections / EDITS / name, content)
