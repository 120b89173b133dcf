"""Repositories that a sandboxed command makes inside the user's checkout: moved aside, because git would obey them.

Git, editors and prompts read the configuration of each repository that they come across, and run the programs that it
names, outside the sandbox. No sandbox level can forbid a name, so what a command made is renamed when it has ended.
What was there before is the user's: it is protected while a command runs, and never moved.
"""

import itertools
import os
import stat
import time
from pathlib import Path

from msgspec import Struct

GIT = ".git"
MAX_PROTECTED = 500
"""How many nested repositories a sandbox protects one by one."""
UNSETTLED_NS = 100_000_000
"""A folder that changed this recently may change again without getting another time."""


class _Folder(Struct, frozen=True):
    """What a folder contained at a time of its last change."""

    changed_ns: int
    inode: int
    folders: tuple[str, ...]
    git: str | None
    """The name of its `.git`, as written there."""


class NestedRepositories:
    """The `.git` files and folders below the top of a checkout; only folders that changed are listed again."""

    def __init__(self, top: Path, *, besides: Path) -> None:
        """`besides` is the commands' temporary folder, in which they may make repositories."""
        self._top = top.resolve()
        self._besides = str(besides.resolve())
        self._known: dict[str, _Folder] = {}

    def find(self) -> tuple[Path, ...]:
        """Return every nested `.git`, the outermost first; what is in it is not searched. Links are not followed."""
        found, known = list[Path](), dict[str, _Folder]()
        waiting = [str(self._top)]
        for folder in waiting:
            listed = self._list(folder)
            if listed is None:
                continue
            known[folder] = listed
            if listed.git and folder != waiting[0]:
                found.append(Path(folder, listed.git))
            waiting += [path for name in listed.folders if (path := f"{folder}/{name}") != self._besides]
        self._known = known
        return tuple(found)

    def move_new(self, before: tuple[Path, ...]) -> tuple[str, ...]:
        """Rename each nested `.git` that is not among `before`; return a line about each."""
        return tuple(move_aside(path, self._top) for path in self.find() if path not in before)

    def _list(self, folder: str) -> _Folder | None:
        """Return what is in a folder, from memory if it has not changed; None if it cannot be read."""
        try:
            found = os.lstat(folder)
            known = self._known.get(folder)
            if known and (known.changed_ns, known.inode) == (found.st_ctime_ns, found.st_ino):
                return known
            if not stat.S_ISDIR(found.st_mode):
                return None
            with os.scandir(folder) as entries:
                folders, git = list[str](), None
                for entry in entries:
                    if entry.name.casefold() == GIT:
                        git = entry.name
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
        except OSError:
            return None
        settled = time.time_ns() - found.st_ctime_ns > UNSETTLED_NS
        return _Folder(found.st_ctime_ns if settled else 0, found.st_ino, tuple(folders), git)


def move_aside(path: Path, top: Path) -> str:
    """Rename `path` to the first free `.git.refused-N` in its folder; return what was done."""
    shown = path.relative_to(top)
    try:
        name = _rename(path, top)
    except OSError as error:
        return f"{shown} is a repository that the command made; it could not be moved aside: {error.strerror}"
    return (
        f"{shown} was moved to {name}: git and editors would run the programs that a repository inside the workspace "
        "names. Make repositories in $TMPDIR; the user can move this one back."
    )


def _rename(path: Path, top: Path) -> str:
    """Rename `path` and return its new name; OSError if a link has appeared on the way to it, which leads elsewhere."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in path.relative_to(top).parts[:-1]:
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        used = set(os.listdir(folder))  # noqa: PTH208 - of a descriptor
        name = next(free for n in itertools.count(1) if (free := f"{GIT}.refused-{n}") not in used)
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
    return name
