"""Make a used worktree what a fresh checkout would be, and see by one look that nothing has changed since.

Each change of a file, of its mode and of its links sets its ctime, which no program can set to another time. A checkout
whose entries all have the ctimes that they had when it was fresh is still fresh.
"""

import os
import stat
import time
from collections.abc import Container, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts.submodule import gitlinks
from scaffold.git.checkouts.worktree import clean_without_submodules
from scaffold.git.client.command_line import Git
from scaffold.host.folder_tree import OPENING

STEP_NS = 20_000_000
"""Two changes within this time may have the same ctime: the system counts in steps of at most 10 ms."""
SECOND_NS = 1_000_000_000
COARSE_STEP_NS = 3 * SECOND_NS
"""The same where the file system counts in seconds, or in every other one."""

Stamp = tuple[int, int]
"""Inode and ctime of an entry."""


class _Look(Struct):
    """What a walk through a checkout has seen of its entries, in the order of the walk."""

    commit: Commit | None = None
    """What was checked out, if a later look with the same stamps shows the same; None otherwise."""
    stamps: list[Stamp] = []
    fresh: bool = False
    """Whether there was nothing that a fresh checkout would not have."""

    def matches(self, later: "_Look") -> bool:
        """Return whether nothing has changed until a later look."""
        return later.fresh and later.stamps == self.stamps

    def is_settled(self, before_ns: int) -> bool:
        """Return whether each change after this time has another ctime than any that was seen."""
        newest = max(changed for _, changed in self.stamps)
        return newest + (STEP_NS if newest % SECOND_NS else COARSE_STEP_NS) < before_ns


async def recycle_worktree(git: Git, commit: Commit) -> bool:
    """Reset a used worktree to a fresh checkout of `commit` with empty submodule folders; return whether that worked.

    False if git failed or anything remains that a fresh worktree would not have; the caller then removes it.
    """
    known = _known_look(git.registration, git.cwd)
    is_known = known.commit == commit and git.registration.is_dir()
    if is_known and known.matches(_look_at(git, known.stamps)):
        return True
    known.commit = None
    try:
        await clean_without_submodules(git, commit)
    except GitError:
        return False
    before_ns = time.time_ns()
    found = _look_at(git)
    # Submodules are filled after this.
    if found.fresh and found.is_settled(before_ns) and not await gitlinks(git):
        known.commit, known.stamps = commit, found.stamps
    return found.fresh


@lru_cache(maxsize=64)
def _known_look(_registration: Path, _checkout: Path) -> _Look:
    """Return what this process has last seen there; the caller notes what it sees."""
    return _Look()


def _look_at(git: Git, expected: Sequence[Stamp] = ()) -> _Look:
    """Look at the registration and the checkout; stop where something is not fresh, or not as expected."""
    # HEAD, the index, and whatever a lock or an unfinished operation leaves in this folder.
    with os.scandir(git.registration) as entries:
        stamps = [_stamp(entry.stat(follow_symlinks=False)) for entry in entries]
    # Git wrote this file under the same umask as the files of a fresh checkout.
    file_mode = stat.S_IMODE((git.registration / "commondir").lstat().st_mode)
    # A readable folder can be entered, too: copy each read bit to the execute bit.
    folder_mode = file_mode | (file_mode & 0o444) >> 2
    modes = frozenset({stat.S_IFDIR | folder_mode, stat.S_IFREG | file_mode, stat.S_IFREG | folder_mode})
    top = git.cwd.lstat()
    stamps.append(_stamp(top))
    fresh, left, seen = top.st_mode == stat.S_IFDIR | folder_mode, [str(git.cwd)], 0
    while left and fresh:
        path = left.pop()
        folders = _look_into(path, modes, stamps, top=path == str(git.cwd))
        fresh = folders is not None and (not expected or stamps[seen:] == expected[seen : len(stamps)])
        left += folders or ()
        seen = len(stamps)
    return _Look(stamps=stamps, fresh=fresh)


def _look_into(path: str, modes: Container[int], stamps: list[Stamp], *, top: bool) -> list[str] | None:
    """Add the stamps of a folder's entries; return its folders, None if a fresh checkout would not have them all."""
    folders: list[str] = []
    # By descriptor, as the system would walk the whole path for each entry.
    folder = os.open(path, OPENING)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                stamps.append(_stamp(found))
                if entry.name == ".git" and top:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    folders.append(f"{path}/{entry.name}")
                # Git does not report sockets and pipes.
                if entry.name == ".git" or not (found.st_mode in modes or stat.S_ISLNK(found.st_mode)):
                    return None
                if found.st_nlink != 1 and stat.S_ISREG(found.st_mode):
                    return None
    finally:
        os.close(folder)
    return folders


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_ctime_ns
