"""Results in a file of JSON lines that a second call goes on with, and tables of them."""

import math
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

Line = TypeVar("Line", bound=Struct)


class TimeIsUpError(Exception):
    """The minutes that were asked for are over."""


class Deadline:
    """The end of the minutes that were asked for; work that began is finished."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def check(self) -> None:
        """Raise once the time is up."""
        if time.monotonic() > self._end:
            raise TimeIsUpError


class Results(Generic[Line]):
    """The results so far; each is written at once, so that an interrupted bench loses none."""

    def __init__(self, path: Path, kind: type[Line]) -> None:
        self._path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        whole, newline, torn = path.read_bytes().rpartition(b"\n")
        if torn:  # a bench was killed while it wrote
            path.write_bytes(whole + newline)
        self.lines = [msgspec.json.decode(line, type=kind) for line in whole.splitlines()]

    def add(self, line: Line) -> None:
        """Append a result."""
        with self._lock:
            self.lines.append(line)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown: the first column to the left, the others to the right."""
    lines = [header, *(list(map(str, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = [_row(line, widths) for line in lines]
    rule = "|".join(
        "-" * (width + 2) if column == 0 else f"{'-' * (width + 1)}:" for column, width in enumerate(widths)
    )
    return "\n".join([texts[0], f"|{rule}|", *texts[1:]])


def share(part: int, whole: int) -> str:
    """Return `3 of 12 (25.0 %)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"


def interval(part: int, whole: int) -> str:
    """Return the Wilson interval of 95 % around a share."""
    if not whole:
        return "no interval"
    z = 1.96
    middle, scale = part + z * z / 2, whole + z * z
    half = z * math.sqrt(part * (whole - part) / whole + z * z / 4)
    return f"95 % interval {100 * max(0.0, middle - half) / scale:.1f} to {100 * (middle + half) / scale:.1f} %"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"
