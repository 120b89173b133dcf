"""Which commands a run starts, and how long each takes, read from /proc while it runs (Linux only)."""

import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen  # noqa: TID251 - the real command is measured

from msgspec import Struct

SAMPLE_S = 0.03
"""Between looks; a time is too short by at most two of them."""
SHELL = ("/bin/sh", "-c")


class CommandRun(Struct, frozen=True, kw_only=True):
    """One execution of a check or gate."""

    command: str
    seconds: float


def watch(process: "Popen[bytes]") -> tuple[CommandRun, ...]:
    """Wait for the process; return the shell commands that ran below it, in the order in which they began.

    Scaffold hands checks and gates to a shell, sandboxed or not; what such a shell starts is part of its command.
    """
    began: dict[tuple[int, str], float] = {}
    seen: dict[tuple[int, str], float] = {}
    while process.poll() is None:
        now = time.monotonic()
        for shell in _shells(process.pid):
            began.setdefault(shell, now)
            seen[shell] = now
        time.sleep(SAMPLE_S)  # noqa: TID251 - other processes are waited for
    return tuple(CommandRun(command=shell[1], seconds=round(seen[shell] - began[shell], 2)) for shell in began)


def _shells(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the outermost shells below a process, with the commands that they were given."""
    for child in _children(pid):
        words = _read(f"/proc/{child}/cmdline").split("\0")
        if tuple(words[:2]) == SHELL and len(words) > 2:
            yield child, words[2]
        else:
            yield from _shells(child)


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task")
    try:
        tasks = [task.name for task in threads.iterdir()]
    except OSError:
        return []
    return [int(child) for task in tasks for child in _read(f"/proc/{pid}/task/{task}/children").split()]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:  # it has ended
        return ""
