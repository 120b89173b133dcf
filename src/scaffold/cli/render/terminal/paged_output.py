"""Long output of a command, shown by the user's pager."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import click
from rich.cells import cell_len

from scaffold.cli.render.terminal.screen_redraw import TerminalStream, screen_size
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.host.pager import Pager, find_pager

MAX_KEPT = 1_000_000
"""Characters kept in case the pager cannot run; a pager that has read more than a pipe holds is running."""


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


async def show_paged(out: TextIO, text: str) -> None:
    """Show a text with the user's pager, or without one if there is none; a cancellation ends the pager."""
    output = PagedOutput(out)

    def show() -> None:
        output.take(f"{text}\n")
        output.end()

    showing = asyncio.create_task(asyncio.to_thread(show))
    try:
        await asyncio.shield(showing)
    except asyncio.CancelledError:
        output.stop()
        await showing
        raise


def rows_of(text: str, columns: int) -> int:
    """Return how many rows the whole lines of a text take: a terminal wraps a line that is wider than itself."""
    return sum(max(1, -(-cell_len(click.unstyle(line)) // columns)) for line in text.split("\n")[:-1])


class PagedOutput(TerminalStream):
    """Holds output back until it is longer than the screen, then starts the pager."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__(terminal)
        self._size = screen_size(terminal)
        self._held: list[str] = []
        self._rows = 0
        self._taken = 0
        """Characters that went to the pager since it started."""
        self._pager: Pager | None = None
        self._is_plain = False
        """Whether all text goes to the terminal, because there is no pager."""

    def take(self, text: str) -> None:
        """Hold the text back, or hand it on."""
        if self._is_plain:
            self.terminal.write(text)
            return
        self._held.append(text)
        if self._pager is not None:
            # What it does not take is held until its exit code tells whether the user quit it or it never ran.
            if self._pager.write(self._encode_text(text)):
                self._taken += len(text)
                if self._taken > MAX_KEPT:
                    self._held.clear()
            return
        self._rows += rows_of(text, self._size.columns)
        if self._rows >= self._size.rows:
            self._start_pager()

    def end(self) -> None:
        """Show what is held back, or wait until the user quits the pager."""
        if self._pager is None or not self._pager.wait():
            self._show_plainly()

    def stop(self) -> None:
        """End the pager: nobody will quit it."""
        if self._pager is not None:
            self._pager.stop()

    def _start_pager(self) -> None:
        with suppress(OSError):
            pager = None if _is_off() else find_pager(os.environ, Path.cwd())
            if pager is not None:
                self.terminal.flush()
                self._pager = Pager(pager)
                self._pager.write(self._encode_text("".join(self._held)))
                return
        self._show_plainly()

    def _show_plainly(self) -> None:
        self._is_plain = True
        self.terminal.write("".join(self._held))
        self.terminal.flush()
        self._held.clear()

    def _encode_text(self, text: str) -> bytes:
        return text.encode(self.encoding or "utf-8", errors="replace")


def _is_off() -> bool:
    # A faulty configuration is reported by the command itself, not by its pager.
    with suppress(ScaffoldError, OSError):
        return load_settings(Path.cwd(), os.environ, {}).text("pager") == "off"
    return False
