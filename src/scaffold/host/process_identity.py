"""Process identities that stay unique after a pid is reused."""

import functools
import os
import sys
from pathlib import Path

from scaffold.core.model import ProcessIdentity
from scaffold.host.startup import importing


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of process `pid`; None if there is none. A zombie still has an identity."""
    found = _look_up(pid)
    return ProcessIdentity(pid, found[1], _boot_id()) if found else None


def own_identity() -> ProcessIdentity:
    """Return the identity of this process."""
    mine = identify(os.getpid())
    return mine or ProcessIdentity(os.getpid(), "", _boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Return True if exactly this process is running; a zombie is not."""
    # Start times count from the boot, so pid and start time together can repeat after the next one.
    if identity.boot != _boot_id():
        return False
    found = _look_up(identity.pid)
    return found is not None and found[0] != "Z" and found[1] == identity.started


def is_stopped(identity: ProcessIdentity) -> bool:
    """Return True if exactly this process is there and does nothing until it is continued, e.g. after Ctrl-Z."""
    found = _look_up(identity.pid)
    return is_alive(identity) and found is not None and found[0] in {"T", "t"}


def has_exited(identity: ProcessIdentity | None) -> bool:
    """Return True if the process existed and is no longer running; False for None."""
    return identity is not None and not is_alive(identity)


def _look_up(pid: int) -> tuple[str, str] | None:
    """Return the state letter and start time of `pid` as the kernel formats them; None if there is no such process."""
    if sys.platform != "linux":
        state, _, started = _output_of("ps", "-o", "state=,lstart=", "-p", str(pid)).partition(" ")
        return (state[:1], started.strip()) if state else None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The process name in parentheses may contain any character. Item 19 after it is field 22, the start time in ticks.
    after_name = stat[stat.rindex(b")") + 2 :].decode("ascii").split()
    return after_name[0], after_name[19]


@functools.cache
def _boot_id() -> str:
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return _output_of("sysctl", "-n", "kern.boottime")


def _output_of(*argv: str) -> str:
    with importing():
        import subprocess  # noqa: TID251 - `host` starts processes; macOS has no /proc
    # Two processes compare these texts, so neither may format them by its own locale and time zone.
    env = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "LC_ALL": "C", "TZ": "UTC"}
    answer = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return answer.stdout.strip()
