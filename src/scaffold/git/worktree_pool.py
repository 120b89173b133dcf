"""A run's pool of worktrees: each belongs to one attempt at a time and is reused for later ones.

The folder's name is its state: NAME while in use, `taken-NAME` while it is prepared, `spare-NAME` once returned.
A spare is claimed by renaming it, which is atomic, so two processes never get the same one.
"""

import asyncio
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.repository import Repository
from scaffold.git.submodule import MissingSubmodule, check_out_submodules
from scaffold.git.worktree import add_without_submodules, drop_submodules, recycle_worktree, remove
from scaffold.git.worktree_metadata import (
    common_dir,
    gitdir_target,
    is_registration,
    is_unmodified,
    set_checkout,
    worktree_git_dir,
)
from scaffold.host.files import delete_path

SPARE_PREFIX = "spare-"
TAKEN_PREFIX = "taken-"
LOCK_FILE = "locked"
LOCK_REASON = "in use by scaffold\n"
"""Content of the lock file that keeps git from pruning a worktree while it is being renamed."""


class PooledWorktree(Struct, frozen=True, kw_only=True):
    """A worktree ready for use."""

    git: Git
    """Git at its top."""
    missing: tuple[MissingSubmodule, ...]
    """Submodules whose folders are empty because their objects are missing."""
    fresh: bool
    """True if newly created, False if recycled."""


class WorktreePool:
    """The pool of worktrees in one folder."""

    def __init__(self, repo: Repository, folder: Path) -> None:
        self._repo = repo
        self._folder = folder

    async def take(self, name: str, commit: Commit) -> PooledWorktree:
        """Return the worktree `name` as a fresh, detached checkout of `commit`.

        Leftovers of an earlier attempt under this name are replaced. Raises GitError if the path exists and is not a
        worktree of this repository. If the process is killed, the worktree `name` either does not exist or lacks only
        its submodules.
        """
        final, taken = self._folder / name, self._folder / f"{TAKEN_PREFIX}{name}"
        for path in (final, taken):
            await remove(self._repo, path)
        recycled = await self._recycle(taken, commit)
        if not recycled:
            await add_without_submodules(self._repo, taken, commit)
            # Git prunes registrations whose checkout is missing, and between two names this one is.
            (worktree_git_dir(taken) / LOCK_FILE).write_text(LOCK_REASON)
        _move(taken, final)
        git = self._repo.git.at(final)
        return PooledWorktree(git=git, missing=await check_out_submodules(git), fresh=not recycled)

    async def give_back(self, name: str) -> None:
        """Return the worktree `name` to the pool; its work must have landed or be pinned. A modified one is removed."""
        path, spare = self._folder / name, self._folder / f"{SPARE_PREFIX}{name}"
        if not self._sound(path):
            await remove(self._repo, path)
            return
        try:
            await drop_submodules(self._repo.git.at(path))
            _move(path, spare)
        except (GitError, OSError):
            await remove(self._repo, path)

    async def _recycle(self, taken: Path, commit: Commit) -> bool:
        """Clean a spare worktree and make it `taken`; return False if there is no usable one."""
        while (spare := self._claim(taken)) is not None:
            # Checked after the rename: before it, another process could have claimed the same spare.
            if self._sound(taken):
                set_checkout(worktree_git_dir(taken), taken)
                if await recycle_worktree(self._repo.git.at(taken), commit):
                    return True
            # Its .git may point anywhere by now, and `remove` refuses a folder that is not one of our worktrees.
            await asyncio.to_thread(delete_path, taken)
            # The registration still names the old path if it was not updated yet.
            for path in (taken, spare):
                await remove(self._repo, path)
        return False

    def _claim(self, taken: Path) -> Path | None:
        """Rename a spare worktree to `taken` and return its old path; None if there is none."""
        for spare in sorted(self._folder.glob(f"{SPARE_PREFIX}*")):
            try:
                spare.rename(taken)
            except FileNotFoundError:
                continue  # another process claimed it first
            return spare
        return None

    def _sound(self, path: Path) -> bool:
        """Return whether this is an unmodified worktree of the repository."""
        registration = gitdir_target(path)
        if registration is None or not is_registration(registration, self._repo.common_dir):
            return False
        try:
            return (
                worktree_git_dir(path) == registration
                and common_dir(registration) == self._repo.common_dir.resolve()
                and is_unmodified(registration, LOCK_FILE)
            )
        except (GitError, OSError):
            return False


def _move(source: Path, target: Path) -> None:
    """Rename a worktree. The rename comes last: it hands the worktree to its new owner."""
    set_checkout(worktree_git_dir(source), target)
    source.rename(target)
