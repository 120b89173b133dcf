"""Clean checkouts of a run, in which no agent works: they verify the base, candidates and the tip."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Run
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.fresh_checkout import recycle_worktree
from scaffold.git.checkouts.submodule import check_out_submodules
from scaffold.git.client.command_line import Git
from scaffold.host.child_environment import agent_variables
from scaffold.run.context import RunContext
from scaffold.run.gate_logs import keep_gate_log
from scaffold.run.resources.candidate_environment import hook_place, worktree_environment
from scaffold.run.resources.held_resources import held_resources
from scaffold.run.resources.sandbox import (
    check_services,
    folders_without_sandbox,
    open_sandbox,
    remove_temporary_folder,
    stop_leftover_services,
)
from scaffold.verify.contract.check_runs import During, Tree, unseen
from scaffold.verify.environment.check_env import check_environ, with_shown_folders
from scaffold.verify.environment.provisioning import reprovision

LANDING = "landing"
"""Name of the merge queue's checkout, and of the temporary folder of its checks."""


class Checkout:
    """One worktree, created on first use and reset for each tree; one tree at a time."""

    def __init__(self, context: RunContext, run: Run, name: str = LANDING, *, during: During = unseen) -> None:
        """`name` is unique among the checkouts of a run that exist at the same time."""
        self._context = context
        self._run = run
        self._name = name
        self.during = during
        """Shows each check and gate of the trees that follow."""

    @property
    def _worktree_folder(self) -> Path:
        if self._name == LANDING:
            return self._context.landing_folder(self._run.id)
        # Among the worktrees of attempts, where the next owner finds those of a killed process.
        return self._context.attempt_folder(self._run.id, AttemptId(self._name))

    def tree_without_checkout(self, base: Commit, commit: Commit, marks: Mapping[str, str] | None = None) -> Tree:
        """Return a tree for checks that need only the commit's paths: nothing is checked out."""
        own = {"SCAFFOLD_RUN": self._run.id, **(marks or {}), **agent_variables(self._run.id)}
        return Tree(
            git=self._context.git,
            base=base,
            commit=commit,
            environ=worktree_environment(self._context, self._run, self._worktree_folder, marks=own),
            clean=self._context.clean,
            keep_log=partial(keep_gate_log, self._context, self._run.id),
            during=self.during,
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
        """Check out a commit in the clean worktree, provision its check environment, and yield it."""
        # The reset deletes ignored files such as the installed environment; `reprovision` restores that.
        async with reprovision(environment, self._worktree_folder):
            # Checks may have damaged the worktree, even its `.git`; if the reset cannot repair it, it is created again.
            git = worktree.find_worktree(self._context.repository, self._worktree_folder)
            if git is not None and await recycle_worktree(git, commit):
                await check_out_submodules(git)
            else:
                git = await worktree.add(self._context.repository, self._worktree_folder, commit)
        await self._remove_temporary()  # caches of another candidate's checks
        with held_resources(self._context, self._run.id, self._name) as resources:
            bare = self.tree_without_checkout(base, commit, {**(marks or {}), **resources.variables})
            async with self._sandboxed_tree(bare, git, environment) as tree:
                yield tree

    @asynccontextmanager
    async def _sandboxed_tree(self, bare: Tree, git: Git, environment: CheckEnvironment | None) -> AsyncIterator[Tree]:
        async with open_sandbox(self._context, self._run, git.cwd, name=self._name) as sandbox:
            own = folders_without_sandbox(self._context, self._run, sandbox, name=self._name)
            yield msgspec.structs.replace(
                bare,
                git=git,
                environ=check_environ(environment, git.cwd, bare.environ) | own,
                sandbox=with_shown_folders(environment, sandbox),
                services=check_services(self._context, self._run, environment),
                hooks=hook_place(self._context, self._run, environment),
            )

    async def close(self) -> None:
        """Stop leftover services; remove the worktree and the checks' temporary folder."""
        # Containers may still have files of the worktree mounted, so they stop before it goes.
        await stop_leftover_services(self._context, self._run)
        await self.remove()

    async def remove(self) -> None:
        """Remove the worktree and the checks' temporary folder; services of the run keep running."""
        await worktree.remove(self._context.repository, self._worktree_folder)
        await self._remove_temporary()

    async def _remove_temporary(self) -> None:
        await asyncio.to_thread(remove_temporary_folder, self._context, self._run, name=self._name)


class Checkouts:
    """A pool with one checkout per name; each serves one proof at a time and is kept for the next."""

    def __init__(self, context: RunContext, run: Run, names: Sequence[str]) -> None:
        """No proof may take a second checkout while it has one: all could wait for each other."""
        self._context = context
        self._run = run
        self._checkouts = tuple(Checkout(context, run, name) for name in names)
        self._free = [*reversed(self._checkouts)]
        self._places = asyncio.Semaphore(len(names))

    def tree_without_checkout(self, base: Commit, commit: Commit, marks: Mapping[str, str]) -> Tree:
        """Return a tree for checks that need only the commit's paths: nothing is checked out."""
        return self._checkouts[0].tree_without_checkout(base, commit, marks)

    @asynccontextmanager
    async def taken(self, during: During) -> AsyncIterator[Checkout]:
        """Take a checkout for the block, in which `during` shows its checks and gates."""
        async with self._places:
            checkout = self._free.pop()
            checkout.during = during
            try:
                yield checkout
            finally:
                self._free.append(checkout)
                # Sequential proofs reuse the first one, so that the others are never created.
                self._free.sort(key=self._checkouts.index, reverse=True)

    async def close(self) -> None:
        """Stop leftover services; remove the worktrees and the temporary folders of their checks."""
        # Containers may still have files of a worktree mounted, so they stop before it goes.
        await stop_leftover_services(self._context, self._run)
        await self.remove()

    async def remove(self) -> None:
        """Remove the worktrees and the temporary folders of their checks; services of the run keep running."""
        for checkout in self._checkouts:
            await checkout.remove()


def names_of_lanes(count: int) -> tuple[str, ...]:
    """Return the names of the checkouts in which candidates are proven side by side."""
    return tuple(f"{LANDING}-{number}" for number in range(1, count + 1))
