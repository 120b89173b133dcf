"""Copy and move what untrusted code could write, by open folders: no link decides where anything is read or written.

Reflinks where the file system supports them; never hard links, as copies get modified.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator

from scaffold.host.contained_path import ContainedPath
from scaffold.host.folder_tree import OPENING

CHUNK_BYTES = 1 << 30
MOST_FOLDERS = 200
"""In each other. Two are open for each, and a process may have 1,024 open files; no package is that deep."""
UNSUPPORTED_ERRNOS = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""copy_file_range is not supported for these two files."""

LinkTargetMap = Callable[[str, str], str]
"""Takes a symlink's folder, relative to what is copied, and its target; returns the target of its copy."""


async def copy_beneath(
    source: ContainedPath, target: ContainedPath, *, led: LinkTargetMap = lambda _folder, led: led
) -> None:
    """Copy the file or folder `source` to `target`, which must not exist, with the files' modes and times.

    Links are copied as links. Missing folders are made on the way to `target`. Sockets and devices are skipped. Raises
    OSError if something cannot be read or written. After an error or cancellation a partial copy is left at `target`,
    and the copying thread has stopped.
    """
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_copy_entry, source, target, led, stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        # A thread cannot be cancelled, and our caller may remove the partial copy as soon as we return.
        stop.set()
        await asyncio.wait([work])
        raise


def move_beneath(source: ContainedPath, target: ContainedPath) -> None:
    """Move a file or folder within a file system; missing folders are made on the way to `target`."""
    with _named(source) as (above, name), _named(target, create=True) as (folder, new):
        os.rename(name, new, src_dir_fd=above, dst_dir_fd=folder)


@contextlib.contextmanager
def _named(path: ContainedPath, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the open folder of a path, and its name there."""
    name = path.path.name
    if name in {"", ".."} or path.path != path.parent.path / name:
        raise OSError(errno.EINVAL, "not a name below this folder", path.name)
    with path.parent.opened(create=create) as folder:
        yield folder, name


def _copy_entry(source: ContainedPath, target: ContainedPath, led: LinkTargetMap, stop: threading.Event) -> None:
    with _named(source) as (above, entry), _named(target, create=True) as (folder, copy):
        mode = os.stat(entry, dir_fd=above, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(led("..", os.readlink(entry, dir_fd=above)), copy, dir_fd=folder)
        elif stat.S_ISDIR(mode):
            with _both_open(above, entry, folder, copy) as (original, made):
                _copy_entries(original, made, "", led, stop)
        else:
            _copy_file(above, entry, folder, copy)


def _copy_entries(source: int, target: int, folder: str, led: LinkTargetMap, stop: threading.Event) -> None:
    if folder.count("/") >= MOST_FOLDERS:
        raise OSError(errno.ENAMETOOLONG, f"there are more than {MOST_FOLDERS} folders in each other", folder)
    with os.scandir(source) as entries:
        for entry in entries:
            if stop.is_set():
                return
            name = entry.name
            if entry.is_symlink():
                os.symlink(led(folder, os.readlink(name, dir_fd=source)), name, dir_fd=target)
            elif entry.is_dir(follow_symlinks=False):
                with _both_open(source, name, target, name) as (original, made):
                    _copy_entries(original, made, f"{folder}{name}/", led, stop)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(source, name, target, name)


@contextlib.contextmanager
def _both_open(source: int, name: str, target: int, new: str) -> Iterator[tuple[int, int]]:
    """Yield the folder and its new, empty copy, which gets the mode at the end."""
    with contextlib.ExitStack() as opened:
        original = os.open(name, OPENING, dir_fd=source)
        opened.callback(os.close, original)
        os.mkdir(new, dir_fd=target)
        copy = os.open(new, OPENING, dir_fd=target)
        opened.callback(os.close, copy)
        yield original, copy
        # A read-only folder could not be deleted later.
        os.fchmod(copy, stat.S_IMODE(os.fstat(original).st_mode) | stat.S_IRWXU)


def _copy_file(source: int, name: str, target: int, new: str) -> None:
    # Asked of the open file: the name may be a pipe or a link by now.
    original = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
    try:
        found = os.fstat(original)
        if not stat.S_ISREG(found.st_mode):
            return
        copy = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
        try:
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
