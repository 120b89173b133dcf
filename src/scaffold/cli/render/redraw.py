"""The end of a terminal's text, drawn anew in place: one write for each frame, and only what changed."""

from collections.abc import Sequence
from typing import TextIO

UP = "\x1b[{}A"
LINE = "\r\x1b[2K"
BELOW = "\x1b[J"
CLEAR = "\x1b[2J\x1b[H"


class ScreenRedraw:
    """Lines that stay where they are while they change; the cursor rests below them.

    Nothing is set that would have to be undone: whoever is killed over it leaves a terminal as good as before.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []
        self._size: tuple[int, int] | None = None

    def draw(self, lines: Sequence[str], size: tuple[int, int]) -> None:
        """Show `lines`, which fit into `size`, columns by rows, with a row to spare; nothing is written if all stands.

        When the size has changed the screen is cleared first: what a terminal makes of longer lines nobody knows.
        """
        if self._size is not None and size != self._size:
            self._lines = []
            self._write(CLEAR)
        self._size = size
        if self._lines == list(lines):
            return
        old = self._lines
        pieces = [UP.format(len(old))] if old else []
        for number, line in enumerate(lines):
            stands = number < len(old) and old[number] == line
            pieces.append("\n" if stands else f"{LINE}{line}\n")
        if len(lines) < len(old):
            pieces.append(BELOW)
        self._lines = list(lines)
        self._write("".join(pieces))

    def erase(self) -> None:
        """Take the lines away, and the cursor to where they began."""
        if self._lines:
            self._write(f"{UP.format(len(self._lines))}\r{BELOW}")
            self._lines = []

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
