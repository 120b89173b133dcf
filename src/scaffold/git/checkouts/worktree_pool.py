"""A run's pool of worktrees: each belongs to one attempt at a time and is reused for later ones.

The folder's name is its state: NAME while in use, `taken-NAME` while it is prepared, `spare-NAME` once returned.
A spare is claimed by renaming it, which is atomic, so two processes never get the same one.
"""

import asyncio
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts.fresh_checkout import recycle_worktree
from scaffold.git.checkouts.submodule import MissingSubmodule, check_out_submodules
from scaffold.git.checkouts.worktree import add_without_submodules, drop_submodules, remove, restore
from scaffold.git.checkouts.worktree_metadata import (
    find_registration,
    forget_log,
    gitdir_target,
    is_unmodified,
    set_checkout,
)
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import common_dir
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import delete_path

SPARE_PREFIX = "spare-"
TAKEN_PREFIX = "taken-"
LOCK_FILE = "locked"


def name_while_prepared(name: str) -> str:
    """Return the name of the folder in which a worktree is prepared; git names the registration after it."""
    return f"{TAKEN_PREFIX}{name}"


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
        final, taken = self._folder / name, self._folder / name_while_prepared(name)
        for path in (final, taken):
            await remove(self._repo, path)
        recycled = await self._recycle_spare(taken, commit)
        registration = recycled or (await add_without_submodules(self._repo, taken, commit)).registration
        if not recycled:
            # Git prunes registrations whose checkout is missing, and during the rename this one is missing.
            (registration / LOCK_FILE).write_text("in use by scaffold\n")
        _move_worktree(registration, taken, final)
        git = self._repo.git.at(final, git_dir=registration)
        return PooledWorktree(git=git, missing=await check_out_submodules(git), fresh=not recycled)

    async def take_again(self, name: str, commit: Commit) -> PooledWorktree:
        """Return the worktree `name` at `commit`, detached, with its ignored files; see `take`.

        A worktree that is missing, modified, or not of this repository is replaced by a fresh one.
        """
        path = self._folder / name
        registration = self._sound_registration(path, path)
        if registration is not None:
            git = self._repo.git.at(path, git_dir=registration)
            try:
                await restore(git, commit)
                # The commits of earlier attempts are pinned and do not belong to this one.
                forget_log(registration)
                return PooledWorktree(git=git, missing=await check_out_submodules(git), fresh=False)
            except (GitError, OSError):
                pass
        return await self.take(name, commit)

    async def give_back(self, name: str) -> None:
        """Return the worktree `name` to the pool; its work must have landed or be pinned. A modified one is removed."""
        path, spare = self._folder / name, self._folder / f"{SPARE_PREFIX}{name}"
        registration = self._sound_registration(path, path)
        if registration is None:
            await remove(self._repo, path)
            return
        try:
            await drop_submodules(self._repo.git.at(path, git_dir=registration))
            _move_worktree(registration, path, spare)
        except (GitError, OSError):
            await remove(self._repo, path)

    async def _recycle_spare(self, taken: Path, commit: Commit) -> Path | None:
        """Clean a spare worktree, rename it to `taken` and return its registration; None without a usable spare."""
        while (spare := self._claim_spare(taken)) is not None:
            # Checked after the rename, because until then another process could claim the same spare.
            registration = self._sound_registration(taken, spare)
            if registration is not None:
                set_checkout(registration, taken)
                forget_log(registration)
                if await recycle_worktree(self._repo.git.at(taken, git_dir=registration), commit):
                    return registration
            # Its .git may point anywhere, and `remove` refuses a folder that is not one of our worktrees.
            await asyncio.to_thread(delete_path, taken)
            # The registration still names the old path if it was not updated yet.
            for path in (taken, spare):
                await remove(self._repo, path)
        return None

    def _claim_spare(self, taken: Path) -> Path | None:
        for spare in sorted(self._folder.glob(f"{SPARE_PREFIX}*")):
            try:
                spare.rename(taken)
            except FileNotFoundError:
                continue  # another process claimed it first
            return spare
        return None

    def _sound_registration(self, path: Path, registered_at: Path) -> Path | None:
        """Return the registration of the worktree at `path`; None unless it is unmodified and of this repository."""
        registration = find_registration(self._repo.common_dir, registered_at)
        if registration is None or gitdir_target(path) != registration.resolve():
            return None
        try:
            ours = common_dir(registration) == self._repo.common_dir.resolve()
        except OSError:
            return None
        return registration if ours and is_unmodified(registration, LOCK_FILE) else None


def _move_worktree(registration: Path, source: Path, target: Path) -> None:
    # The rename comes last: it hands the worktree to its new owner.
    set_checkout(registration, target)
    source.rename(target)
