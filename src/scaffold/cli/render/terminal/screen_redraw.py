"""Lines at the end of a terminal that are redrawn in place, below lines that stay; and streams that intercept them."""

import io
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click
from msgspec import Struct
from rich.cells import cell_len


class TerminalStream(io.TextIOBase):
    """Takes what is printed to a terminal; the terminal answers everything else."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    @abstractmethod
    def take(self, text: str) -> None:
        """Handle text that is printed."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the terminal's encoding."""
        return self.terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Return the terminal's handling of characters that it cannot show."""
        return self.terminal.errors

    def isatty(self) -> bool:
        """Return whether the wrapped stream is a terminal."""
        return self.terminal.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self.terminal.fileno()

    def writable(self) -> bool:
        """Return True: the stream takes text."""
        return True

    def write(self, text: str) -> int:
        """Take the text; raises TypeError for bytes, which tells click that this is a text stream."""
        if not isinstance(text, str):
            raise TypeError(type(text).__name__)
        self.take(text)
        return len(text)


UP = "\x1b[{}A"
LINE = "\r\x1b[2K"
BELOW = "\x1b[J"


class ScreenSize(Struct, frozen=True):
    """The columns and rows of a terminal."""

    columns: int
    rows: int


ASSUMED_SIZE = ScreenSize(80, 24)


def screen_size(out: TextIO) -> ScreenSize:
    """Return the current size of a terminal; 80 by 24 if unknown."""
    try:
        found = os.get_terminal_size(out.fileno())
    except (OSError, ValueError):
        return ASSUMED_SIZE
    return ScreenSize(found.columns or ASSUMED_SIZE.columns, found.lines or ASSUMED_SIZE.rows)


class ScreenRedraw:
    """Lines at the end of a terminal; the cursor stays below them.

    It sets no mode of the terminal, so a kill leaves nothing to restore.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []
        self._size: ScreenSize | None = None

    def draw(self, lines: Sequence[str], size: ScreenSize) -> None:
        """Show `lines`, which must fit into `size` with a row to spare; write only lines that changed."""
        start = self._to_start(size)
        old = self._lines
        if old == list(lines) and not start:
            return
        pieces = [start] if start else [UP.format(len(old))] if old else []
        if start:
            old = []
        for number, line in enumerate(lines):
            unchanged = number < len(old) and old[number] == line
            pieces.append("\n" if unchanged else f"{LINE}{line}\n")
        if len(lines) < len(old):
            pieces.append(BELOW)
        self._lines, self._size = list(lines), size
        self._write_and_flush("".join(pieces))

    def print_above(self, text: str, size: ScreenSize) -> None:
        """Write `text`, which ends with its line, above the lines; it stays."""
        shown = "".join(f"{line}\n" for line in self._lines)
        start = self._to_start(size) or (f"{UP.format(len(self._lines))}\r{BELOW}" if self._lines else "")
        # After a new size the lines do not fit any more: the next drawing shows them.
        if size != self._size:
            self._lines, shown = [], ""
        self._write_and_flush(f"{start}{text}{shown}")

    def erase(self, size: ScreenSize) -> None:
        """Erase the lines and move the cursor to where they began."""
        if self._lines:
            self._write_and_flush(self._to_start(size) or f"{UP.format(len(self._lines))}\r{BELOW}")
            self._lines = []

    def _to_start(self, size: ScreenSize) -> str:
        """Return what erases the lines if the terminal was resized or wraps one; empty if each takes one row."""
        # Terminals wrap what is too wide for a new width, and the cursor moves down with it.
        rows = sum(max(1, -(-cell_len(click.unstyle(line)) // size.columns)) for line in self._lines)
        if not self._lines or (size == self._size and rows == len(self._lines)):
            return ""
        return f"{UP.format(min(rows, size.rows))}\r{BELOW}"

    def _write_and_flush(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class LineWriter(TerminalStream):
    """A stream for whole lines."""

    def __init__(self, terminal: TextIO, show: Callable[[str], None]) -> None:
        super().__init__(terminal)
        self._show = show
        self._begun = ""

    def take(self, text: str) -> None:
        """Show the lines that `text` completes."""
        whole, newline, self._begun = f"{self._begun}{text}".rpartition("\n")
        if newline:
            self._show(f"{whole}\n")

    def end(self) -> None:
        """Show a line that was begun."""
        if self._begun:
            self.write("\n")


@contextmanager
def lines_above(show: Callable[[str], None]) -> Iterator[None]:
    """Pass what is printed to a terminal in the block to `show`, in whole lines, instead of writing it there."""
    before = sys.stdout, sys.stderr
    writers = [LineWriter(stream, show) if stream is not None and stream.isatty() else None for stream in before]
    sys.stdout, sys.stderr = (writer or stream for writer, stream in zip(writers, before, strict=True))
    try:
        yield
    finally:
        for writer in filter(None, writers):
            writer.end()
        sys.stdout, sys.stderr = before
