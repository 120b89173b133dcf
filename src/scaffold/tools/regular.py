"""Regular files of a workspace, opened by descriptor: no link that appears in between leads out of the folder."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.policy.paths import Refusal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Not blocking: what turned into a FIFO since it was looked at must not hold us."""


class Origin(Struct, frozen=True):
    """Which version of a file was read: as soon as one of these differs, it is another."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class Content(Struct, frozen=True):
    """What is in a file, and which version of it that is."""

    data: bytes
    origin: Origin


def read_regular(root: Path, place: Path, shown: str, *, limit_bytes: int) -> Content | Refusal:
    """Return the bytes of a file, or why they are not to be had.

    `place` is absolute, without links, inside `root`; `shown` is what the model calls it.
    """
    try:
        with opened(root, place, os.O_RDONLY) as fd:
            status = os.fstat(fd)
            if problem := unreadable(status, shown):
                return problem
            if status.st_size > limit_bytes:
                too_long = f"{shown} has {status.st_size} bytes, too many to read"
                return Refusal(f"{too_long}; take a part with shell (head, sed -n, grep).")
            with os.fdopen(os.dup(fd), "rb") as file:
                data = file.read(limit_bytes + 1)
    except FileNotFoundError:
        return Refusal(f"There is no file {shown}; look with list_dir, or find it with search_files.")
    except OSError as error:
        return Refusal(f"{shown} cannot be read ({error.strerror}); use another file.")
    if len(data) > limit_bytes:
        return Refusal(f"{shown} grows while it is read; take a part with shell (tail, head).")
    return Content(data, origin_of(status))


def replace_regular(root: Path, place: Path, data: bytes, shown: str, *, origin: Origin | None) -> Refusal | None:
    """Put `data` at `place` whole or not at all, missing folders made, the mode of what was there kept.

    With `origin` only if the file is still that version; return why it was not done. Raises OSError. Other names of
    the same file (hard links) keep the old content.
    """
    with _folder(root, place.parent, make=True) as folder:
        before = _status(folder, place.name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            return Refusal(f"{shown} is no file; choose another path.")
        draft = f".{place.name[:200]}.{secrets.token_hex(6)}"
        try:
            _write_new(folder, draft, data, None if before is None else stat.S_IMODE(before.st_mode))
            after = _status(folder, place.name)
            if origin is not None and (after is None or origin_of(after) != origin):
                return Refusal(f"{shown} was changed by somebody else meanwhile, nothing is written; read it again.")
            os.replace(draft, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
        os.fsync(folder)
    return None


@contextlib.contextmanager
def opened(root: Path, place: Path, flags: int, *, make: bool = False) -> Iterator[int]:
    """Open a file without following any link below `root`; with `make` also its folders are made. Raises OSError."""
    with _folder(root, place.parent, make=make) as folder:
        fd = os.open(place.name, flags | _FILE, 0o666, dir_fd=folder)
        try:
            yield fd
        finally:
            os.close(fd)


def unreadable(status: os.stat_result, shown: str) -> Refusal | None:
    """Return why something of this kind is not read, None for a regular file."""
    if stat.S_ISDIR(status.st_mode):
        return Refusal(f"{shown} is a folder; use list_dir.")
    if not stat.S_ISREG(status.st_mode):
        return Refusal(f"{shown} is no file with content (a pipe, socket or device); use another path.")
    return None


def origin_of(status: os.stat_result) -> Origin:
    """Return which version of a file `status` was taken from."""
    return Origin(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@contextlib.contextmanager
def _folder(root: Path, place: Path, *, make: bool) -> Iterator[int]:
    """Open the folder `place` step by step from `root`, which may itself be reached over links."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in place.relative_to(root.resolve()).parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            below = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _write_new(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Write a file that was not there; without `mode` it gets the one that the user's umask asks for."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        if mode is not None:
            os.fchmod(fd, mode)
        os.fsync(fd)
