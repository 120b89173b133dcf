"""The clean checkout of a run, in which trees are judged that nobody works on: the base, candidates, the tip."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from scaffold.core.gates import CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.git import worktree
from scaffold.git.command import Git
from scaffold.git.recycling import recycle
from scaffold.git.submodule import populate
from scaffold.host.environment import agent_marks, child_environment
from scaffold.verify.contract import Tree
from scaffold.verify.environment.furnishing import furnished_anew
from scaffold.verify.environment.surroundings import check_environ, within
from scaffold.worker.enclosure import enclosure, forget_temporary
from scaffold.worker.services import forget_services, services_of
from scaffold.worker.site import Site

QUEUE = "landing"
"""Whose temporary folder the checks have."""


class Checkout:
    """One worktree, made when it is first needed and then made new for each tree; for one check after another."""

    def __init__(self, site: Site, run: Run) -> None:
        self._site = site
        self._run = run

    @property
    def _folder(self) -> Path:
        return self._site.landing_folder(self._run.id)

    def bare(self, base: Commit, commit: Commit, marks: Mapping[str, str] | None = None) -> Tree:
        """Return a commit as something to be judged by its paths alone: nothing is checked out."""
        own = {"SCAFFOLD_RUN": self._run.id, **(marks or {}), **agent_marks(self._run.id)}
        return Tree(
            git=self._site.git,
            base=base,
            commit=commit,
            environ=child_environment(self._site.environ, own, names=self._run.settings.environment),
            clean=self._site.redactor.clean,
        )

    @asynccontextmanager
    async def tree(
        self,
        environment: CheckEnvironment | None,
        *,
        base: Commit,
        commit: Commit,
        marks: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Tree]:
        """Check a commit out as if nothing had ever been there, with what its checks stand on, and yield it."""
        async with furnished_anew(environment, self._folder):
            git = await self._renewed(commit)
        await self._forget()  # what the checks of another candidate left in their caches
        bare = self.bare(base, commit, marks)
        async with enclosure(self._site, self._run, git.cwd, name=QUEUE) as walls:
            yield msgspec.structs.replace(
                bare,
                git=git,
                environ=check_environ(environment, git.cwd, bare.environ),
                enclosure=within(environment, walls),
                services=services_of(self._site, self._run, environment),
            )

    async def close(self) -> None:
        """Remove the worktree, and what its checks left beside it."""
        await forget_services(self._site, self._run)
        await worktree.remove(self._site.repository, self._folder)
        await self._forget()

    async def _forget(self) -> None:
        await asyncio.to_thread(forget_temporary, self._site, self._run, name=QUEUE)

    async def _renewed(self, commit: Commit) -> Git:
        git = self._site.git.at(self._folder)
        if (self._folder / ".git").is_file() and await recycle(git, commit):
            await populate(git)
            return git
        return await worktree.add(self._site.repository, self._folder, commit)
