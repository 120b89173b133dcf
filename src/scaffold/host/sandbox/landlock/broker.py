"""Change the entries of restricted folders for a command under Landlock, which cannot be allowed to do so itself.

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

This runs outside the sandbox as the parent of the command, without capabilities. It must start fast, so it imports
little.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket
import _thread
import errno
import os
import stat
import sys
from _collections_abc import Collection  # known by that name already; `collections` takes 2 ms
from typing import NoReturn

from scaffold.host.sandbox.landlock.calls import CALLS, Listener, Request, umask_of
from scaffold.host.sandbox.landlock.domain import (
    CHANGING,
    READING,
    LandlockDomain,
    PathAccess,
    PathMarks,
    PathNode,
    RawSyscalls,
    open_without_links,
    path_tree,
    restricted_folders,
)
from scaffold.host.sandbox.landlock.stock import NO_REPLACE, Stock, rename

Identity = tuple[int, int]
"""The device and inode of a file or folder."""
AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x200, 0x400, 0x1000
SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE = 1, 1 << 3, 1 << 5
PR_SET_PDEATHSIG = 1
SECCOMP = {"x86_64": 317, "aarch64": 277}


def prepare_broker(
    kernel: RawSyscalls, marks: PathMarks, held: Collection[Identity], domain: LandlockDomain
) -> "Broker | None":
    """Return the broker for a command with these marked paths; None if it needs none. Adds rules to its domain."""
    top = path_tree(marks)
    restricted = set()
    for path in restricted_folders(top):
        try:
            folder = open_without_links(path)
        except OSError:
            continue
        restricted.add(_identity(os.fstat(folder)))
        os.close(folder)
    if not restricted:
        return None
    stock = _new_stock(marks, {device for device, _ in restricted})
    if stock:
        stock.allow(domain)
    return Broker(kernel, top, restricted, held, stock)


def _new_stock(marks: PathMarks, devices: set[int]) -> Stock | None:
    """Return a stock in a protected folder, else a writable one, on one of these devices; None if there is none."""
    for kind in ("sealed", "writable"):
        for path in sorted(path for path, kinds in marks.items() if kind in kinds):
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


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - pathlib would double our start-up


def _identity(about: os.stat_result) -> Identity:
    return about.st_dev, about.st_ino


def is_supported(kernel: RawSyscalls) -> bool:
    """Return True if this kernel can notify us and waits for our answer without interruption (Linux 5.19)."""
    try:
        kernel.call(SECCOMP[os.uname().machine], SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, None)
    except OSError as error:
        return error.errno == errno.EFAULT  # it accepts the flags, but there is no program
    except KeyError:
        return False
    return False


class Entry:
    """An entry of a folder that a call names."""

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name
        about = os.fstat(folder)
        self.device = about.st_dev
        self.parent = _identity(about)

    def at(self) -> tuple[int, str]:
        """Return the folder and the name."""
        return self.folder, self.name

    def about(self) -> os.stat_result | None:
        """Return what is there, without following a link; None if nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return None


class Broker:
    """Answers the stopped calls of one command."""

    def __init__(
        self,
        kernel: RawSyscalls,
        top: PathNode,
        restricted: set[Identity],
        held: Collection[Identity],
        stock: Stock | None,
    ) -> None:
        """`top` is the tree of marked paths; `held` are the protected and hidden files that exist."""
        self._kernel = kernel
        self._top = top
        self._restricted = restricted
        self._held = held
        self._stock = stock
        self._calls = CALLS[os.uname().machine]

    def fork_command(self) -> _socket.socket:
        """Fork; return in the new process, which is to become the command, and supervise it in this one.

        Returns the connection that `stop_calls` takes.
        """
        ours, theirs = _socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            self._supervise(pid, ours)
        ours.close()
        # Without us its calls would fail.
        self._kernel.control(PR_SET_PDEATHSIG, signal.SIGKILL)
        return theirs

    def stop_calls(self, program: bytes, connection: _socket.socket) -> None:
        """Install the seccomp program in this process, whose parent answers the calls that it stops."""
        try:
            listener = self._kernel.notify(SECCOMP[os.uname().machine], NEW_LISTENER | WAIT_KILLABLE, program)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return  # inside another broker's sandbox there can be no second one
        right = listener.to_bytes(4, sys.byteorder)
        connection.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, right)])

    def _supervise(self, pid: int, connection: _socket.socket) -> NoReturn:
        """Answer the calls of the command `pid` until it ends, then end like it."""
        for number in signal.valid_signals() - {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)  # they are meant for the command, which gets them, too
        # Who reads the command's output waits for all that hold it.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.chdir("/")
        os.umask(0)
        _, rights, *_ = connection.recvmsg(1, _socket.CMSG_SPACE(4))
        connection.close()
        if rights:
            _thread.start_new_thread(self._serve, (Listener(int.from_bytes(rights[0][2][:4], sys.byteorder)),))
        _, status = os.waitpid(pid, 0)
        if self._stock:
            self._stock.remove()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            if -code not in {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(abs(code))

    def _serve(self, listener: Listener) -> None:
        """Answer calls as long as this process lives."""
        try:
            while True:
                if request := listener.receive():
                    self._answer(listener, request)
        finally:
            os._exit(126)  # an error in us: it ends the command, too, which would wait forever

    def _answer(self, listener: Listener, request: Request) -> None:
        try:
            entries = self._entries(request)
        except OSError:  # the kernel finds out what is wrong with the arguments
            entries = []
        try:
            if not any(entry.parent in self._restricted for entry in entries):
                listener.resume(request)
            elif all(map(self._may_change, entries)) and listener.is_waiting(request):
                self._perform(listener, request, entries)
            else:
                listener.resume(request)
        except OSError as error:
            listener.end(request, error.errno or errno.EIO)
        finally:
            for entry in entries:
                os.close(entry.folder)

    def _entries(self, request: Request) -> "list[Entry]":
        _, places, _ = self._calls[request.number]
        entries: list[Entry] = []
        try:
            entries.extend(Entry(*request.folder(place)) for place in places)
        except OSError:
            for entry in entries:
                os.close(entry.folder)
            raise
        return entries

    def _may_change(self, entry: Entry) -> bool:
        """Return whether the confinement lets the command create, replace or remove this entry."""
        access, node = PathAccess(READING).at(self._top), self._top
        for name in filter(None, _path(entry.folder).split("/")):
            if name not in node.below:
                node = PathNode()
                break
            node = node.below[name]
            access = access.at(node)
        # on file systems that ignore case `.GIT` is `.git`
        if access.rights != CHANGING or entry.name.casefold() in {name.casefold() for name in node.below}:
            return False
        about = entry.about()
        return about is None or _identity(about) not in self._held

    def _perform(self, listener: Listener, request: Request, entries: "list[Entry]") -> None:
        action, _, further = self._calls[request.number]
        flags = request.integer(further[0]) if further and action != "symlink" else 0
        old, entry = entries[0], entries[-1]
        match action:
            case "open":
                self._open(listener, request, entry, flags, request.integer(further[1]))
                return
            case "create":
                self._open(listener, request, entry, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, flags)
                return
            case "mkdir":
                self._make_folder(entry, flags & ~umask_of(request.pid) & 0o1777)
            case "unlink" if not flags & AT_REMOVEDIR:
                os.unlink(entry.name, dir_fd=entry.folder)
            case "unlink" | "rmdir":
                os.rmdir(entry.name, dir_fd=entry.folder)
            case "symlink":
                os.symlink(request.text(further[0]), entry.name, dir_fd=entry.folder)
            case "link" if flags & (AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
                listener.resume(request)
                return
            case "link":
                os.link(old.name, entry.name, src_dir_fd=old.folder, dst_dir_fd=entry.folder, follow_symlinks=False)
            case _:
                self._rename(old, entry, flags)
        listener.end(request, 0)

    def _open(self, listener: Listener, request: Request, entry: "Entry", flags: int, mode: int) -> None:
        """Create a file and give the command its descriptor; what exists the kernel opens itself."""
        if entry.about() is not None or flags & (os.O_DIRECTORY | os.O_PATH):
            listener.resume(request)
            return
        try:
            fd = self._new_file(entry, flags, mode & ~umask_of(request.pid) & 0o777)
        except FileExistsError:  # created meanwhile
            if flags & os.O_EXCL:
                raise
            listener.resume(request)
            return
        try:
            listener.give(request, fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)

    def _new_file(self, entry: Entry, flags: int, mode: int) -> int:
        stock = self._stock
        if not stock or not stock.files or stock.device != entry.device:
            return os.open(entry.name, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=entry.folder)
        name, spare = stock.files[-1]
        os.fchmod(spare, mode)
        stock.place(name, self._kernel, *entry.at(), NO_REPLACE)
        stock.files.pop()
        try:
            # through the descriptor: the name may be another file by now
            os.fchmod(spare, mode | 0o600)
            opened = os.open(f"/proc/self/fd/{spare}", flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
            os.fchmod(spare, mode)
        finally:
            os.close(spare)
        return opened

    def _make_folder(self, entry: Entry, mode: int) -> None:
        stock = self._stock
        if not stock or not stock.folders or stock.device != entry.device:
            os.mkdir(entry.name, mode, dir_fd=entry.folder)
            return
        name, spare = stock.folders[-1]
        os.fchmod(spare, mode & 0o777)
        stock.place(name, self._kernel, *entry.at(), NO_REPLACE)
        stock.folders.pop()
        os.close(spare)

    def _rename(self, old: Entry, new: Entry, flags: int) -> None:
        about = old.about()
        moves_up = new.parent in self._restricted and old.parent not in self._restricted
        stock = self._stock
        if about and moves_up and not flags & ~NO_REPLACE and stock and stock.device == new.device == old.device:
            if stat.S_ISREG(about.st_mode) and stock.files:
                self._adopt_file(stock, old, new, flags)
                return
            if stat.S_ISDIR(about.st_mode) and stock.folders:
                self._adopt_folder(stock, old, new, flags)
                return
        rename(self._kernel, old.at(), new.at(), flags)

    def _adopt_file(self, stock: Stock, old: Entry, new: Entry, flags: int) -> None:
        """Copy a file into one from the stock, which takes its place."""
        source = os.open(old.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=old.folder)
        name, spare = stock.files[-1]
        try:
            about = os.fstat(source)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            os.ftruncate(spare, 0)
            while os.copy_file_range(source, spare, 1 << 30):
                pass
            os.fchmod(spare, stat.S_IMODE(about.st_mode))
            os.utime(spare, ns=(about.st_atime_ns, about.st_mtime_ns))
            stock.place(name, self._kernel, *new.at(), flags)
        finally:
            os.close(source)
        stock.files.pop()
        os.close(spare)
        os.unlink(old.name, dir_fd=old.folder)

    def _adopt_folder(self, stock: Stock, old: Entry, new: Entry, flags: int) -> None:
        """Move the entries of a folder into one from the stock, which takes its place."""
        source = os.open(old.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=old.folder)
        name, spare = stock.folders[-1]
        try:
            about = os.fstat(source)
            stock.place(name, self._kernel, *new.at(), flags)
            stock.folders.pop()
            for entry in os.listdir(source):  # noqa: PTH208 - pathlib would double our start-up
                rename(self._kernel, (source, entry), (spare, entry), 0)
            os.fchmod(spare, stat.S_IMODE(about.st_mode))
            os.utime(spare, ns=(about.st_atime_ns, about.st_mtime_ns))
        finally:
            os.close(source)
        os.close(spare)
        os.rmdir(old.name, dir_fd=old.folder)
