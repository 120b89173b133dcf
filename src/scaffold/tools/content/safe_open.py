"""Open regular files of a workspace by descriptor, so that a symlink swapped in later cannot lead outside."""

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.near_paths import missing_file

MAX_KEPT_BYTES = 10_000_000
"""Longer contents are not kept."""


class FileState(Struct, frozen=True):
    """A file with its content, None if that is too long to be kept, and its mode."""

    data: bytes | None
    mode: int


class FileChange(Struct, frozen=True):
    """What a tool is about to do to a file: `before` is None if it is new, `after` if it is deleted."""

    path: Path
    before: FileState | None
    after: bytes | None


CHANGE_RECORDER: ContextVar[Callable[[FileChange], None] | None] = ContextVar("CHANGE_RECORDER", default=None)
"""Called with each change right before it is made, by the tools that run in this context; it must not raise."""
_EFFECTIVE = os.access in os.supports_effective_ids
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK: a file that has become a FIFO since the check must not block us."""
HEAD_BYTES = 65_536


class FileVersion(Struct, frozen=True):
    """The version of a file; if any field differs, the file has changed."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class FileContent(Struct, frozen=True):
    """A file's bytes and their version; `cut` if `data` is only the beginning."""

    data: bytes
    origin: FileVersion
    cut: bool = False
    mode: int | None = None
    """Its permission bits; None if they are unknown."""
    names: int = 1
    """How many hard links it has."""


def read_whole(root: Path, path: Path, shown: str, *, limit_bytes: int) -> FileContent | Refusal:
    """Return all bytes of a file, or why it cannot be read.

    `path` is absolute, free of symlinks and inside `root`; `shown` is the path as the model wrote it.
    """
    content = read_head(root, path, shown, limit_bytes=limit_bytes)
    if isinstance(content, Refusal) or not content.cut:
        return content
    return Refusal(
        f"{shown} has more than {limit_bytes} bytes, too many for this tool; use shell (sed -i, head, grep) or python."
    )


def read_head(root: Path, path: Path, shown: str, *, limit_bytes: int) -> FileContent | Refusal:
    """Return all bytes of a file, or only its head if it exceeds `limit_bytes`; arguments as for `read_whole`."""
    try:
        with open_file(root, path, os.O_RDONLY) as fd:
            status = os.fstat(fd)
            if problem := unreadable_reason(status, shown):
                return problem
            known_long = status.st_size > limit_bytes
            with os.fdopen(os.dup(fd), "rb") as file:
                # One byte more than allowed shows that the file is too long, even in /proc, where sizes are unknown.
                data = file.read(min(limit_bytes, HEAD_BYTES) if known_long else limit_bytes + 1)
    except FileNotFoundError:
        return Refusal(missing_file(root, shown))
    except IsADirectoryError:
        return Refusal(f"{shown} is a folder; use list_dir.")
    except OSError as error:
        return Refusal(f"{shown} cannot be read ({error.strerror}); use another file.")
    cut = known_long or len(data) > limit_bytes
    return FileContent(data, file_version(status), cut=cut, mode=stat.S_IMODE(status.st_mode), names=status.st_nlink)


def hard_link_note(before: FileContent | None) -> str:
    """Return what replacing the file means for its other names; empty without any."""
    if before is None or before.names < 2:
        return ""
    others = count_of(before.names - 1, "other name")
    return f" It had {others} (hard links), which keep the former content: change it there too if they belong together."


def replace_file(
    root: Path, path: Path, data: bytes, shown: str, *, origin: FileVersion | None, mode: int | None = None
) -> Refusal | None:
    """Write `data` to `path` atomically; return why it was refused, or None. Raises OSError.

    Creates missing folders and keeps the owner and extended attributes (access control lists are such) of an existing
    file, and its mode unless `mode` is given. Refuses if the file has changed since the version `origin` (None: there
    was no file). Other hard links of the file keep the old content.
    """
    with open_folder(root, path.parent, make=True) as folder:
        before = _file_status(folder, path.name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            return Refusal(f"{shown} is not a regular file; choose another path.")
        # Asked for explicitly: replacing a file by a rename needs no permission on the file itself.
        if before is not None and not os.access(path.name, os.W_OK, dir_fd=folder, effective_ids=_EFFECTIVE):
            return Refusal(f"{shown} is not writable (mode {stat.S_IMODE(before.st_mode):04o}); ask the user.")
        draft = f".{path.name[:200]}.{secrets.token_hex(6)}"
        try:
            _write_new(folder, draft, data, like=path.name if before else None, mode=mode)
            # As late as possible, right before the rename.
            if _version_below(folder, path.name) != origin:
                return _changed_meanwhile(shown)
            record_change(folder, path, exists=origin is not None, after=data)
            os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
        # Without it, the rename may not survive a power cut.
        os.fsync(folder)
    return None


def remove_file(root: Path, path: Path, shown: str, *, origin: FileVersion) -> Refusal | None:
    """Delete a file that is still the version `origin`; return why it was refused, or None. Raises OSError."""
    with open_folder(root, path.parent) as folder:
        if not os.access(path.name, os.W_OK, dir_fd=folder, effective_ids=_EFFECTIVE):
            return Refusal(f"{shown} is not writable; ask the user.")
        if _version_below(folder, path.name) != origin:
            return _changed_meanwhile(shown)
        record_change(folder, path, exists=True, after=None)
        os.unlink(path.name, dir_fd=folder)
        os.fsync(folder)
    return None


@contextlib.contextmanager
def open_file(root: Path, path: Path, flags: int, *, make: bool = False) -> Iterator[int]:
    """Open a file without following any symlink below `root`; `make` creates its folders. Raises OSError.

    A device is never opened: opening it can already have an effect.
    """
    with open_folder(root, path.parent, make=make) as folder:
        there = _file_status(folder, path.name)
        if there is not None and (stat.S_ISCHR(there.st_mode) or stat.S_ISBLK(there.st_mode)):
            raise OSError(errno.ENODEV, "It is a device", str(path))
        fd = os.open(path.name, flags | _FILE_FLAGS, 0o666, dir_fd=folder)
        try:
            yield fd
        finally:
            os.close(fd)


def unreadable_reason(status: os.stat_result, shown: str) -> Refusal | None:
    """Return why a file of this kind is not read; None for a regular file."""
    if stat.S_ISDIR(status.st_mode):
        return Refusal(f"{shown} is a folder; use list_dir.")
    if not stat.S_ISREG(status.st_mode):
        return Refusal(f"{shown} is a pipe, socket or device; use another path.")
    return None


def file_version(status: os.stat_result) -> FileVersion:
    """Return the file version that `status` describes."""
    return FileVersion(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@contextlib.contextmanager
def open_folder(root: Path, path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the folder `path` step by step from `root`; `root` itself may be reached through symlinks.

    Raises IsADirectoryError if `path` is the parent of `root`: the caller asked for `root`, a folder.
    """
    home = root.resolve()
    if not path.is_relative_to(home):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(home))
    name = "/".join(path.relative_to(home).parts)
    with ContainedPath(root, name).opened(create=make) as folder:
        yield folder


def _file_status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _version_below(folder: int, name: str) -> FileVersion | None:
    status = _file_status(folder, name)
    return None if status is None else file_version(status)


def _changed_meanwhile(shown: str) -> Refusal:
    return Refusal(f"{shown} was changed by another process; nothing was written. Read it again.")


def _copy_attributes(folder: int, source: str, target: int) -> None:
    # Access control lists are extended attributes; without them others would lose or get access.
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # it is not readable, or its file system has none
        fd = os.open(source, os.O_RDONLY | _FILE_FLAGS, dir_fd=folder)
        try:
            for name in os.listxattr(fd):
                with contextlib.suppress(OSError):
                    os.setxattr(target, name, os.getxattr(fd, name))
        finally:
            os.close(fd)


def _write_new(folder: int, name: str, data: bytes, *, like: str | None, mode: int | None) -> None:
    """Create and write a file as the file `like` is, if there is one; with `mode`, its mode, or one by the umask."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        before = _file_status(folder, like) if like else None
        if like and before:
            # Only root may give a file to another owner. For anyone else the new file stays their own.
            with contextlib.suppress(PermissionError):
                os.fchown(fd, before.st_uid, before.st_gid)
            _copy_attributes(folder, like, fd)
            mode = stat.S_IMODE(before.st_mode) if mode is None else mode
        if mode is not None:
            # Last: the kernel clears set-id bits when the owner changes, and access control lists set the mode, too.
            os.fchmod(fd, mode)
        os.fsync(fd)


def record_change(folder: int, path: Path, *, exists: bool, after: bytes | None) -> None:
    """Tell the recorder of this context what is about to happen to `path`, a file in the open `folder`. Raises OSError.

    `after` is None if the file is about to be deleted.
    """
    recorder = CHANGE_RECORDER.get()
    if recorder is None:
        return
    before = None
    if exists:
        fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            before = _file_state(fd)
        finally:
            os.close(fd)
    recorder(FileChange(path, before, after))


def record_append(fd: int, path: Path, added: bytes, *, is_new: bool) -> None:
    """Tell the recorder of this context that `added` is about to be appended to the open file. Raises OSError."""
    recorder = CHANGE_RECORDER.get()
    if recorder is not None:
        before = _file_state(fd)
        recorder(FileChange(path, None if is_new else before, (before.data or b"") + added))


def _file_state(fd: int) -> FileState:
    data = os.pread(fd, MAX_KEPT_BYTES + 1, 0)
    return FileState(data if len(data) <= MAX_KEPT_BYTES else None, stat.S_IMODE(os.fstat(fd).st_mode))
