"""What an agent did last, read from the end of its journal: never the whole of a long file."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from scaffold.cli.journal import Entry, deed, read_entry

WINDOWS = (16_384, 131_072, 1_048_576)
"""Bytes from the end of a journal that are looked at, one after another, until they tell something."""


class Act(Struct, frozen=True):
    """The last sign of an agent."""

    at: datetime
    """When it last wrote anything down."""
    text: str
    """The last thing it said or set out to do, on one line and safe to print; `""` where nothing tells."""


def last_act(path: Path, belongs: Callable[[Entry], bool]) -> Act | None:
    """Return what the last entries that belong tell, None if there are none within a mebibyte of the end."""
    act: Act | None = None
    for window in WINDOWS:
        lines, whole = _end_of(path, window)
        act = _told(filter(belongs, _backwards(lines))) or act
        if whole or (act is not None and act.text):
            break
    return act


def _told(newest_first: Iterator[Entry]) -> Act | None:
    newest = next(newest_first, None)
    if newest is None:
        return None
    words = deed(newest) or next(filter(None, map(deed, newest_first)), "")
    return Act(newest.at, words)


def _backwards(lines: list[bytes]) -> Iterator[Entry]:
    for line in reversed(lines):
        if (entry := read_entry(line)) is not None:
            yield entry


def _end_of(path: Path, window: int) -> tuple[list[bytes], bool]:
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
