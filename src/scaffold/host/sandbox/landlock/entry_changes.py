"""Changes of the entries of restricted folders, made for a command; see `broker`."""

import errno
import os
import stat
from _collections_abc import Collection  # known by that name already; `collections` takes 2 ms

from scaffold.host.sandbox.landlock.calls import CALLS, Listener, StoppedCall, umask_of
from scaffold.host.sandbox.landlock.domain import CHANGING, READING, PathAccess, PathNode, RawSyscalls
from scaffold.host.sandbox.landlock.stock import NO_REPLACE, Stock, rename

AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x200, 0x400, 0x1000

Identity = tuple[int, int]
"""The device and inode of a file or folder."""


class FolderEntry:
    """An entry of a folder that a call names."""

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name
        about = os.fstat(folder)
        self.device = about.st_dev
        self.parent = identity(about)

    def at(self) -> tuple[int, str]:
        """Return the folder and the name."""
        return self.folder, self.name

    def about(self) -> os.stat_result | None:
        """Return what is there, without following a link; None if nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return None


class FolderChanges:
    """Performs the changes that the confinement of a command allows."""

    def __init__(
        self,
        kernel: RawSyscalls,
        top: PathNode,
        restricted: Collection[Identity],
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

    def concern(self, entries: list[FolderEntry]) -> bool:
        """Return True if an entry is in a restricted folder."""
        return any(entry.parent in self._restricted for entry in entries)

    def may_change(self, entry: FolderEntry) -> bool:
        """Return whether the confinement lets the command create, replace or remove this entry."""
        access, node = PathAccess(READING).at(self._top), self._top
        path = os.readlink(f"/proc/self/fd/{entry.folder}")  # noqa: PTH115 - pathlib would double our start-up
        for name in filter(None, path.split("/")):
            if name not in node.below:
                node = PathNode()
                break
            node = node.below[name]
            access = access.at(node)
        # on file systems that ignore case `.GIT` is `.git`
        if access.rights != CHANGING or entry.name.casefold() in {name.casefold() for name in node.below}:
            return False
        about = entry.about()
        return about is None or identity(about) not in self._held

    def perform(self, listener: Listener, stopped: StoppedCall, entries: list[FolderEntry]) -> None:
        """Do what the call asks for and answer it; OSError as from the call."""
        action, _, further = self._calls[stopped.number]
        flags = stopped.integer(further[0]) if further and action != "symlink" else 0
        old, entry = entries[0], entries[-1]
        match action:
            case "open" | "create":
                self._open_new(listener, stopped, entry, *opening(stopped, action, further))
                return
            case "mkdir":
                self._make_folder(entry, flags & ~umask_of(stopped.pid) & 0o1777)
            case "unlink" if not flags & AT_REMOVEDIR:
                os.unlink(entry.name, dir_fd=entry.folder)
            case "unlink" | "rmdir":
                os.rmdir(entry.name, dir_fd=entry.folder)
            case "symlink":
                os.symlink(stopped.text(further[0]), entry.name, dir_fd=entry.folder)
            case "link" if flags & (AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
                listener.resume(stopped)
                return
            case "link":
                os.link(old.name, entry.name, src_dir_fd=old.folder, dst_dir_fd=entry.folder, follow_symlinks=False)
            case _:
                self._rename_entry(old, entry, flags)
        listener.end(stopped, 0)

    def _open_new(self, listener: Listener, stopped: StoppedCall, entry: FolderEntry, flags: int, mode: int) -> None:
        # What exists the kernel opens itself.
        if entry.about() is not None or not flags & os.O_CREAT or flags & (os.O_DIRECTORY | os.O_PATH):
            listener.resume(stopped)
            return
        try:
            fd = self._new_file(entry, flags, mode & ~umask_of(stopped.pid) & 0o777)
        except FileExistsError:  # created meanwhile
            if flags & os.O_EXCL:
                raise
            listener.resume(stopped)
            return
        give(listener, stopped, fd, flags)

    def _new_file(self, entry: FolderEntry, flags: int, mode: int) -> int:
        stock = self._stock
        if not stock or not stock.files or stock.device != entry.device:
            return os.open(entry.name, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=entry.folder)
        name, spare = stock.files[-1]
        os.ftruncate(spare, 0)  # the command can write to it already, and so did a failed move
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

    def _make_folder(self, entry: FolderEntry, mode: int) -> None:
        stock = self._stock
        if not stock or not stock.folders or stock.device != entry.device:
            os.mkdir(entry.name, mode, dir_fd=entry.folder)
            return
        name, spare = stock.folders[-1]
        os.fchmod(spare, mode & 0o777)
        stock.place(name, self._kernel, *entry.at(), NO_REPLACE)
        stock.folders.pop()
        os.close(spare)

    def _rename_entry(self, old: FolderEntry, new: FolderEntry, flags: int) -> None:
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

    def _adopt_file(self, stock: Stock, old: FolderEntry, new: FolderEntry, flags: int) -> None:
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

    def _adopt_folder(self, stock: Stock, old: FolderEntry, new: FolderEntry, flags: int) -> None:
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


def opening(stopped: StoppedCall, action: str, further: tuple[int, ...]) -> tuple[int, int]:
    """Return the flags and the mode of a call that opens a file."""
    if action == "create":
        return os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stopped.integer(further[0])
    return stopped.integer(further[0]), stopped.integer(further[1])


def identity(about: os.stat_result) -> Identity:
    """Return the identity of what was looked up."""
    return about.st_dev, about.st_ino


def give(listener: Listener, stopped: StoppedCall, fd: int, flags: int) -> None:
    """Let the call succeed with this descriptor, which is closed, and the flags of its opening."""
    try:
        listener.give(stopped, fd, close_on_exec=bool(flags & os.O_CLOEXEC))
    finally:
        os.close(fd)
