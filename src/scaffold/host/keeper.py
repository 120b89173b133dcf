"""Runs one command and leaves nothing of it behind: `python -I -S keeper.py LEASH REPORT COMMAND...`.

LEASH is the read end of a pipe that only our owner can write to: when the owner dies, however it dies, the pipe ends
and so does everything the command started. REPORT is the write end of a pipe that gets one line before we exit:
`status N`, the command's raw wait status, or `error N`, the errno with which it could not be started.

On Linux orphans come to us instead of to init, so that daemons are found too; elsewhere only the command's own process
group is ended. A script of its own because it must start fast: of its 15 ms the bare interpreter takes 10.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
ROUND_S = 0.005
ROUNDS = 1000


def main(leash: int, report: int, command: list[str]) -> None:
    """Run `command`, end all it left, report."""
    for fd in (leash, report):
        os.set_inheritable(fd, False)
    _adopt_orphans()
    wake = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        pid = os.posix_spawnp(
            command[0], command, os.environ, setsid=True, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
    except OSError as error:
        os.write(report, b"error %d\n" % (error.errno or 0))
        return
    ended: dict[int, int] = {}
    _watch(pid, leash, wake, ended)
    _end_everything(pid, ended)
    os.write(report, b"status %d\n" % ended.get(pid, signal.SIGKILL))


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wake_on(*signals: signal.Signals) -> int:
    """Return a descriptor on which the number of each of these signals arrives as a byte."""
    wake, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda _number, _frame: None)
    return wake


def _watch(pid: int, leash: int, wake: int, ended: dict[int, int]) -> None:
    """Return when the command ended, the leash was cut, or we are told to end."""
    while pid not in ended:
        ready, _, _ = select.select([leash, wake], [], [])
        if leash in ready or set(os.read(wake, 512)) - {signal.SIGCHLD}:
            return
        _reap(ended)


def _end_everything(pid: int, ended: dict[int, int]) -> None:
    """Kill and reap until no descendant is left; those who cannot be killed are given up after some seconds."""
    if sys.platform != "linux":
        _kill(-pid)
    for _ in range(ROUNDS):
        if not _reap(ended):
            return
        for descendant in _descendants():
            _kill(descendant)
        select.select([], [], [], ROUND_S)


def _reap(ended: dict[int, int]) -> bool:
    """Note the wait status of every child that ended; return whether there are others."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            ended[pid] = status
    except ChildProcessError:
        return False


def _descendants() -> list[int]:
    """Return our children, their children, and so on; empty where there is no /proc."""
    if sys.platform != "linux":
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double our start-up time
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _parent(pid: str) -> int:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return 0
    try:
        stat = os.read(fd, 4096)
    except ProcessLookupError:
        return 0
    finally:
        os.close(fd)
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
