"""Run one command and end every process it started.

`run_argv` takes `LIFELINE REPORT MOST MEMORY FILE WRAPPED COUNT HELD... COMMAND...`, with COUNT of HELD.

LIFELINE is the read end of a pipe that only our owner can write to: a byte lets us begin, each later one makes us send
SIGTERM to the command's process group, and EOF, which comes however the owner dies, makes us end everything the command
started. We also do that when the command has more than MOST descendants at once. MEMORY and FILE limit the private
memory of each process and the size of each written file, in bytes; -1: the system's limit. WRAPPED is 1 if the first
process only holds a sandbox: it gets no SIGTERM, as its end would kill all that is in the sandbox at once. HELD are
paths that a sandbox cannot protect with a mount; see `PathGuard`. A word `held:PATH` of the command is replaced by the
number of a descriptor of that path, if it is no link.
REPORT is the write end of a pipe. We write one line at the start: `began N` with the pid of the command, which leads
its process group, or `error N` with the errno of the failed start. Before we exit we write `status N`, the command's
raw wait status, or `too-many N`, the same after too many processes.

On Linux we are a subreaper: orphans become our children instead of init's, so daemons are found too. Elsewhere only the
command's process group is ended, and processes are not counted. This is a separate script that must start fast, because
each check and each command of an agent waits for it; it imports only the C parts of `ctypes`, `signal` and
`collections`, as the rest would double the time.
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
POLL_S = 0.005
# Five seconds in which no process ended: what is left then ignores even SIGKILL, usually in a blocked system call.
QUIET_ROUNDS = 1000
PASSES = 100
SLOW_POLL_S = 0.1
FAST_POLL_S = 0.005
FAST_POLL_GROWTH = 50
LEAST_THREADS_EACH = 2
HELD = "held:"
# By Python; an ignored signal would stay ignored in the command.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


def run_argv(words: list[str]) -> None:
    """Parse `words`, in the order above, and run `main`."""
    lifeline, report, most, memory, file, wrapped, count = map(int, words[:7])
    terminate = _terminate_inside if wrapped else _terminate_group
    main(lifeline, report, (most, memory, file), words[7 : 7 + count], words[7 + count :], terminate)


def main(
    lifeline: int,
    report: int,
    limits: tuple[int, int, int],
    held: list[str],
    command: list[str],
    terminate: Callable[[int], None],
) -> None:
    """Run `command`, end all processes it left, and report; `limits` are MOST, MEMORY and FILE.

    `terminate` sends SIGTERM to the command with this pid.
    """
    # Our owner passed them as inheritable. A command that had REPORT could write its own status.
    for fd in (lifeline, report):
        os.set_inheritable(fd, False)
    _adopt_orphans()
    wake = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    most, memory, file = limits
    # Before the command starts, because it remembers the number of threads without it.
    process_limit = ProcessLimit(most)
    hold = PathGuard(held)
    # The owner sends this byte only after it has our pid. If it was cancelled or died before, nothing must start.
    if not os.read(lifeline, 1):
        return
    try:
        if not hold.begin(lifeline):
            return
        # On ourselves, because posix_spawn cannot set limits; the command inherits them.
        _set_limits({resource.RLIMIT_DATA: memory, resource.RLIMIT_FSIZE: file})
        command = hold.filled_in(command)
        pid = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigmask=(), setsigdef=IGNORED)
    except OSError as error:
        hold.end()
        _report_line(report, b"error %d\n" % (error.errno or 0))
        return
    ended: dict[int, int] = {}
    try:
        _report_line(report, b"began %d\n" % pid)
        # After the spawn: the command would inherit the real-time priority.
        _raise_priority()
        too_many_processes = _watch_command(pid, lifeline, wake, ended, process_limit, terminate)
    finally:
        # Placeholders go last: a process that still runs could create the real paths in their place.
        _end_everything(pid, ended)
        hold.end()
    # The status is missing if even SIGKILL did not end the command; the raw wait status of that death is the number 9.
    _report_line(
        report, b"%s %d\n" % (b"too-many" if too_many_processes else b"status", ended.get(pid, signal.SIGKILL))
    )


class ProcessLimit:
    """A cheap check whether the command has too many descendants.

    It reads the machine's total number of threads and counts the descendants only when that number has grown.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._load = os.open("/proc/loadavg", os.O_RDONLY) if LINUX else -1
        self._threads = self._all_threads()
        self._count = 0
        self.pause_s = SLOW_POLL_S if LINUX else None
        """Seconds until the next check; None: never."""
        if LINUX:
            # Against a fork bomb faster than our checks; it counts the user's threads, but not root's.
            soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
            # The kernel counts threads and MOST counts processes, so an allowed process needs room for several threads.
            limit = self._threads + most * max(LEAST_THREADS_EACH, os.cpu_count() or 1)
            if self._threads and (soft == resource.RLIM_INFINITY or limit < soft):
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))

    def is_over(self) -> bool:
        """Return True if the command has more descendants than allowed."""
        threads = self._all_threads()
        grown = threads - self._threads
        self.pause_s = FAST_POLL_S if grown >= FAST_POLL_GROWTH else SLOW_POLL_S
        # When other processes end, a baseline that stayed high would hide as many new ones of the command.
        self._threads = min(self._threads, threads)
        room = max(self._most - self._count, self._most // 10)
        # `threads` counts the whole machine, so it is an upper bound of what the command can have.
        if threads and (threads <= self._most or grown <= room // 2):
            return False
        self._threads, self._count = threads, 0
        for _ in _find_descendants():
            self._count += 1
            if self._count > self._most:
                return True
        return False

    def _all_threads(self) -> int:
        """Return the machine's number of threads; 0 if unknown."""
        return int(os.pread(self._load, 100, 0).split()[3].partition(b"/")[2]) if LINUX else 0


class PathGuard:
    """Guards paths that a command must not create, and symlinks that it must not change.

    A mount needs a mount point, so a missing path gets a placeholder: a socket with mode 0. Git ignores sockets, and a
    program that finds one left by a killed reaper neither blocks on it nor reads it. Reapers whose commands run in the
    same folder share a lock on it; the last one removes the placeholders. A symlink cannot be a mount point, so a
    changed symlink is restored afterwards, and its replacement is renamed.
    """

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._folders: dict[str, int] = {}
        self._links: list[tuple[int, str, str]] = []
        self._opened: dict[str, int] = {}

    def begin(self, lifeline: int) -> bool:
        """Guard all paths; return False if our owner died meanwhile. OSError if a path cannot be guarded."""
        for path in self._paths:
            folder, name = os.path.split(path)
            if folder not in self._folders:
                # No link is followed: an earlier command may have planted it, and we act outside the sandbox.
                self._folders[folder] = _open_folder(folder)
                # Polled, as a blocking flock would not notice the end of our owner.
                while not _try_lock(self._folders[folder], fcntl.LOCK_SH):
                    if _wait_readable(POLL_S, lifeline):
                        return False
            if target := _link_target(self._folders[folder], name):
                self._links.append((self._folders[folder], name, target))
            else:
                _make_placeholder(self._folders[folder], name)
                opened = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._folders[folder])
                os.set_inheritable(opened, True)
                self._opened[HELD + path] = opened
        return True

    def filled_in(self, command: list[str]) -> list[str]:
        """Return the command with the numbers of our descriptors."""
        return [str(self._opened.get(word, word)) for word in command]

    def end(self) -> None:
        """Release all paths; safe to repeat. Works on the folders opened in `begin`, even if they were renamed."""
        for folder, name, target in self._links:
            if _link_target(folder, name) == target:
                continue
            try:
                if name in os.listdir(folder):  # noqa: PTH208
                    os.rename(name, f"{name}.refused-{os.getpid()}", src_dir_fd=folder, dst_dir_fd=folder)
                os.symlink(target, name, dir_fd=folder)
            except OSError:
                continue
        for path, folder in self._folders.items():
            # Our shared lock cannot be converted while another reaper holds one, which then removes the placeholders.
            if _try_lock(folder, fcntl.LOCK_EX):
                for held in self._paths:
                    above, name = os.path.split(held)
                    if above == path:
                        _remove_placeholder(folder, name)
            os.close(folder)
        self._links, self._folders = [], {}


def _open_folder(path: str) -> int:
    # Step by step, without following a link: a command could have planted it meanwhile.
    folder = os.open("/", os.O_PATH)
    for name in (*filter(None, path.split("/")), "."):
        above = folder
        try:
            folder = os.open(
                name, (os.O_RDONLY if name == "." else os.O_PATH) | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above
            )
        finally:
            os.close(above)
    return folder


def _try_lock(folder: int, kind: int) -> bool:
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _link_target(folder: int, name: str) -> str:
    """Return the target of the symlink `name`; empty if it is not a symlink."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _make_placeholder(folder: int, name: str) -> None:
    # An empty file where the file system does not support sockets.
    try:
        # mknod makes a socket without binding it, and with mode 0, by which `_remove_placeholder` recognises it.
        os.mknod(name, stat.S_IFSOCK, dir_fd=folder)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
            raise
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0, dir_fd=folder))


def _remove_placeholder(folder: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_IMODE(found.st_mode) == 0 and found.st_size == 0 and not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _set_limits(limits: dict[int, int]) -> None:
    """Set resource limits, which child processes inherit; core dumps are disabled."""
    for kind, most in {**limits, resource.RLIMIT_CORE: 0}.items():
        _, hard = resource.getrlimit(kind)
        if most >= 0 and (hard == resource.RLIM_INFINITY or most < hard):
            resource.setrlimit(kind, (most, most))


def _report_line(report: int, line: bytes) -> None:
    # Our owner may be dead by now: its command must be ended all the same.
    try:
        os.write(report, line)
    except BrokenPipeError:
        return


def _adopt_orphans() -> None:
    if LINUX:
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_LAZY), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def _raise_priority() -> None:
    # Among thousands of processes we might not get CPU time to end them.
    if LINUX:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            return


def _wake_on(*signals: int) -> int:
    """Return a descriptor on which the number of each of these signals arrives as a byte."""
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    # A full pipe is no loss: one byte is enough to wake us.
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in signals:
        # Python writes to the wake-up descriptor only for signals that have a handler.
        signal.signal(number, lambda _number, _frame: None)
    return wake


def _wait_readable(seconds: float | None, *descriptors: int) -> list[int]:
    # By poll, as select fails for descriptors above 1023.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _watch_command(
    pid: int,
    lifeline: int,
    wake: int,
    ended: dict[int, int],
    process_limit: ProcessLimit,
    terminate: Callable[[int], None],
) -> bool:
    """Wait for the end of the command or the lifeline, or for a signal; return True if it had too many processes."""
    while not _has_ended(pid, ended):
        ready = _wait_readable(process_limit.pause_s, lifeline, wake)
        if wake in ready and set(os.read(wake, 512)) - {signal.SIGCHLD}:
            return False
        if lifeline in ready:
            if not os.read(lifeline, 1):
                return False
            terminate(pid)
        if LINUX and process_limit.is_over():
            return True
    return False


def _terminate_group(pid: int) -> None:
    _send_signal(-pid, signal.SIGTERM)


def _terminate_inside(pid: int) -> None:
    """Send SIGTERM to the process group that `pid` leads, but not to `pid`."""
    for member in list(_find_descendants()):
        try:
            if member != pid and os.getpgid(member) == pid:
                _send_signal(member, signal.SIGTERM)
        except ProcessLookupError:  # it ended meanwhile
            continue


def _has_ended(pid: int, ended: dict[int, int]) -> bool:
    """Return True if the command ended, and reap orphans; on Linux not the command itself, to keep its pid reserved."""
    if not LINUX:
        _reap_children(ended)
        return pid in ended
    # WNOWAIT leaves the command a zombie: its pid also names its process group, which is signalled at the end.
    while (child := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and child.si_pid != pid:
        os.waitpid(child.si_pid, 0)
    return child is not None


def _end_everything(pid: int, ended: dict[int, int]) -> None:
    """Kill and reap until no descendant is left; give up on unkillable ones after some seconds.

    All are stopped before any is killed, the command's group with one signal, so that none can fork in between.
    """
    # Elsewhere descendants cannot be listed, so this one signal has to end the group.
    _send_signal(-pid, signal.SIGSTOP if LINUX else signal.SIGKILL)
    quiet = 0
    while quiet < QUIET_ROUNDS:
        before = len(ended)
        if not _reap_children(ended):
            return
        # Each process that ends is progress; a fork bomb of thousands takes longer than the limit for a quiet phase.
        quiet = quiet + 1 if len(ended) == before else 0
        for descendant in _stop_descendants():
            _send_signal(descendant, signal.SIGKILL)
        select.select([], [], [], POLL_S)


def _stop_descendants() -> set[int]:
    """Stop descendants until there are no new ones, and return them."""
    found: set[int] = set()
    for _ in range(PASSES):
        before = len(found)
        for pid in _find_descendants():
            if pid not in found:
                _send_signal(pid, signal.SIGSTOP)
                found.add(pid)
        if len(found) == before:
            break
    return found


def _reap_children(ended: dict[int, int]) -> bool:
    """Record the wait status of every child that ended; return True if others are left."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            ended[pid] = status
    except ChildProcessError:
        return False


def _find_descendants() -> Iterator[int]:
    """Yield all our descendants; none without /proc.

    Each is yielded before its own children are read: a caller that stops it first sees all of them.
    """
    us = os.getpid()
    children = _child_pids if os.path.exists(f"/proc/self/task/{us}/children") else _children_by_scan()  # noqa: PTH110
    found = list(children(us))
    for pid in found:
        yield pid
        found += children(pid)


def _child_pids(pid: int) -> list[int]:
    found: list[int] = []
    try:
        # A thread's list contains only the children that this thread has started.
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, _read_file(f"/proc/{pid}/task/{task}/children").split())
    except OSError:  # it ended meanwhile, so its children became ours
        return found
    return found


def _children_by_scan() -> Callable[[int], list[int]]:
    """Return a function like `_child_pids` for kernels without /proc/PID/task/TID/children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if LINUX else ():  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            stat = _read_file(f"/proc/{name}/stat")
        except OSError:  # it ended meanwhile
            continue
        # The name before the last parenthesis may itself contain spaces and parentheses.
        parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
        children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def _read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        content = b""
        while piece := os.read(fd, 65536):
            content += piece
        return content
    finally:
        os.close(fd)


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
