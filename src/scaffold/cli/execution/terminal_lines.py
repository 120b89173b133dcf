"""Lines typed at a terminal that other jobs of the shell may use, too."""

import asyncio
import os
import select
import termios
from collections.abc import Callable

CHUNK = 65_536


class TerminalLines:
    """Reads what is typed at a terminal while a question is shown there; between questions it reads nothing.

    The terminal stays in its usual mode, so that editing a line, Ctrl-C and Ctrl-Z work as everywhere.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def is_ours(self) -> bool:
        """Return whether this process may use the terminal: a job in the background that reads from it is stopped."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False

    def start(self, take: Callable[[str | None], None]) -> None:
        """Call `take` with what is sent from now on, several lines if they were pasted; None for Ctrl-D."""
        self.discard()
        asyncio.get_running_loop().add_reader(self._fd, lambda: take(self._read_lines()) if self.is_ours else None)

    def stop(self) -> None:
        """Stop reading; what was typed but not sent is discarded."""
        asyncio.get_running_loop().remove_reader(self._fd)
        if self.is_ours:
            self.discard()

    def discard(self) -> None:
        """Discard what was typed before: it was meant for something else."""
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:  # the terminal is gone; reading says so
            return

    def _read_lines(self) -> str | None:
        data = b""
        # A terminal hands out one line a read.
        while piece := self._read_chunk():
            data += piece
            if not select.select([self._fd], [], [], 0)[0]:
                break
        return data.decode(errors="replace") if data else None

    def _read_chunk(self) -> bytes:
        try:
            return os.read(self._fd, CHUNK)
        except OSError:
            return b""
