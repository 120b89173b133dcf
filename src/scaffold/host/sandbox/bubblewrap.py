"""Bubblewrap: namespaces in which a command sees the whole system as it is and can change next to nothing of it."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from scaffold.host.sandbox.confinement import Reach
from scaffold.host.sandbox.ground import Ground, Mount

FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where bubblewrap is looked for: never on PATH, which may lead into a workspace."""
STARTER = Path("/usr/bin/env")
"""What starts the command inside: it says as a shell does (126, 127) that it cannot."""
SHARED_MEMORY = "shm"
"""Below the temporary folder: what the command knows as /dev/shm."""
ENDED = b'"exit-code"'
"""What bubblewrap reports of a command that was started."""
SIGNALS = range(1, 32)


def find(folders: Sequence[str] = FOLDERS) -> Path | None:
    """Return the program, None if it is not installed."""
    return next((path for folder in folders if os.access(path := Path(folder, "bwrap"), os.X_OK)), None)


def argv(
    program: Path,
    ground: Ground,
    command: Sequence[str],
    *,
    cwd: Path,
    temporary: Path,
    seccomp: int,
    status: int,
    network: Reach = "loopback",
) -> tuple[str, ...]:
    """Return what to start instead of `command`; it has a network of its own unless that is `open`.

    The descriptor `seccomp` is read for the filter, `status` written to. The user namespace and the dropped
    capabilities are for root, who would keep all of them; whoever is not root cannot do without the namespace.
    """
    return (
        str(program),
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network == "open" else ("--unshare-net",)),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--bind", str(temporary / SHARED_MEMORY), "/dev/shm"),  # noqa: S108 - its own
        *[word for mount in ground.mounts for word in _mounted(mount)],
        *[word for mount in ground.mounts if mount.kind == "emptied" for word in ("--remount-ro", str(mount.path))],
        *("--remount-ro", "/dev", "--remount-ro", "/proc"),
        *("--seccomp", str(seccomp), "--json-status-fd", str(status), "--chdir", str(cwd), "--"),
        *((str(STARTER), "--") if STARTER.exists() and "=" not in command[0] else ()),
        *command,
    )


def code(raw: int, report: bytes) -> int:
    """Return the command's exit code, or the number of its signal negated, from what bubblewrap ended with.

    Bubblewrap tells of a signal as a shell does, so an exit code of 128 and a signal's number is taken for that signal.
    OSError if the command was never started: bubblewrap has said why on stderr.
    """
    if raw < 0:
        return raw
    if ENDED not in report:
        raise OSError(errno.EACCES, "the sandbox could not be set up", "bwrap")
    return 128 - raw if raw - 128 in SIGNALS else raw


def _mounted(mount: Mount) -> tuple[str, ...]:
    path = str(mount.path)
    match mount.kind:
        case "writable":
            return ("--bind", path, path)
        case "readable":
            return ("--ro-bind", path, path)
        case "emptied":
            return ("--tmpfs", path)
        case "masked":
            return ("--ro-bind", "/dev/null", path)
