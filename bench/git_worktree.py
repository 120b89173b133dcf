"""What it costs to give an attempt a worktree: one that another used, against git's own fresh one."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from row import Row, medians, row, seconds
from scaffold.core.ids import Commit
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.client.command_line import Git
from scaffold.git.repository import Repository, checkout_status, open_repository

FOLDERS = 50
GOAL = 0.6
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")


class WorktreeSetup(Struct, frozen=True):
    """A repository, its commit, and a folder for worktrees."""

    repo: Repository
    head: Commit
    folder: Path

    def fresh(self) -> float:
        """Return how long git takes for a new worktree."""
        path = self.folder / "fresh"
        taken = seconds(lambda: self._git("worktree", "add", "--quiet", "--detach", str(path), self.head))
        self._git("worktree", "remove", "--force", str(path))
        return taken

    def recycled(self) -> float:
        """Return how long the pool takes for one in which an attempt has changed and added files."""
        pool = WorktreePool(self.repo, self.folder / "pool")
        used = asyncio.run(pool.take("a", self.head)).git.cwd
        for number in range(20):
            (used / "d0" / f"f{number}").write_text("changed")
            (used / f"left{number}").write_text("left")
        asyncio.run(pool.give_back("a"))
        taken = seconds(lambda: asyncio.run(pool.take("b", self.head)))
        asyncio.run(pool.give_back("b"))
        return taken

    def _git(self, *args: str) -> None:
        asyncio.run(self.repo.git(*args))


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a recycled worktree against `git worktree add`."""
    count, rounds = (200, 1) if quick else (5_000, 7)
    with tempfile.TemporaryDirectory() as folder:
        setup = asyncio.run(_open_setup(Path(folder).resolve(), count))
        recycled, fresh = medians(rounds, setup.recycled, setup.fresh)
        yield row(f"worktree-recycled-{count}", recycled, fresh, unit="s", goal=GOAL if not quick else 100.0)


async def _open_setup(folder: Path, count: int) -> WorktreeSetup:
    root = folder / "repository"
    for number in range(count):
        path = root / f"d{number % FOLDERS}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 50)
    git = Git(root, environ=os.environ)
    await git("init", "--quiet")
    await git("add", "--all")
    await git(*IDENTITY, "commit", "--quiet", "--message", "first")
    repo = await open_repository(root, environ=os.environ)
    return WorktreeSetup(repo, (await checkout_status(repo)).head, folder)
