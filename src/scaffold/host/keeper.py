"""Runs one command and leaves nothing of it behind.

`begin` takes `LEASH REPORT MOST MEMORY FILE COUNT HELD... COMMAND...`, with COUNT of HELD.

LEASH is the read end of a pipe that only our owner can write to: a byte from it lets us begin, and when the owner dies,
however it dies, the pipe ends and so does everything the command started. So it does when the command has more than
MOST descendants at once. MEMORY and FILE are how many bytes a process of its may have to itself, and a file it writes;
-1 for as many as the system gives. HELD are places that a sandbox cannot hold for want of something to hold there; see
`Hold`. REPORT is the write end of a pipe that gets a line if we began: `began N`, the number of the
command and of its process group, or `error N`, the errno with which it could not be started; and one before we exit:
`status N`, the command's raw wait status, or `crowd N`, the same where there were too many.

On Linux orphans come to us instead of to init, so that daemons are found too; elsewhere only the command's own process
group is ended, and nobody is counted. A script of its own because it must start fast: each check and each command of an
agent waits for it. So of `ctypes`, `signal` and `collections` it loads the parts that are written in C alone: with the
rest it would take twice as long.
"""

import _ctypes
import _signal as signal  # type: ignore[import-not-found]
import errno
import fcntl
import os
import resource
import select
import stat
import sys
from _collections_abc import Callable, Iterator

LINUX = sys.platform == "linux" and os.path.exists("/proc/loadavg")  # noqa: PTH110 - pathlib would double our start-up
PR_SET_CHILD_SUBREAPER = 36
ROUND_S = 0.005
QUIET_ROUNDS = 1000
PASSES = 100
CALM_S = 0.1
HASTE_S = 0.005
HASTY_GROWTH = 50
LEAST_THREADS_EACH = 2


def begin(words: list[str]) -> None:
    """Do what is asked for in `words`, in the order above."""
    leash, report, most, memory, file, count = map(int, words[:6])
    main(leash, report, (most, memory, file), words[6 : 6 + count], words[6 + count :])


def main(leash: int, report: int, limits: tuple[int, int, int], held: list[str], command: list[str]) -> None:
    """Run `command`, end all it left, report; `limits` are MOST, MEMORY and FILE."""
    for fd in (leash, report):
        os.set_inheritable(fd, False)
    _adopt_orphans()
    wake = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    most, memory, file = limits
    crowd = Crowd(most)
    hold = Hold(held)
    if not os.read(leash, 1):
        return
    try:
        if not hold.begin(leash):
            return
        _limit({resource.RLIMIT_DATA: memory, resource.RLIMIT_FSIZE: file})
        pid = os.posix_spawnp(
            command[0], command, os.environ, setsid=True, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
    except OSError as error:
        hold.end()
        _tell(report, b"error %d\n" % (error.errno or 0))
        return
    ended: dict[int, int] = {}
    try:
        _tell(report, b"began %d\n" % pid)
        _take_precedence()
        crowded = _watch(pid, leash, wake, ended, crowd)
    finally:
        _end_everything(pid, ended)
        hold.end()
    _tell(report, b"%s %d\n" % (b"crowd" if crowded else b"status", ended.get(pid, signal.SIGKILL)))


class Crowd:
    """Tells cheaply whether the command has too many descendants.

    One number tells how many threads this machine has. Only when it has grown are the descendants counted.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._load = os.open("/proc/loadavg", os.O_RDONLY) if LINUX else -1
        self._threads = self._all_threads()
        self._count = 0
        self.pause_s = CALM_S if LINUX else None
        """When to look again; None: never."""
        if LINUX:
            self._limit_user(self._threads)

    def is_over(self) -> bool:
        """Return whether there are more than there may be."""
        threads = self._all_threads()
        grown = threads - self._threads
        self.pause_s = HASTE_S if grown >= HASTY_GROWTH else CALM_S
        self._threads = min(self._threads, threads)
        room = max(self._most - self._count, self._most // 10)
        if threads and (threads <= self._most or grown <= room // 2):
            return False
        self._threads, self._count = threads, 0
        for _ in _descendants():
            self._count += 1
            if self._count > self._most:
                return True
        return False

    def _all_threads(self) -> int:
        """Return how many threads this machine has, 0 if it does not say."""
        return int(os.pread(self._load, 100, 0).split()[3].partition(b"/")[2]) if LINUX else 0

    def _limit_user(self, threads: int) -> None:
        """Have the system refuse what outruns us; it counts the user's threads, and knows no limit for root."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        wanted = threads + self._most * max(LEAST_THREADS_EACH, os.cpu_count() or 1)
        if threads and (soft == resource.RLIM_INFINITY or wanted < soft):
            resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))


class Hold:
    """Holds places where a command must not put anything, and links it must not change.

    A mount needs something to stand on, so where nothing is there comes a stand-in: a socket that nobody may open.
    Git does not see such things, and no program that finds one, left by a keeper that was killed, waits for it or reads
    it. Keepers whose commands run in the same folder share its lock, and who is left alone with it takes the
    stand-ins away. No mount can stand on a link, so one that was changed is put back, and what came instead is set
    aside.
    """

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._folders: dict[str, int] = {}
        self._links: list[tuple[int, str, str]] = []

    def begin(self, leash: int) -> bool:
        """Hold all; return whether we still may begin. OSError where one cannot be held."""
        for path in self._paths:
            folder, name = os.path.split(path)
            if folder not in self._folders:
                self._folders[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                while not _locks(self._folders[folder], fcntl.LOCK_SH):
                    if _readable(ROUND_S, leash):
                        return False
            if target := _target(self._folders[folder], name):
                self._links.append((self._folders[folder], name, target))
            else:
                _place(self._folders[folder], name)
        return True

    def end(self) -> None:
        """Let go of all; safe to repeat. The folders are those of the beginning, wherever they are called now."""
        for folder, name, target in self._links:
            _put_back(folder, name, target)
        for path, folder in self._folders.items():
            if _locks(folder, fcntl.LOCK_EX):
                for held in self._paths:
                    above, name = os.path.split(held)
                    if above == path:
                        _take_away(folder, name)
            os.close(folder)
        self._links, self._folders = [], {}


def _locks(folder: int, kind: int) -> bool:
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _target(folder: int, name: str) -> str:
    """Return where the link `name` leads, nothing if it is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _place(folder: int, name: str) -> None:
    """Make a stand-in: a socket, or an empty file where the file system knows no sockets."""
    try:
        os.mknod(name, stat.S_IFSOCK, dir_fd=folder)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
            raise
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0, dir_fd=folder))


def _take_away(folder: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_IMODE(found.st_mode) == 0 and found.st_size == 0 and not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _put_back(folder: int, name: str, target: str) -> None:
    """Put a link back where it was, and set aside what came instead."""
    if _target(folder, name) == target:
        return
    try:
        if name in os.listdir(folder):
            os.rename(name, f"{name}.refused-{os.getpid()}", src_dir_fd=folder, dst_dir_fd=folder)
        os.symlink(target, name, dir_fd=folder)
    except OSError:
        return


def _limit(limits: dict[int, int]) -> None:
    """Bound what each process may use up, once for all that come after; none leaves its memory on the disk."""
    for kind, most in {**limits, resource.RLIMIT_CORE: 0}.items():
        _, hard = resource.getrlimit(kind)
        if most >= 0 and (hard == resource.RLIM_INFINITY or most < hard):
            resource.setrlimit(kind, (most, most))


def _tell(report: int, line: bytes) -> None:
    """Write a line for our owner, who may be dead by now: what he had us start must end all the same."""
    try:
        os.write(report, line)
    except BrokenPipeError:
        return


def _adopt_orphans() -> None:
    if LINUX:
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_LAZY), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def _take_precedence() -> None:
    """Run before whatever the command started, where we may: who waits his turn among thousands cannot end them."""
    if LINUX:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            return


def _wake_on(*signals: int) -> int:
    """Return a descriptor on which the number of each of these signals arrives as a byte."""
    wake, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda _number, _frame: None)
    return wake


def _readable(seconds: float | None, *descriptors: int) -> list[int]:
    """Return which of the descriptors can be read, after `seconds` at most; their numbers may be of any size."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _watch(pid: int, leash: int, wake: int, ended: dict[int, int], crowd: Crowd) -> bool:
    """Return when the command ended, the leash was cut, we are told to end, or there are too many: True for that."""
    while not _has_ended(pid, ended):
        ready = _readable(crowd.pause_s, leash, wake)
        if leash in ready or (wake in ready and set(os.read(wake, 512)) - {signal.SIGCHLD}):
            return False
        if LINUX and crowd.is_over():
            return True
    return False


def _has_ended(pid: int, ended: dict[int, int]) -> bool:
    """Return whether the command ended, and reap its orphans; on Linux not itself: its number must stay its own."""
    if not LINUX:
        _reap(ended)
        return pid in ended
    while (child := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and child.si_pid != pid:
        os.waitpid(child.si_pid, 0)
    return child is not None


def _end_everything(pid: int, ended: dict[int, int]) -> None:
    """Kill and reap until no descendant is left; those who cannot be killed are given up after some seconds.

    All are stopped before one is killed, the command's group at one stroke: nobody is left who could start another.
    """
    _send(-pid, signal.SIGSTOP if LINUX else signal.SIGKILL)
    quiet = 0
    while quiet < QUIET_ROUNDS:
        before = len(ended)
        if not _reap(ended):
            return
        quiet = quiet + 1 if len(ended) == before else 0
        for descendant in _stopped():
            _send(descendant, signal.SIGKILL)
        select.select([], [], [], ROUND_S)


def _stopped() -> set[int]:
    """Stop descendants until there are no new ones, and return them."""
    found: set[int] = set()
    for _ in range(PASSES):
        before = len(found)
        for pid in _descendants():
            if pid not in found:
                _send(pid, signal.SIGSTOP)
                found.add(pid)
        if len(found) == before:
            break
    return found


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


def _descendants() -> Iterator[int]:
    """Yield our children, theirs, and so on; none where there is no /proc.

    Each comes before it is asked for its own: who stops it then has it tell of all.
    """
    us = os.getpid()
    children = _children if os.path.exists(f"/proc/self/task/{us}/children") else _family()  # noqa: PTH110
    found = list(children(us))
    for pid in found:
        yield pid
        found += children(pid)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, _content(f"/proc/{pid}/task/{task}/children").split())
    except OSError:  # it ended meanwhile, and its children are ours now
        return found
    return found


def _family() -> Callable[[int], list[int]]:
    """Return what `_children` would, for systems that do not tell of children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if LINUX else ():  # noqa: PTH208
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def _parent(pid: str) -> int:
    try:
        stat = _content(f"/proc/{pid}/stat")
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        content = b""
        while piece := os.read(fd, 65536):
            content += piece
        return content
    finally:
        os.close(fd)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
