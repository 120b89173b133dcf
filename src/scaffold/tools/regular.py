"""Regular files of a workspace, opened by descriptor: no link that appears in between leads out of the folder."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.policy.paths import Refusal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EFFECTIVE = os.access in os.supports_effective_ids
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Not blocking: what turned into a FIFO since it was looked at must not hold us."""

HEAD_BYTES = 65_536


class Origin(Struct, frozen=True):
    """Which version of a file was read: as soon as one of these differs, it is another."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class Content(Struct, frozen=True):
    """What is in a file, and which version of it that is; `cut` if `data` is only its beginning."""

    data: bytes
    origin: Origin
    cut: bool = False


def read_regular(root: Path, place: Path, shown: str, *, limit_bytes: int) -> Content | Refusal:
    """Return all bytes of a file, or why they are not to be had.

    `place` is absolute, without links, inside `root`; `shown` is what the model calls it.
    """
    content = read_beginning(root, place, shown, limit_bytes=limit_bytes)
    if isinstance(content, Refusal) or not content.cut:
        return content
    return Refusal(
        f"{shown} has more than {limit_bytes} bytes, too many for this tool; use shell (sed -i, head, grep) or python."
    )


def read_beginning(root: Path, place: Path, shown: str, *, limit_bytes: int) -> Content | Refusal:
    """Return all bytes of a file, of one with more than `limit_bytes` some at its beginning; arguments as above."""
    try:
        with opened(root, place, os.O_RDONLY) as fd:
            status = os.fstat(fd)
            if problem := unreadable(status, shown):
                return problem
            known_long = status.st_size > limit_bytes
            with os.fdopen(os.dup(fd), "rb") as file:
                data = file.read(min(limit_bytes, HEAD_BYTES) if known_long else limit_bytes + 1)
    except FileNotFoundError:
        return Refusal(f"There is no file {shown}; look with list_dir, or find it with search_files.")
    except IsADirectoryError:
        return Refusal(f"{shown} is a folder; use list_dir.")
    except OSError as error:
        return Refusal(f"{shown} cannot be read ({error.strerror}); use another file.")
    return Content(data, origin_of(status), cut=known_long or len(data) > limit_bytes)


def replace_regular(root: Path, place: Path, data: bytes, shown: str, *, origin: Origin | None) -> Refusal | None:
    """Put `data` at `place` whole or not at all, missing folders made, mode and owner of what was there kept.

    With `origin` only if the file is still that version; return why it was not done. Raises OSError. Other names of
    the same file (hard links) keep the old content.
    """
    with _folder(root, place.parent, make=True) as folder:
        before = _status(folder, place.name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            return Refusal(f"{shown} is no file; choose another path.")
        if before is not None and not os.access(place.name, os.W_OK, dir_fd=folder, effective_ids=_EFFECTIVE):
            return Refusal(f"{shown} may not be written (mode {stat.S_IMODE(before.st_mode):04o}); ask the user.")
        draft = f".{place.name[:200]}.{secrets.token_hex(6)}"
        try:
            _write_new(folder, draft, data, before)
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
    """Open a file without following any link below `root`; with `make` also its folders are made. Raises OSError.

    A device is not opened: that alone may do something.
    """
    with _folder(root, place.parent, make=make) as folder:
        there = _status(folder, place.name)
        if there is not None and (stat.S_ISCHR(there.st_mode) or stat.S_ISBLK(there.st_mode)):
            raise OSError(errno.ENODEV, "It is a device", str(place))
        fd = os.open(place.name, flags | _FILE, 0o666, dir_fd=folder)
        try:
            yield fd
        finally:
            os.close(fd)


@contextlib.contextmanager
def opened_folder(root: Path, place: Path) -> Iterator[int]:
    """Open a folder, `root` or one below it, without following any link below `root`. Raises OSError."""
    with _folder(root, place, make=False) as folder:
        yield folder


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
    """Open the folder `place` step by step from `root`, which may itself be reached over links.

    IsADirectoryError for the folder that `root` lies in: what was wanted in there is `root`, no file.
    """
    home = root.resolve()
    if not place.is_relative_to(home):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(home))
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in place.relative_to(home).parts:
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


def _write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    """Write a file that was not there, with mode and owner of `like`; without, as the user's umask asks for."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            with contextlib.suppress(PermissionError):
                os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, stat.S_IMODE(like.st_mode))
        os.fsync(fd)
