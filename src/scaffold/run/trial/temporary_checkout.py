"""The worktree and temporary folder of a trial; nothing of them stays, even if the process is killed."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts import worktree
from scaffold.git.client.command_line import Git
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.leftovers import made_by_dead_process, own_mark
from scaffold.host.process.child import start_child
from scaffold.run.context import repository_name
from scaffold.verify.environment.golden import ENVIRONMENTS, remove_unfinished_builds

TRIALS = "trials"
"""The folder of the worktrees of trials in the user's cache."""
TEMPORARY = "t"
"""The folder of temporary folders in the cache; its path is short, for the paths of sockets."""
END_S = 5.0
TRIES = 5
PAUSE_S = 0.5


class TrialPlace(Struct, frozen=True):
    """The folders of one trial; their names tell which process made them."""

    repository: Repository
    cache: Path
    name: str

    @property
    def checkout(self) -> Path:
        """The worktree."""
        return self.cache / TRIALS / self.name

    @property
    def temporary(self) -> Path:
        """The folder for temporary files of its commands."""
        return self.cache / TEMPORARY / self.name


def trial_place(repository: Repository, cache: Path) -> TrialPlace:
    """Return the place of a trial of this process."""
    return TrialPlace(repository, cache, f"{repository_name(repository)[-12:]}{own_mark()}")


@asynccontextmanager
async def guarded(place: TrialPlace, cleaner: Sequence[str]) -> AsyncIterator[None]:
    """Remove the trial's folders after the block, also if this process is killed meanwhile.

    `cleaner` is the command of a process that calls `remove_after_death` once its standard input ends.
    """
    guard = await start_child(
        [*cleaner, place.name], cwd=place.repository.root, env=dict(os.environ), log=Path(os.devnull)
    )
    try:
        yield
    finally:
        await remove_trial(place)
        await guard.end(END_S)


async def add_checkout(place: TrialPlace, commit: Commit) -> Git:
    """Check the commit out in the trial's worktree, detached, and return git there."""
    return await worktree.add(place.repository, place.checkout, commit)


async def remove_trial(place: TrialPlace) -> None:
    """Remove the worktree and the temporary folder; do nothing if they are gone."""
    await worktree.remove(place.repository, place.checkout)
    await asyncio.to_thread(delete_folder_if_possible, place.temporary)


async def remove_after_death(place: TrialPlace) -> None:
    """Remove what the trial of a dead process left, and what it was installing; its commands may just be ending."""
    # The commands of the dead process may still write while they end.
    for attempt in range(TRIES):
        try:
            await remove_trial(place)
            await remove_unfinished_builds(place.repository, place.cache / ENVIRONMENTS)
        except (GitError, OSError):
            if attempt == TRIES - 1:
                raise
        else:
            return
        await asyncio.sleep(PAUSE_S)


async def dead_trials(repository: Repository, cache: Path) -> tuple[TrialPlace, ...]:
    """Return the places of this repository's trials whose processes are dead, and of which anything is left."""
    ours = repository_name(repository)[-12:]
    names = {path.name for part in (TRIALS, TEMPORARY) for path in (cache / part).glob(f"{ours}.by-*")}
    # Git may still have the record of a worktree whose folder is gone.
    folder = (cache / TRIALS).resolve()
    names |= {each.path.name for each in await worktree.list_worktrees(repository) if each.path.parent == folder}
    return tuple(TrialPlace(repository, cache, name) for name in sorted(names) if made_by_dead_process(name))


async def remove_dead_trials(repository: Repository, cache: Path) -> tuple[TrialPlace, ...]:
    """Remove what killed trials of this repository left, and return their places."""
    found = await dead_trials(repository, cache)
    for place in found:
        await remove_after_death(place)
    return found
