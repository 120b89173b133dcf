"""A run's worktrees: one belongs to one attempt at a time, and is used again for the next rather than made anew.

What a worktree is called says whose it is: a name somebody asked for, `taken-NAME` while it is made ready for them,
`spare-NAME` once they gave it back. Renaming a folder is what takes it, so that no two processes ever take the same.
"""

import asyncio
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.recycling import recycle
from scaffold.git.registration import belongs, common_dir, link, plain, pointed_at, private_dir
from scaffold.git.repository import Repository
from scaffold.git.submodule import Missing, populate
from scaffold.git.worktree import add_bare, delete, drop_submodules, remove

SPARE = "spare-"
TAKEN = "taken-"
LOCK = "locked"
REASON = "in use by scaffold\n"
"""Tells git not to forget a worktree, not even while it cannot be found because it is being renamed."""


class Slot(Struct, frozen=True, kw_only=True):
    """A worktree made ready."""

    git: Git
    """At its top."""
    missing: tuple[Missing, ...]
    """Submodules whose folders are empty because their objects are not here."""
    fresh: bool
    """Whether it was made anew."""


class Pool:
    """The worktrees in one folder."""

    def __init__(self, repo: Repository, folder: Path) -> None:
        self._repo = repo
        self._folder = folder

    async def take(self, name: str, commit: Commit) -> Slot:
        """Return the worktree `name`, looking as if `commit` had just been checked out, detached.

        What an earlier try under this name left is replaced. Raises GitFailed if something that is not a worktree of
        this repository is in the way. If this is killed there is no worktree `name` yet, or it is ready but for
        its submodules.
        """
        place, taken = self._folder / name, self._folder / f"{TAKEN}{name}"
        for path in (place, taken):
            await remove(self._repo, path)
        recycled = await self._recycle(taken, commit)
        if not recycled:
            await add_bare(self._repo, taken, commit)
            (private_dir(taken) / LOCK).write_text(REASON)
        _move(taken, place)
        git = self._repo.git.at(place)
        return Slot(git=git, missing=await populate(git), fresh=not recycled)

    async def give_back(self, name: str) -> None:
        """Let others have the worktree `name`, whose work has landed or is pinned; one that looks odd is removed."""
        place, spare = self._folder / name, self._folder / f"{SPARE}{name}"
        if not self._sound(place):
            await remove(self._repo, place)
            return
        try:
            await drop_submodules(self._repo.git.at(place))
            _move(place, spare)
        except (GitFailed, OSError):
            await remove(self._repo, place)

    async def _recycle(self, taken: Path, commit: Commit) -> bool:
        """Turn a spare worktree into `taken`, clean; False if there is none that can be trusted."""
        while (spare := self._claim(taken)) is not None:
            if self._sound(taken):
                link(private_dir(taken), taken)
                if await recycle(self._repo.git.at(taken), commit):
                    return True
            await asyncio.to_thread(delete, taken)
            for path in (taken, spare):
                await remove(self._repo, path)
        return False

    def _claim(self, taken: Path) -> Path | None:
        """Rename a spare worktree to `taken` and return what it was called; None if there is none."""
        for spare in sorted(self._folder.glob(f"{SPARE}*")):
            try:
                spare.rename(taken)
            except FileNotFoundError:
                continue  # somebody else was faster
            return spare
        return None

    def _sound(self, path: Path) -> bool:
        """Whether this is a worktree of the repository, and nobody did anything special with it."""
        registration = pointed_at(path)
        if registration is None or not belongs(registration, self._repo.common_dir):
            return False
        try:
            return (
                private_dir(path) == registration
                and common_dir(registration) == self._repo.common_dir.resolve()
                and plain(registration, LOCK)
            )
        except (GitFailed, OSError):
            return False


def _move(source: Path, target: Path) -> None:
    """Rename a worktree, last of all: from then on it is its new owner's."""
    link(private_dir(source), target)
    source.rename(target)
