"""Notes that agents share, and copies of the edits they ask for, in the projections: one file for each story."""

import contextlib
from collections import Counter

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId, RunId
from scaffold.host.atomic_files import FileLock
from scaffold.host.contained_path import MISSING, ContainedPath
from scaffold.run.context import RunContext, safe_file_name

EDITS = "workflow_edits"
"""The folder of edit files, in the projections and in an attempt's shared folder; nothing reads the copies."""
FAILED = "failed"
"""The folder in the projections' one for edits that are not used."""
MAX_BYTES = 256 * 1024
"""The largest file of notes, in bytes."""
MAX_ARCHIVED_BYTES = 64 * MAX_BYTES
"""The same of what is moved, which users may have written to."""
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
        moved, there = source.read(MAX_ARCHIVED_BYTES), target.read(MAX_ARCHIVED_BYTES)
        if there == MISSING:
            there = b""
        if isinstance(moved, str) or isinstance(there, str):
            return
        # The archive has the older notes.
        first, second = (there, moved) if completed else (moved, there)
        # Killed between the two, it may have been added already.
        if not (there.endswith(moved) if completed else there.startswith(moved)):
            target.write(first.removesuffix(b"\n") + b"\n" + second if first and second else first or second)
        source.delete()


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
            target.write(text.encode())
        except OSError as error:
            return UnusableNotes(f"the file cannot be written ({error.strerror})")
    return text


def read_notes(path: ContainedPath) -> str | UnusableNotes | None:
    """Return the text of a notes file, None if it is missing."""
    content = path.read(MAX_BYTES)
    if content == MISSING:
        return None
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
    if pending.read(len(content)) == content:
        with contextlib.suppress(OSError):
            pending.delete()


def _write_edits(context: RunContext, name: str, content: bytes) -> None:
    with contextlib.suppress(OSError):
        (context.projections / EDITS / name).write(content)
