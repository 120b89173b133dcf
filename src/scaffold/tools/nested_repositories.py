"""Repositories that a sandboxed command makes inside the user's checkout: moved aside, because git would obey them.

Git, editors and prompts read the configuration of each repository that they come across, and run the programs that it
names, outside the sandbox. No sandbox level can forbid a name, so what a command made is renamed when it has ended.
What was there before is the user's: it is protected while a command runs, and never moved. A bare repository needs no
`.git`: git takes any folder with certain entries for one, and without its `HEAD` it no longer does.
"""

import itertools
import os
import stat
import time
from pathlib import Path

from msgspec import Struct

from scaffold.git.common_dir import is_git_dir_by_names
from scaffold.host.contained_path import ContainedPath

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
    """The name of its `.git`, or of its `HEAD` if it is a bare repository, as written there."""


class NestedRepositories:
    """The repositories below the top of a checkout; only folders that changed are listed again."""

    def __init__(self, top: Path, *, besides: Path) -> None:
        """`besides` is the commands' temporary folder, in which they may make repositories."""
        self._top = top.resolve()
        self._besides = str(besides.resolve())
        self._known: dict[str, _Folder] = {}

    def find(self) -> tuple[Path, ...]:
        """Return every nested `.git`, and the `HEAD` of each bare repository, the outermost first.

        What is in a `.git` is not searched. Links are not followed.
        """
        found, known = list[Path](), dict[str, _Folder]()
        waiting = [str(self._top)]
        for folder in waiting:
            listed = self._list_folder(folder)
            if listed is None:
                continue
            known[folder] = listed
            if listed.git and folder != waiting[0]:
                found.append(Path(folder, listed.git))
            waiting += [path for name in listed.folders if (path := f"{folder}/{name}") != self._besides]
        self._known = known
        return tuple(found)

    def move_new(self, before: tuple[Path, ...]) -> tuple[str, ...]:
        """Rename each `.git` or `HEAD` that `find` returns and is not among `before`; return a line about each."""
        seen, lines = set(before), list[str]()
        # A `.git` folder that was renamed is a bare repository, which the second round ends.
        for _ in range(2):
            new = [path for path in self.find() if path not in seen]
            lines += [move_aside(path, self._top) for path in new]
            seen.update(new)
        return tuple(lines)

    def _list_folder(self, folder: str) -> _Folder | None:
        # An unchanged folder is not listed again: a checkout may have thousands.
        try:
            found = os.lstat(folder)
            known = self._known.get(folder)
            if known and (known.changed_ns, known.inode) == (found.st_ctime_ns, found.st_ino):
                return known
            if not stat.S_ISDIR(found.st_mode):
                return None
            with os.scandir(folder) as entries:
                folders, names = list[str](), dict[str, str]()
                for entry in entries:
                    names[entry.name.casefold()] = entry.name
                    if entry.name.casefold() != GIT and entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
        except OSError:
            return None
        git = names.get(GIT) or (names["head"] if is_git_dir_by_names(names) else None)
        settled = time.time_ns() - found.st_ctime_ns > UNSETTLED_NS
        return _Folder(found.st_ctime_ns if settled else 0, found.st_ino, tuple(folders), git)


def sealed_path(path: Path, top: Path) -> Path:
    """Return the path to protect of a repository that `find` returned: its `.git`, or the folder of a bare one."""
    return path if path.name.casefold() == GIT or path.parent == top else path.parent


def move_aside(path: Path, top: Path) -> str:
    """Rename `path` to the first free `.git.refused-N` or `HEAD.refused-N` in its folder; return what was done."""
    shown = path.relative_to(top)
    try:
        name = _rename_safely(path, top)
    except OSError as error:
        return f"{shown} is a repository that the command made; it could not be moved aside: {error.strerror}"
    return (
        f"{shown} was moved to {name}: git and editors would run the programs that a repository inside the workspace "
        "names. Make repositories in $TMPDIR; the user can move this one back."
    )


def _rename_safely(path: Path, top: Path) -> str:
    # A link on the way may have appeared since, and would lead elsewhere.
    with ContainedPath(top, str(path.relative_to(top))).parent.opened() as folder:
        kept = GIT if path.name.casefold() == GIT else path.name
        used = set(os.listdir(folder))  # noqa: PTH208 - of a descriptor
        name = next(free for n in itertools.count(1) if (free := f"{kept}.refused-{n}") not in used)
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name
