"""A stock of empty files and folders for which a command under Landlock has rights; see `broker`."""

import errno
import fcntl
import os

from scaffold.host.folder_tree import OPENING, open_folder, remove_tree
from scaffold.host.sandbox.landlock.domain import CHANGING, OF_FILES, LandlockDomain, RawSyscalls

FILES, FOLDERS = 480, 32
"""Creating them takes about 20 ms."""
PREFIX = "scaffold-stock-"
ATTEMPTS = 8
MOST_REMOVED = 100_000
"""The most entries that are removed at once; the next broker removes the rest."""
NO_REPLACE = 1
"""The flag of renameat2 that keeps an existing target."""
RENAME = {"x86_64": 316, "aarch64": 276}
"""The number of renameat2 by processor type; Python's own renaming takes no flags."""


class OwnFolder:
    """A new folder with a lock that tells other brokers whether we are alive; `fd` is open for its entries."""

    def __init__(self, parent: int, prefix: str) -> None:
        """Create it in `parent`, an open folder, and remove those that killed brokers left there."""
        self._parent = parent
        self.device = os.fstat(parent).st_dev
        _remove_abandoned(parent, prefix)
        for _ in range(ATTEMPTS):
            self._name = f"{prefix}{os.getpid()}-{os.urandom(4).hex()}"
            os.mkdir(self._name, 0o700, dir_fd=parent)
            try:
                self.fd = os.open(self._name, OPENING, dir_fd=parent)
            except FileNotFoundError:  # another broker took it for an abandoned one, and has removed it
                continue
            try:
                # Never waited for: a command can lock any file that it can read. The kernel releases it when we end.
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another broker is about to remove it
                os.close(self.fd)
                continue
            if os.fstat(self.fd).st_nlink > 0:
                return
            os.close(self.fd)  # that broker has removed it
        raise OSError(errno.EAGAIN, "other processes lock or remove each folder that is made for a command")

    def remove(self) -> None:
        """Remove it with everything in it."""
        _remove_folder(self._parent, self._name)


class Stock(OwnFolder):
    """Empty files and folders that a command may change, in a folder of their own, to be moved into place."""

    def __init__(self, parent: int) -> None:
        """Create them in a new folder of `parent`, an open folder."""
        super().__init__(parent, PREFIX)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.files = [(f"f{each}", os.open(f"f{each}", flags, 0o600, dir_fd=self.fd)) for each in range(FILES)]
        self.folders: list[tuple[str, int]] = []
        for name in (f"d{each}" for each in range(FOLDERS)):
            os.mkdir(name, 0o700, dir_fd=self.fd)
            fd = os.open(name, OPENING, dir_fd=self.fd)
            self.folders.append((name, fd))

    def allow(self, domain: LandlockDomain) -> None:
        """Add the rules for all of them to a domain that is being built."""
        for _, fd in self.files:
            domain.allow_descriptor(fd, CHANGING & OF_FILES)
        for _, fd in self.folders:
            domain.allow_descriptor(fd, CHANGING)

    def place(self, entry: str, kernel: RawSyscalls, folder: int, name: str, flags: int) -> None:
        """Move an entry to `name` in an open folder; `flags` are those of renameat2."""
        rename(kernel, (self.fd, entry), (folder, name), flags)


def rename(kernel: RawSyscalls, source: tuple[int, str], target: tuple[int, str], flags: int) -> None:
    """Call renameat2 with folders and names."""
    (old, name), (new, other) = source, target
    kernel.call(RENAME[os.uname().machine], old, os.fsencode(name), new, os.fsencode(other), flags)


def _remove_abandoned(parent: int, prefix: str) -> None:
    for name in os.listdir(parent):
        if not name.startswith(prefix):
            continue
        try:
            folder = open_folder(parent, name)
        except OSError:
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its broker is alive
            continue
        else:
            _remove_folder(parent, name)
        finally:
            os.close(folder)


def _remove_folder(parent: int, name: str) -> None:
    # As far as possible: commands made what is in it, and their processes may still add to it.
    try:
        remove_tree(parent, name, most=MOST_REMOVED)
    except OSError:
        return
