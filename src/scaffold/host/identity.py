"""Which process is which, beyond the lifetime of a pid."""

import functools
import os
import subprocess  # noqa: TID251 - `host` starts processes; macOS has no /proc
import sys
from pathlib import Path

from scaffold.core.model import ProcessIdentity


def identify(pid: int) -> ProcessIdentity | None:
    """Return who `pid` is now; None if there is no such process. A zombie still has an identity."""
    found = _look_up(pid)
    return ProcessIdentity(pid, found[1], _boot()) if found else None


def own_identity() -> ProcessIdentity:
    """Return the identity of this very process."""
    mine = identify(os.getpid())
    return mine or ProcessIdentity(os.getpid(), "", _boot())


def alive(identity: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs; a zombie does not."""
    if identity.boot != _boot():
        return False
    found = _look_up(identity.pid)
    return found is not None and found[0] != "Z" and found[1] == identity.started


def gone(identity: ProcessIdentity | None) -> bool:
    """Return whether there was such a process and it does not run any more; None is one that never was."""
    return identity is not None and not alive(identity)


def _look_up(pid: int) -> tuple[str, str] | None:
    """Return the state letter and the start time of `pid`, both in the kernel's words."""
    return _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)


def _from_proc(pid: int) -> tuple[str, str] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = stat[stat.rindex(b")") + 2 :].decode("ascii").split()
    return after_name[0], after_name[19]


def _from_ps(pid: int) -> tuple[str, str] | None:
    answer = _ask("ps", "-o", "state=,lstart=", "-p", str(pid))
    state, _, started = answer.partition(" ")
    return (state[:1], started.strip()) if state else None


@functools.cache
def _boot() -> str:
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return _ask("sysctl", "-n", "kern.boottime")


def _ask(*argv: str) -> str:
    env = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "LC_ALL": "C", "TZ": "UTC"}
    answer = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return answer.stdout.strip()
