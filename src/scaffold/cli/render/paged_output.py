"""Long output of a command, shown by the user's pager."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import click
from rich.cells import cell_len

from scaffold.cli.render.live.screen_redraw import screen_size
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.host.pager import Pager, pager_command

MAX_KEPT = 1_000_000
"""Characters that are kept in case the pager cannot be run; one that has read more than a pipe holds is running."""


@contextmanager
def paged(out: TextIO) -> Iterator[None]:
    """Show what is printed in the block with the user's pager if it is longer than the terminal `out`."""
    output = PagedOutput(out)
    sys.stdout = output
    try:
        yield
    finally:
        sys.stdout = out
        output.end()


class PagedOutput(io.TextIOBase):
    """In place of a terminal's stream: holds output back until it is longer than the screen, then starts the pager."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._size = screen_size(terminal)
        self._held: list[str] = []
        self._rows = 0
        self._kept = 0
        self._pager: Pager | None = None
        self._is_plain = False
        """Whether there is no pager, so that all goes to the terminal."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the terminal's encoding."""
        return self._terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Return what the terminal does with characters that it cannot show."""
        return self._terminal.errors

    def isatty(self) -> bool:
        """Return True: what is written appears on the terminal."""
        return self._terminal.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._terminal.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Hold the text back, or hand it on."""
        if not isinstance(text, str):  # how click finds out whether a stream takes bytes
            raise TypeError(type(text).__name__)
        if self._is_plain:
            return self._terminal.write(text)
        self._held.append(text)
        if self._pager is not None:
            self._pager.write(self._encoded(text))
            self._kept += len(text)
            if self._kept > MAX_KEPT:
                self._held.clear()
            return len(text)
        self._rows += sum(self._height(line) for line in text.split("\n")[:-1])
        if self._rows >= self._size.rows:
            self._start()
        return len(text)

    def end(self) -> None:
        """Show what is held back, or wait until the user quits the pager."""
        if self._pager is None or not self._pager.wait():
            self._show_plainly()

    def _start(self) -> None:
        command = "" if _is_off() else pager_command(os.environ)
        if command:
            with suppress(OSError):
                self._terminal.flush()
                self._pager = Pager(command, os.environ)
                self._pager.write(self._encoded("".join(self._held)))
                return
        self._show_plainly()

    def _show_plainly(self) -> None:
        self._is_plain = True
        self._terminal.write("".join(self._held))
        self._terminal.flush()
        self._held.clear()

    def _height(self, line: str) -> int:
        return max(1, -(-cell_len(click.unstyle(line)) // self._size.columns))

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding or "utf-8", errors="replace")


def _is_off() -> bool:
    with suppress(ScaffoldError, OSError):
        return load_settings(Path.cwd(), os.environ, {}).text("pager") == "off"
    return False
