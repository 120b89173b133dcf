"""Atomic file writes, atomic line appends, deletion, and a file lock that is released when its holder dies."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import stat
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.folder_tree import remove_tree
from scaffold.host.leftovers import own_mark
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


def replace_in(folder: int, name: str, data: bytes | IO[bytes]) -> None:
    """Write a file of the open `folder` atomically, as `write_atomic` does."""
    # In the same folder, because a rename is atomic only within one file system. Without the file's own name, which may
    # be as long as a name can be.
    written = f"{own_mark()}{os.urandom(8).hex()}"
    fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                shutil.copyfileobj(data, file)
            file.flush()
            # Without it a power cut after the rename can leave an empty file under the final name.
            os.fsync(file.fileno())
        os.replace(written, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(written, dir_fd=folder)
        raise
    # The rename itself is only on the disk once its folder is.
    os.fsync(folder)


def delete_path(path: Path) -> None:
    """Delete a file or folder, even if folders in it are read-only; do nothing if it is missing."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_tree(parent, path.name)
    finally:
        os.close(parent)


def delete_folder_if_possible(path: Path) -> None:
    """Delete a folder with everything in it that can be deleted; it may be missing."""
    with contextlib.suppress(OSError):
        delete_path(path)


def read_untrusted(path: Path | str, most_bytes: int, *, folder: int | None = None) -> bytes | str:
    """Return the content of a file that untrusted code could write, or why it is not read (a link, too large, ...).

    A name alone is that of a file in the open `folder`.
    """
    try:
        # A link could lead to a file of the user's; opening a named pipe would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"the file cannot be opened ({error.strerror})"
    try:
        # Asked of the open descriptor: the path may lead to something else by now.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "it is not a regular file"
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    return data if len(data) <= most_bytes else f"the file is larger than {most_bytes} bytes"


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
