"""Notes that agents share, in the projections: `scratch.md` of all, and one file for each story."""

import os
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.host.files import FileLock, read_untrusted, write_atomic
from scaffold.run.context import RunContext, safe_file_name

MAX_BYTES = 256 * 1024
"""Of each file."""
LOCK_TIMEOUT_S = 60.0
SCRATCH = "scratch.md"
"""The notes of all agents."""


class UnusableNotes(Struct, frozen=True):
    """Why a file of notes is not used."""

    why: str


def notes_of_story(story: ActionKey) -> str:
    """Return the name of the file with the notes of a story."""
    return f"scratch_{safe_file_name(story)}.md"


async def add_notes(context: RunContext, name: str, text: str) -> str | UnusableNotes:
    """Add lines of our own at the end of a file of notes, unless they are in it."""
    return await merge_notes(context, name, "", text)


async def merge_notes(context: RunContext, name: str, given: str, written: str) -> str | UnusableNotes:
    """Write notes that were `given` and have been changed to `written`; return them, or why they were not written.

    Others may have written meanwhile: their lines stay, and the new ones are added.
    """
    target = context.projections / name
    async with FileLock(context.repository.common_dir / "scaffold" / f"{name}.lock", timeout_s=LOCK_TIMEOUT_S):
        now = read_notes(target)
        if isinstance(now, UnusableNotes):
            return now
        text = (written if now == given else _with_new_lines(now, given, written)).encode()
        if len(text) > MAX_BYTES:
            return UnusableNotes(f"with them the file has more than {MAX_BYTES} bytes; shorten it")
        try:
            write_atomic(target, text)
        except OSError as error:
            return UnusableNotes(str(error))
    return written


def _with_new_lines(now: str, given: str, written: str) -> str:
    """Return the text `now` with the lines that were added to `given` at its end."""
    known = {*given.splitlines(), *now.splitlines()}
    added = [line for line in written.splitlines() if line not in known]
    return "\n".join([now.rstrip("\n"), *added, ""]) if added else now


def read_notes(path: Path) -> str | UnusableNotes:
    """Return the text of a file of notes, empty if there is none."""
    if not os.path.lexists(path):
        return ""
    content = read_untrusted(path, MAX_BYTES)
    if isinstance(content, str):
        return UnusableNotes(content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return UnusableNotes("it is not UTF-8 text")
    return UnusableNotes("it contains NUL") if "\0" in text else text
