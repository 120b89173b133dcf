"""Folders copied: by reference where the file system can do that, never by hard link, as copies are written to."""

import asyncio
import errno
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

PIECE_BYTES = 1 << 30
CANNOT = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""How a kernel says that it cannot copy between these two files by itself."""

Led = Callable[[str, str], str]
"""Returns where the copy of a symbolic link leads, by the folder of the link and where that one leads."""


def unchanged(_folder: str, led: str) -> str:
    """Let a link lead where it did, as text."""
    return led


async def copy_tree(source: Path, target: Path, *, led: Led = unchanged) -> None:
    """Copy the file or folder `source` to `target`, which must not be there, with modes and times of files.

    Sockets and devices are left out. OSError if something cannot be read or written; then, and when this is cancelled,
    a part of the copy is at `target`, and nobody works on it any more.
    """
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_copy, str(source), str(target), led, stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])
        raise


def _copy(source: str, target: str, led: Led, stop: threading.Event) -> None:
    if stat.S_ISDIR(os.stat(source).st_mode):  # noqa: PTH116
        _copy_folder(source, target, led, stop)
    else:
        _copy_file(source, target)


def _copy_folder(source: str, target: str, led: Led, stop: threading.Event) -> None:
    os.mkdir(target)  # noqa: PTH102 - thousands of files: text is faster than paths
    with os.scandir(source) as entries:
        for entry in entries:
            if stop.is_set():
                return
            place = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(led(source, os.readlink(entry.path)), place)  # noqa: PTH115, PTH211
            elif entry.is_dir():
                _copy_folder(entry.path, place, led, stop)
            elif entry.is_file():
                _copy_file(entry.path, place)
    mode = stat.S_IMODE(os.stat(source).st_mode)  # noqa: PTH116
    os.chmod(target, mode | stat.S_IRWXU)  # noqa: PTH101 - what nobody may write to nobody can delete


def _copy_file(source: str, target: str) -> None:
    original = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(original)
            _transfer(original, copy, found.st_size)
            os.fchmod(copy, stat.S_IMODE(found.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
            os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))  # compiled Python is believed by this time
        finally:
            os.close(copy)
    finally:
        os.close(original)


def _transfer(original: int, copy: int, size: int) -> None:
    if sys.platform == "linux" and size:
        try:
            while os.copy_file_range(original, copy, PIECE_BYTES):
                pass
        except OSError as error:
            if error.errno not in CANNOT:
                raise
        else:
            return
        os.lseek(original, 0, os.SEEK_SET)
        os.lseek(copy, 0, os.SEEK_SET)
    with os.fdopen(os.dup(original), "rb") as reader, os.fdopen(os.dup(copy), "wb") as writer:
        shutil.copyfileobj(reader, writer)
