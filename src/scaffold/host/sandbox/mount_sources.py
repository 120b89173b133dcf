"""Open what bubblewrap mounts, so that it cannot be replaced between our check and the mount.

A path below a folder that a command may write means what the last command made of it: a link to the user's home would
be mounted instead, writable. Therefore we open such a path step by step, without following a link, and hand bubblewrap
the descriptor.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from scaffold.host.sandbox.landlock.domain import open_without_links
from scaffold.host.sandbox.mounts import MountPlan

BOUND = ("writable", "readable")


class OpenedPath:
    """A descriptor of a path, to be passed to a process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the descriptor's number, -1 if closed."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor; safe to repeat."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def open_sources(plan: MountPlan, writable: Sequence[Path], stack: contextlib.ExitStack) -> dict[Path, OpenedPath]:
    """Return the opened source of each bind mount, by its path; `stack` closes them.

    PermissionError if one is missing, or has become a link in a writable folder. The paths that the reaper guards are
    left out: it opens them once it has created them.
    """
    opened: dict[Path, OpenedPath] = {}
    for mount in plan.mounts:
        if mount.kind in BOUND and mount.path not in plan.held:
            opened[mount.path] = OpenedPath(_open_source(mount.path, writable))
            stack.callback(opened[mount.path].close)
    return opened


def _open_source(path: Path, writable: Sequence[Path]) -> int:
    """Open a path; links are followed only where no command can place one."""
    try:
        if any(path.is_relative_to(folder) for folder in writable):
            return _open_real_path(path)
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise PermissionError(errno.EACCES, f"the sandbox cannot mount it ({error.strerror})", str(path)) from error


def _open_real_path(path: Path) -> int:
    """Return an O_PATH descriptor of an absolute path; OSError if a part of it is missing or a link."""
    fd = open_without_links(str(path))
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return fd
