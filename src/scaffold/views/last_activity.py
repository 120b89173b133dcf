"""What an agent did last, read from the end of its journal: never the whole of a long file."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from scaffold.views.journal import JournalEntry, activity_text, read_entry

TAIL_SIZES = (16_384, 131_072, 1_048_576)
"""Bytes from the end of a journal that are looked at, one after another, until they tell something."""


class Activity(Struct, frozen=True):
    """The last sign of an agent."""

    at: datetime
    """When it last wrote anything down."""
    text: str
    """The last thing it said or set out to do, on one line and safe to print; `""` where nothing tells."""


def last_activity(path: Path, belongs: Callable[[JournalEntry], bool]) -> Activity | None:
    """Return what the last entries that belong tell, None if there are none within a mebibyte of the end."""
    act: Activity | None = None
    for window in TAIL_SIZES:
        lines, whole = _tail_lines(path, window)
        act = _activity(filter(belongs, _newest_first(lines))) or act
        if whole or (act is not None and act.text):
            break
    return act


def _activity(newest_first: Iterator[JournalEntry]) -> Activity | None:
    newest = next(newest_first, None)
    if newest is None:
        return None
    words = activity_text(newest) or next(filter(None, map(activity_text, newest_first)), "")
    return Activity(newest.at, words)


def _newest_first(lines: list[bytes]) -> Iterator[JournalEntry]:
    for line in reversed(lines):
        if (entry := read_entry(line)) is not None:
            yield entry


def _tail_lines(path: Path, window: int) -> tuple[list[bytes], bool]:
    """Return the whole lines within the last `window` bytes, and whether these are all there are."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - window)
            file.seek(start)
            lines = file.read(window).split(b"\n")[:-1]  # the last one is torn, or empty
    except OSError:
        return [], True
    return (lines, True) if start == 0 else (lines[1:], False)
