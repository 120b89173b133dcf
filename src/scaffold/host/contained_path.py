"""A path in a folder where others may have put links, which are never followed: each access opens name by name.

A repository is such a folder, and so is everything that a confined program may write.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from msgspec import Struct

from scaffold.host.folder_tree import OPENING, remove_tree
from scaffold.host.leftovers import own_mark

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
MISSING = "the file is missing"
"""What `read` returns of a file that is not there."""
PRIVATE = 0o600
LONGEST = 4_096
"""Bytes of a name; other programs cannot open longer ones."""
COPIED_BYTES = 1 << 16


class ContainedPath(Struct, frozen=True):
    """A file or folder `name` below the folder `top`, in the manner of `pathlib`.

    The user or we chose `top`, which may be reached by links. A name with `..`, and an absolute one, is refused. All
    that is refused raises OSError, whose `strerror` is part of a sentence and whose `filename` is what is in the way.
    What changes something also refuses folders and files of another user than this one and the owner of `top`.
    """

    top: Path
    name: str = ""

    def __truediv__(self, name: str | PurePosixPath) -> "ContainedPath":
        """Return the path `name`, which may have several parts, in this folder."""
        return ContainedPath(self.top, f"{self.name}/{name}" if self.name else str(name))

    def __str__(self) -> str:
        """Return the whole path, for people."""
        return str(self.path)

    @property
    def path(self) -> Path:
        """The whole path, for people and for comparisons; opening it would follow links."""
        return self.top / self.name

    @property
    def parent(self) -> "ContainedPath":
        """The folder that it is in; `top` for `top` itself."""
        return ContainedPath(self.top, self.name.rpartition("/")[0])

    def followed(self) -> "ContainedPath":
        """Return what links on the way lead to, if that is below `top`; itself if it is not, or if there are none."""
        top, reached = (Path(os.path.realpath(path)) for path in (self.top, self.path))
        return ContainedPath(top, "/".join(reached.relative_to(top).parts)) if reached.is_relative_to(top) else self

    @contextmanager
    def opened(self, *, create: bool = False, mode: int = 0o777) -> Iterator[int]:
        """Yield the descriptor of this folder; with `create`, missing ones on the way are made."""
        way, folder = self.top, os.open(self.top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in self._parts():
                way /= part
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, mode, dir_fd=folder)
                try:
                    inner = os.open(part, OPENING, dir_fd=folder)
                except OSError as error:
                    # The system says "not a directory" of a link.
                    why = error.strerror
                    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
                        why = kind_of(os.stat(part, dir_fd=folder, follow_symlinks=False))
                    raise OSError(error.errno, why, str(way)) from error
                folder, outer = inner, folder
                os.close(outer)
            yield folder
        finally:
            os.close(folder)

    def status(self) -> os.stat_result | None:
        """Return the status of the file or folder, or of a link itself; None if nothing is there or can be reached."""
        with suppress(OSError), self.parent.opened() as folder:
            return os.stat(self._leaf() if self.name else ".", dir_fd=folder, follow_symlinks=False)
        return None

    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return (status := self.status()) is not None and stat.S_ISREG(status.st_mode)

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """Yield the open file."""
        with self.parent.opened() as folder:
            # Opening a device may have an effect, and a named pipe would block for ever.
            self._require_file(os.stat(self._leaf(), dir_fd=folder, follow_symlinks=False))
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self._leaf(), flags, dir_fd=folder)
        try:
            # Asked again of the open file: another one may have got the name.
            self._require_file(os.fstat(descriptor))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def read(self, most_bytes: int) -> bytes | str:
        """Return the content of the file, or why it is not read (missing, a link, too large, ...)."""
        try:
            with self.reading() as file:
                data = file.read(most_bytes + 1)
        except FileNotFoundError:
            return MISSING
        except OSError as error:
            return f"the file cannot be opened ({error.strerror})"
        return data if len(data) <= most_bytes else f"the file is larger than {most_bytes} bytes"

    def write(self, data: bytes | IO[bytes], *, folder_mode: int = 0o777) -> None:
        """Create or replace the file atomically; missing folders are created.

        A new file is private; another one keeps its mode.
        """
        with self._written(folder_mode) as (folder, leaf, there):
            replace_in(folder, leaf, data, mode=stat.S_IMODE(there.st_mode) & 0o777 if there else PRIVATE)

    def append(self, line: bytes) -> None:
        """Append `line` and a newline in one write: lines of several processes never mix. Creates missing folders."""
        with self._written() as (folder, leaf, _):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(leaf, flags, 0o666, dir_fd=folder)
        try:
            # Asked again: something else may have got the name since. What has several names is known elsewhere, too.
            require_ours(self, os.fstat(descriptor), once=True)
            os.write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)

    def is_writable(self) -> bool:
        """Return whether the file could be created, replaced and appended to."""
        place, status = self, self.status()
        while status is None and place.name:
            place, status = place.parent, place.parent.status()
        if status is None or stat.S_ISDIR(status.st_mode) == (place == self):
            return False
        try:
            self._leaf()
            require_ours(place, status, once=True)
        except OSError:
            return False
        return os.access(place.path, os.W_OK if place == self else os.W_OK | os.X_OK)

    def delete(self) -> None:
        """Delete the file, the link, or the folder with everything in it, whatever its mode; it may be missing."""
        leaf, parent = self._leaf(), self.parent
        with suppress(FileNotFoundError), parent.opened() as folder:
            require_ours(parent, os.fstat(folder))
            if stat.S_ISDIR(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode):
                remove_tree(folder, leaf)
            else:
                os.unlink(leaf, dir_fd=folder)

    def entries(self) -> Iterator[tuple["ContainedPath", os.stat_result]]:
        """Yield everything below this folder with its status, a folder before its contents; links are not followed.

        What cannot be read is left out.
        """
        waiting = [self]
        while waiting:
            here = waiting.pop()
            found = list[tuple[ContainedPath, os.stat_result]]()
            with suppress(OSError), here.opened() as folder, os.scandir(folder) as listed:
                for entry in listed:
                    with suppress(OSError):  # deleted meanwhile
                        found.append((here / entry.name, entry.stat(follow_symlinks=False)))
            found.sort(key=lambda each: each[0].name)
            yield from found
            waiting += [each for each, status in reversed(found) if stat.S_ISDIR(status.st_mode)]

    @contextmanager
    def _written(self, mode: int = 0o777) -> Iterator[tuple[int, str, os.stat_result | None]]:
        """Yield the open folder of the file to be written, its name there, and its status if it exists."""
        leaf, parent = self._leaf(), self.parent
        with parent.opened(create=True, mode=mode) as folder:
            require_ours(parent, os.fstat(folder))
            there = None
            with suppress(FileNotFoundError):
                there = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
                require_ours(self, there)
            yield folder, leaf, there

    def _require_file(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, kind_of(status), str(self))

    def _leaf(self) -> str:
        if not (parts := self._parts()):
            raise OSError(errno.EINVAL, "not a name below this folder", str(self.top))
        return parts[-1]

    def _parts(self) -> list[str]:
        parts = self.name.split("/") if self.name else []
        try:
            encoded = os.fsencode(self.name)
        except UnicodeEncodeError:  # of a record, not of a file system
            encoded = b"\0"
        if len(encoded) > LONGEST or b"\0" in encoded or any(part in {"", ".", ".."} for part in parts):
            raise OSError(errno.EINVAL, "not a name below this folder", self.name)
        return parts


def require_ours(path: ContainedPath, status: os.stat_result, *, once: bool = False) -> None:
    """Raise OSError if what is at a path is a link or the like, or another user's; with `once`, also a hard link."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        why = kind_of(status)
    elif status.st_uid not in {os.geteuid(), path.top.stat().st_uid}:
        why = "owned by another user"
    elif once and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        why = "a file with several names"
    else:
        return
    raise OSError(errno.ELOOP, why, str(path))


def kind_of(status: os.stat_result) -> str:
    """Return what something is, e.g. "a symbolic link"."""
    if stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0:
        return "a command in a sandbox is using it"
    return KINDS.get(stat.S_IFMT(status.st_mode), "a device")


def replace_in(folder: int, name: str, data: bytes | IO[bytes], *, mode: int = PRIVATE) -> None:
    """Write a file of the open `folder` atomically, as `write_atomic` does."""
    # In the same folder, because a rename is atomic only within one file system. Without the file's own name, which may
    # be as long as a name can be.
    written = f"{own_mark()}{os.urandom(8).hex()}"
    fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            if isinstance(data, bytes):
                file.write(data)
            else:
                while piece := data.read(COPIED_BYTES):
                    file.write(piece)
            file.flush()
            # Without it a power cut after the rename can leave an empty file under the final name.
            os.fsync(file.fileno())
        os.replace(written, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written, dir_fd=folder)
    # The rename itself is only on the disk once its folder is.
    os.fsync(folder)
