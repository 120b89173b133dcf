"""Doorbells: one process wakes another, and neither needs to know whether the other is there.

A named pipe that only ever says "something happened"; what happened is in the store.
"""

import asyncio
import contextlib
import fcntl
import os
import stat
import sys
import termios
from collections.abc import Callable
from pathlib import Path

MOST_RINGS = 4096
"""Bytes read at a time; however often it rang, it is heard once."""


class Doorbell:
    """Our end: `heard` is called in this loop after others have rung, however often."""

    def __init__(self, path: Path, heard: Callable[[], None]) -> None:
        """Make the pipe at `path`, with its folder; OSError if that fails."""
        self._heard = heard
        self._descriptor = _opened(path)
        asyncio.get_running_loop().add_reader(self._descriptor, self._hear)

    def close(self) -> None:
        """Hear no more; the pipe stays for whoever listens next."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, MOST_RINGS)
        self._heard()


def ring(path: Path) -> None:
    """Wake whoever listens at `path`; nothing happens if nobody does, or is awake already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, b".")
        finally:
            os.close(descriptor)


def unheard(path: Path) -> bool:
    """Tell whether somebody listens at `path` and has not heard the last ring yet."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))  # fails where nobody listens
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return _waiting_bytes(descriptor) > 0
        finally:
            os.close(descriptor)
    return False


def _waiting_bytes(descriptor: int) -> int:
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _opened(path: Path) -> int:
    """Open the pipe for both ways: for reading alone it would be at its end whenever nobody rings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
