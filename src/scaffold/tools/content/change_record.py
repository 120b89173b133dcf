"""What a file was before a tool changes it, reported to a listener that keeps it for `/undo`."""

import os
import stat
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

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
            before = _state(fd)
        finally:
            os.close(fd)
    recorder(FileChange(path, before, after))


def record_append(fd: int, path: Path, added: bytes, *, is_new: bool) -> None:
    """Tell the recorder of this context that `added` is about to be appended to the open file. Raises OSError."""
    recorder = CHANGE_RECORDER.get()
    if recorder is not None:
        before = _state(fd)
        recorder(FileChange(path, None if is_new else before, (before.data or b"") + added))


def _state(fd: int) -> FileState:
    data = os.pread(fd, MAX_KEPT_BYTES + 1, 0)
    return FileState(data if len(data) <= MAX_KEPT_BYTES else None, stat.S_IMODE(os.fstat(fd).st_mode))
