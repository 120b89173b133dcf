"""A stock of empty files and folders for which a command under Landlock has rights; see `broker`."""

import fcntl
import os

from scaffold.host.sandbox.landlock.domain import CHANGING, OF_FILES, LandlockDomain, RawSyscalls

FILES, FOLDERS = 480, 32
"""Creating them takes about 20 ms."""
PREFIX = "scaffold-stock-"
NO_REPLACE = 1
"""The flag of renameat2 that keeps an existing target."""
RENAME = {"x86_64": 316, "aarch64": 276}
"""The number of renameat2 by processor type; Python's own renaming takes no flags."""


class Stock:
    """Empty files and folders that a command may change, in a folder of their own, to be moved into place."""

    def __init__(self, parent: int) -> None:
        """Create them in a new folder of `parent`, an open folder, and remove what a killed broker left there."""
        self._parent = parent
        self.device = os.fstat(parent).st_dev
        _remove_abandoned(parent)
        self._name = f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        os.mkdir(self._name, 0o700, dir_fd=parent)
        self._folder = os.open(self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        # released by the kernel when we end
        fcntl.flock(self._folder, fcntl.LOCK_EX)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.files = [(f"f{each}", os.open(f"f{each}", flags, 0o600, dir_fd=self._folder)) for each in range(FILES)]
        self.folders = [(f"d{each}", self._new_folder(f"d{each}")) for each in range(FOLDERS)]

    def allow(self, domain: LandlockDomain) -> None:
        """Add the rules for all of them to a domain that is being built."""
        for _, fd in self.files:
            domain.allow_descriptor(fd, CHANGING & OF_FILES)
        for _, fd in self.folders:
            domain.allow_descriptor(fd, CHANGING)

    def place(self, entry: str, kernel: RawSyscalls, folder: int, name: str, flags: int) -> None:
        """Move an entry to `name` in an open folder; `flags` are those of renameat2."""
        rename(kernel, (self._folder, entry), (folder, name), flags)

    def remove(self) -> None:
        """Remove the folder with what is left in it."""
        _remove_tree(self._parent, self._name)

    def _new_folder(self, name: str) -> int:
        os.mkdir(name, 0o700, dir_fd=self._folder)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)


def rename(kernel: RawSyscalls, source: tuple[int, str], target: tuple[int, str], flags: int) -> None:
    """Call renameat2 with folders and names."""
    (old, name), (new, other) = source, target
    kernel.call(RENAME[os.uname().machine], old, os.fsencode(name), new, os.fsencode(other), flags)


def _remove_abandoned(parent: int) -> None:
    for name in os.listdir(parent):
        if not name.startswith(PREFIX):
            continue
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except OSError:
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its broker is alive
            continue
        else:
            _remove_tree(parent, name)
        finally:
            os.close(folder)


def _remove_tree(parent: int, name: str) -> None:
    """Remove a folder with everything in it as far as possible, without following links."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError:
        return
    try:
        for entry in os.listdir(folder):  # noqa: PTH208 - as above
            try:
                os.unlink(entry, dir_fd=folder)
            except OSError:  # a folder
                _remove_tree(folder, entry)
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return
    finally:
        os.close(folder)
