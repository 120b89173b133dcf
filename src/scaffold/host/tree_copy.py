"""Copy folders, with reflinks where the file system supports them; never with hard links, as copies get modified."""

import asyncio
import errno
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

CHUNK_BYTES = 1 << 30
UNSUPPORTED_ERRNOS = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""copy_file_range is not supported for these two files."""

LinkTargetMap = Callable[[str, str], str]
"""Takes a symlink's folder and target; returns the target of its copy."""


async def copy_tree(source: Path, target: Path, *, led: LinkTargetMap = lambda _folder, led: led) -> None:
    """Copy the file or folder `source` to `target`, which must not exist, with the files' modes and times.

    Sockets and devices are skipped. Raises OSError if something cannot be read or written. After an error or
    cancellation a partial copy is left at `target`, and the copying thread has stopped.
    """
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_copy_entry, str(source), str(target), led, stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        # A thread cannot be cancelled, and our caller may remove the partial copy as soon as we return.
        stop.set()
        await asyncio.wait([work])
        raise


def _copy_entry(source: str, target: str, led: LinkTargetMap, stop: threading.Event) -> None:
    if stat.S_ISDIR(os.stat(source).st_mode):  # noqa: PTH116
        _copy_folder(source, target, led, stop)
    else:
        _copy_file(source, target)


def _copy_folder(source: str, target: str, led: LinkTargetMap, stop: threading.Event) -> None:
    os.mkdir(target)  # noqa: PTH102 - thousands of files: str is faster than Path
    with os.scandir(source) as entries:
        for entry in entries:
            if stop.is_set():
                return
            entry_target = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(led(source, os.readlink(entry.path)), entry_target)  # noqa: PTH115, PTH211
            elif entry.is_dir():
                _copy_folder(entry.path, entry_target, led, stop)
            elif entry.is_file():
                _copy_file(entry.path, entry_target)
    mode = stat.S_IMODE(os.stat(source).st_mode)  # noqa: PTH116
    os.chmod(target, mode | stat.S_IRWXU)  # noqa: PTH101 - a read-only folder could not be deleted later


def _copy_file(source: str, target: str) -> None:
    original = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(original)
            _transfer_bytes(original, copy, found.st_size)
            os.fchmod(copy, stat.S_IMODE(found.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
            os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))  # .pyc files are checked against this
        finally:
            os.close(copy)
    finally:
        os.close(original)


def _transfer_bytes(original: int, copy: int, size: int) -> None:
    if sys.platform == "linux" and size:
        try:
            while os.copy_file_range(original, copy, CHUNK_BYTES):
                pass
        except OSError as error:
            if error.errno not in UNSUPPORTED_ERRNOS:
                raise
        else:
            return
        # A first call may have copied a part before a later one failed.
        os.lseek(original, 0, os.SEEK_SET)
        os.lseek(copy, 0, os.SEEK_SET)
    with os.fdopen(os.dup(original), "rb") as reader, os.fdopen(os.dup(copy), "wb") as writer:
        shutil.copyfileobj(reader, writer)
