"""Do for a command under Landlock what its rules cannot allow: restricted folders, shared memory, loopback.

Landlock allows the creation of entries in a folder only together with everything below it. So a command gets no such
right for a folder directly above a protected path; see `domain`. Instead, the kernel stops each call that
creates, removes or renames an entry and notifies us (seccomp user notification). If it concerns an unprotected name in
a restricted folder, we do it for the command; any other call continues, and Landlock decides.

- We only do what the command may do by its confinement, and only on copies of its arguments and on folders that we
  hold open, so that changing its memory or its folders meanwhile gains nothing. A wrong answer to the question which
  folder was meant gains nothing either.
- Landlock's rules belong to files and folders, not to paths, and none can be added to a running command. So new
  entries come from a stock of empty files and folders that have their rules already. Without any left, the command
  can create a file or folder but not open it again.
- What is moved up into a restricted folder is copied into a file from the stock, or its entries are moved into a folder
  from the stock.

Shared memory and semaphores are files in /dev/shm, where those of other programs are, too. So the calls that open or
remove them are stopped as well, and use a folder that is new for each command. For the network see `sockets`.

This runs outside the sandbox as the parent of the command, without capabilities. It must start fast, so it imports
little.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket
import _thread
import errno
import os
import resource
import sys
from _collections_abc import Collection  # known by that name already; `collections` takes 2 ms
from typing import NoReturn

from scaffold.host.sandbox.landlock.calls import CALLS, SOCKET_CALLS, Listener, StoppedCall, umask_of
from scaffold.host.sandbox.landlock.domain import (
    LandlockDomain,
    PathMarks,
    RawSyscalls,
    open_without_links,
    path_tree,
    restricted_folders,
)
from scaffold.host.sandbox.landlock.entry_changes import FolderChanges, FolderEntry, Identity, give, identity, opening
from scaffold.host.sandbox.landlock.sockets import SOCKADDR_BYTES, LoopbackSockets
from scaffold.host.sandbox.landlock.stock import OwnFolder, Stock

SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE = 1, 1 << 3, 1 << 5
PR_SET_PDEATHSIG = 1
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library keeps shared memory and semaphores
MEMORY_PREFIX = "scaffold-memory-"
SECCOMP = {"x86_64": 317, "aarch64": 277}
PTRACE = {"x86_64": 101, "aarch64": 117}
PTRACE_DETACH = 17


def prepare_broker(
    kernel: RawSyscalls,
    marks: PathMarks,
    held: Collection[Identity],
    domain: LandlockDomain,
    temporary: str,
    ports: Collection[int],
) -> "Broker":
    """Return the broker for a command with these marked paths, TMPDIR and ports. Adds rules to its domain."""
    top = path_tree(marks)
    restricted = set()
    for path in restricted_folders(top):
        try:
            folder = open_without_links(path)
        except OSError:
            continue
        restricted.add(identity(os.fstat(folder)))
        os.close(folder)
    stock = _new_stock(marks, {device for device, _ in restricted}, temporary)
    if stock:
        stock.allow(domain)
    memory = OwnFolder(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=open_without_links(temporary)), MEMORY_PREFIX)
    return Broker(kernel, FolderChanges(kernel, top, restricted, held, stock), memory, stock, ports)


def _new_stock(marks: PathMarks, devices: set[int], temporary: str) -> Stock | None:
    """Return a stock on one of these devices in a `.git`, TMPDIR or another protected or writable folder, else None."""
    paths = {kind: sorted(path for path, kinds in marks.items() if kind in kinds) for kind in ("sealed", "writable")}
    # git, watchers and globs look into every other folder
    repositories = [path for path in paths["sealed"] if path.endswith("/.git")]
    for path in (*repositories, temporary, *paths["sealed"], *paths["writable"]):
        try:
            parent = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=open_without_links(path))
        except OSError:  # missing, or a file
            continue
        if os.fstat(parent).st_dev in devices:
            try:
                return Stock(parent)
            except OSError:  # not ours, or full
                continue
    return None


def is_supported(kernel: RawSyscalls) -> bool:
    """Return True if this kernel can notify us and waits for our answer without interruption (Linux 5.19)."""
    try:
        kernel.call(SECCOMP[os.uname().machine], SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, None)
    except OSError as error:
        return error.errno == errno.EFAULT  # it accepts the flags, but there is no program
    except KeyError:
        return False
    return False


class Broker:
    """Answers the stopped calls of one command."""

    def __init__(
        self,
        kernel: RawSyscalls,
        changes: FolderChanges,
        memory: OwnFolder,
        stock: Stock | None,
        ports: Collection[int],
    ) -> None:
        """`memory` is the folder for shared memory; `ports` of this machine may be connected to."""
        self._kernel = kernel
        self._changes = changes
        self._memory = memory
        self._stock = stock
        self._memory_identity = identity(os.fstat(self._memory.fd))
        try:
            self._shared: Identity | None = identity(os.stat(SHARED_MEMORY))  # noqa: PTH116 - pathlib starts slowly
        except OSError:  # this system has none
            self._shared = None
        self._calls = CALLS[os.uname().machine]
        self._socket_calls = SOCKET_CALLS[os.uname().machine]
        _, self._most_open = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._sockets = LoopbackSockets(self._most_open, ports)

    def fork_command(self) -> _socket.socket:
        """Fork; return in the new process, which is to become the command, and supervise it in this one.

        Returns the connection that `stop_calls` takes.
        """
        ours, theirs = _socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            self._supervise_command(pid, ours)
        ours.close()
        # Without us its calls would fail.
        self._kernel.control(PR_SET_PDEATHSIG, signal.SIGKILL)
        return theirs

    def stop_calls(self, program: bytes, connection: _socket.socket) -> bool:
        """Install the seccomp program in this process, whose parent answers the calls that it stops.

        Returns False inside the sandbox of another broker: there can be no second one.
        """
        try:
            listener = self._kernel.notify(SECCOMP[os.uname().machine], NEW_LISTENER | WAIT_KILLABLE, program)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        right = listener.to_bytes(4, sys.byteorder)
        connection.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, right)])
        return True

    def _supervise_command(self, pid: int, connection: _socket.socket) -> NoReturn:
        """Answer the calls of the command `pid` until it ends, then end like it."""
        for number in signal.valid_signals() - {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)  # they are meant for the command, which gets them, too
        # Who reads the command's output waits for all that hold it.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.chdir("/")
        os.umask(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._most_open, self._most_open))
        _, rights, *_ = connection.recvmsg(1, _socket.CMSG_SPACE(4))
        connection.close()
        if rights:
            _thread.start_new_thread(self._serve_calls, (Listener(int.from_bytes(rights[0][2][:4], sys.byteorder)),))
        status = self._wait_for(pid)
        self._memory.remove()
        if self._stock:
            self._stock.remove()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            if -code not in {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(abs(code))

    def _wait_for(self, pid: int) -> int:
        while True:
            _, status = os.waitpid(pid, 0)
            if not os.WIFSTOPPED(status):
                return status
            # It made us its debugger (PTRACE_TRACEME), so that we learn of each signal and, by SIGTRAP, of each exec.
            number = os.WSTOPSIG(status)
            try:
                passed = 0 if number == signal.SIGTRAP else number
                self._kernel.call(PTRACE[os.uname().machine], PTRACE_DETACH, pid, None, passed)
            except ProcessLookupError:  # killed meanwhile
                continue

    def _serve_calls(self, listener: Listener) -> None:
        try:
            while True:
                stopped = listener.receive()
                if stopped and stopped.number in self._socket_calls:
                    self._answer_socket(listener, stopped)
                elif stopped:
                    self._answer_call(listener, stopped)
        finally:
            os._exit(126)  # an error in us: it ends the command, too, which would wait forever

    def _answer_call(self, listener: Listener, stopped: StoppedCall) -> None:
        try:
            entries = self._call_entries(stopped)
        except OSError:  # the kernel finds out what is wrong with the arguments
            entries = []
        try:
            if any(entry.parent == self._memory_identity for entry in entries):
                self._share_memory(listener, stopped, entries)
            elif not self._changes.concern(entries):
                listener.resume(stopped)
            elif all(map(self._changes.may_change, entries)) and listener.is_waiting(stopped):
                self._changes.perform(listener, stopped, entries)
            else:
                listener.resume(stopped)
        except OSError as error:
            listener.end(stopped, error.errno or errno.EIO)
        finally:
            for entry in entries:
                os.close(entry.folder)

    def _answer_socket(self, listener: Listener, stopped: StoppedCall) -> None:
        sockets, action = self._sockets, self._socket_calls[stopped.number]
        try:
            if action == "socket":
                family, kind, protocol = map(stopped.integer, range(3))
                fd = sockets.create(family, kind, protocol)
                give(listener, stopped, fd, os.O_CLOEXEC if kind & _socket.SOCK_CLOEXEC else 0)
                return
            inode = stopped.socket_inode(0)
            address = stopped.content(1, min(max(stopped.integer(2), 0), SOCKADDR_BYTES))
            if not listener.is_waiting(stopped):
                return
            if action == "bind":
                sockets.bind(inode, address)
                listener.end(stopped, 0)
            elif sockets.blocks(inode):
                # A server may need our answer before it accepts.
                _thread.start_new_thread(self._connect_socket, (listener, stopped, inode, address))
            else:
                self._connect_socket(listener, stopped, inode, address)
        except OSError as error:
            listener.end(stopped, error.errno or errno.EIO)
        except RuntimeError:  # too many threads
            listener.end(stopped, errno.EAGAIN)

    def _connect_socket(self, listener: Listener, stopped: StoppedCall, inode: int, address: bytes) -> None:
        try:
            self._sockets.connect(inode, address)
        except OSError as error:
            listener.end(stopped, error.errno or errno.EIO)
        else:
            listener.end(stopped, 0)

    def _call_entries(self, stopped: StoppedCall) -> list[FolderEntry]:
        _, places, _ = self._calls[stopped.number]
        entries: list[FolderEntry] = []
        try:
            for place in places:
                folder, name = stopped.folder(place)
                # An entry in the system's shared memory is in our folder.
                if identity(os.fstat(folder)) == self._shared:
                    os.close(folder)
                    folder = os.dup(self._memory.fd)
                entries.append(FolderEntry(folder, name))
        except OSError:
            for entry in entries:
                os.close(entry.folder)
            raise
        return entries

    def _share_memory(self, listener: Listener, stopped: StoppedCall, entries: list[FolderEntry]) -> None:
        """Perform a call that concerns shared memory. It has no folders, and what is in it stays in it."""
        action, _, further = self._calls[stopped.number]
        if action not in {"open", "create", "unlink", "link", "rename"} or len({each.parent for each in entries}) > 1:
            listener.resume(stopped)
        elif action in {"open", "create"}:
            flags, mode = opening(stopped, action, further)
            fd = os.open(
                entries[0].name,
                # The command can place a FIFO there, or lease a file: we would wait, and with us all its calls.
                flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                mode & ~umask_of(stopped.pid) & 0o777,
                dir_fd=self._memory.fd,
            )
            os.set_blocking(fd, not flags & os.O_NONBLOCK)
            give(listener, stopped, fd, flags)
        elif listener.is_waiting(stopped):
            self._changes.perform(listener, stopped, entries)
