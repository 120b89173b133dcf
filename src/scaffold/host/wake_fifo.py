"""Wake another process through a named pipe, whether or not it is running.

A byte in the pipe means only "something happened"; the store says what.
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

MAX_READ_BYTES = 4096
"""Bytes read at once; several wake-ups are merged into one."""


class WakeFifo:
    """The receiving end: `on_wake` is called in this event loop after one or more wake-ups."""

    def __init__(self, path: Path, on_wake: Callable[[], None]) -> None:
        """Create the pipe at `path` and its folder; OSError on failure."""
        self._on_wake = on_wake
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Read-write, because a read-only end would see EOF whenever no writer is open.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        asyncio.get_running_loop().add_reader(self._descriptor, self._on_readable)

    def close(self) -> None:
        """Stop listening; the pipe stays for the next listener."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _on_readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, MAX_READ_BYTES)
        self._on_wake()


def wake_up(path: Path) -> None:
    """Wake the process that listens at `path`; does nothing if there is none or the pipe is full."""
    with contextlib.suppress(OSError):
        # O_NONBLOCK: without a reader the open fails at once instead of waiting for one.
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, b".")
        finally:
            os.close(descriptor)


def has_pending_wake(path: Path) -> bool:
    """Return True if a process listens at `path` and has not yet read its last wake-up."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))  # fails without a listener
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            return int.from_bytes(waiting, sys.byteorder) > 0
        finally:
            os.close(descriptor)
    return False
