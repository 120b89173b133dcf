"""Atomic file writes, atomic line appends, deletion, and a file lock that is released when its holder dies."""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

import msgspec

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.contained_path import ContainedPath, replace_in
from scaffold.host.process_identity import own_identity


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: a crash leaves the old file or the new one. Creates parent folders.

    For our own folders; links on the way are followed, see `ContainedPath` for what others may write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        replace_in(folder, path.name, data)
    finally:
        os.close(folder)


def delete_path(path: Path) -> None:
    """Delete a file or folder, even if folders in it are read-only; do nothing if it is missing."""
    ContainedPath(path.parent, path.name).delete()


def delete_folder_if_possible(path: Path) -> None:
    """Delete a folder with everything in it that can be deleted; it may be missing."""
    with contextlib.suppress(OSError):
        delete_path(path)


class FileLock:
    """An exclusive lock among all tasks and processes; `async with FileLock(path, timeout_s=30): ...`.

    The kernel releases the lock when its holder dies. While locked, the file contains the holder's identity, for error
    messages only. The file is never removed: otherwise two processes could lock two files of the same name.
    """

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._fd: int | None = None

    async def __aenter__(self) -> None:
        """Acquire the lock; raises ScaffoldError with the holder's pid after `timeout_s`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A link could make it truncate a file of the user.
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, fd)
            await self._wait_for_lock(fd)
            os.ftruncate(fd, 0)
            os.write(fd, msgspec.json.encode(own_identity()))
            undo.pop_all()
        self._fd = fd

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    async def _wait_for_lock(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        pause_s = 0.002
        while not try_lock(fd):
            if loop.time() >= deadline:
                holder = ""
                # The file is empty for a moment after each lock and before each release.
                with contextlib.suppress(msgspec.DecodeError):
                    pid = msgspec.json.decode(self._path.read_bytes(), type=ProcessIdentity).pid
                    holder = f" by process {pid}"
                raise ScaffoldError(
                    f"{self._path} has been locked for {self._timeout_s:g} s{holder}",
                    "wait for that process to exit, or stop it, then retry",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed, without waiting, or `shared` with others; return True if that succeeded."""
    try:
        # A flock belongs to the open file. A POSIX lock belongs to the process, so its tasks would all hold it at once.
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
