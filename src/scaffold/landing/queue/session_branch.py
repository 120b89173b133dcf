"""The session branch as the merge queue of its run left it, and what others did to it since."""

from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.landing.facts.landing_record import last_landed, require_landed_on_branch, session_tip
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.queue.step_result import BranchHeld
from scaffold.run.context import RunContext


class SessionBranch:
    """Reads the session branch of a run for its owner, and rechecks facts where others moved it."""

    def __init__(self, context: RunContext, run: Run, refresher: FactRefresher) -> None:
        self._context = context
        self._run = run
        self._refresher = refresher
        self.landed: Commit | None = None
        """Where the queue left it; None if that is to be read."""
        self._seen: Commit | None = None
        """The tip for which facts were last marked stale."""

    async def held(self) -> BranchHeld | None:
        """Return the worktree that has the session branch checked out, unless its folder was deleted; else None."""
        for each in await worktree.worktrees_on_branch(self._context.repository, self._run.session_branch):
            # A deleted folder holds nothing. Git's lock is for worktrees on disks that are not always mounted.
            if each.locked or each.path.exists():
                return BranchHeld(each.path)
        return None

    async def read_tip(self) -> Commit:
        """Return the session branch's tip, with all facts rechecked there.

        Raises RepositoryError if the branch no longer contains what this queue landed.
        """
        tip = await session_tip(self._context, self._run)
        landed = self.landed or last_landed(self._context.store, self._run)
        # A landing records its own changes, so only what others put on top since then can have made facts stale.
        before = landed or self._run.base_sha
        if landed is not None and landed != tip:
            await require_landed_on_branch(self._context, self._run, landed, tip)
        if tip not in {before, self._seen}:
            self._refresher.mark_stale(await commits.changed_paths(self._context.git, before, tip), tip)
            self._seen = tip
        await self._refresher.settle(tip)
        return tip
