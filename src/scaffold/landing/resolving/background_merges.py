"""Resolve conflicts that take time, by a merge agent and by tools of lock files, while others are proven and land."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from msgspec import Struct

from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.ports import Merger
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.landing.conflicts.merge_ladder import Helper
from scaffold.landing.integration import NO_HELPERS, Helpers, Integrated, IntegrationConflict, integrate
from scaffold.landing.proving.candidate_line import end_tasks
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.resolving.agent_merge import ask_merger
from scaffold.landing.resolving.lock_tools import LockFileMaker
from scaffold.run.context import RunContext

MAX_PATHS = 3
DOING: Mapping[Helper, str] = {"agent": "a merge agent merges", "lock tool": "its tool makes anew"}
"""What a helper does with files, for people; the agent is asked first."""


class _Merge(Struct, frozen=True):
    """A candidate that is merged into `base` with help."""

    base: Commit
    doing: str
    task: asyncio.Task[Integrated | IntegrationConflict]


class BackgroundMerges:
    """The candidates of a run that are merged with help, or that have been; each answer is for one base.

    A base that moved meanwhile makes an answer useless: the candidate is then merged anew, and helpers are asked again
    only if it still conflicts. Nothing of it is stored, so a kill loses the answers alone.
    """

    def __init__(self, context: RunContext, run: Run, checkouts: Checkouts, merger: Merger | None = None) -> None:
        """Lock files are made in one of the `checkouts`; `merger` is asked about what no program can decide."""
        self._context = context
        self._run = run
        self._checkouts = checkouts
        self._merger = merger
        self._was_rebased = context.store.branch_moves.was_rebased(run.id)
        self._merges: dict[AttemptId, _Merge] = {}

    @property
    def pending(self) -> Mapping[AttemptId, str]:
        """What is being done with each candidate that still waits for an answer, for people."""
        return {each: merge.doing for each, merge in self._merges.items() if not merge.task.done()}

    @property
    def tasks(self) -> Sequence[asyncio.Task[Integrated | IntegrationConflict]]:
        """The tasks that have not ended."""
        return [each.task for each in self._merges.values() if not each.task.done()]

    async def merge(self, action: Action, attempt: Attempt, base: Commit) -> Integrated | IntegrationConflict:
        """Return a candidate merged into `base`: as helpers have done, or as completely as is possible without them.

        Raises what went wrong while helpers were asked, whatever base they were asked about; they are then asked again.
        """
        known = self._merges.get(attempt.id)
        if known is None or not known.task.done():
            return await self._integrate_on(action, attempt, base)
        if known.task.exception() is not None:
            del self._merges[attempt.id]
        elif known.base != base:
            return await self._integrate_on(action, attempt, base)
        return known.task.result()

    def begin(
        self, action: Action, attempt: Attempt, base: Commit, conflict: IntegrationConflict, *, first: bool
    ) -> bool:
        """Ask helpers about a conflict with `base`; return whether they are asked, False if no helper can resolve it.

        Only the `first` in the line is asked about for the first time: what is ahead of another one may fall, and the
        answer would have been paid for nothing.
        """
        known = self._merges.get(attempt.id)
        helpers: frozenset[Helper] = frozenset({"lock tool"} if self._merger is None else {"lock tool", "agent"})
        if not conflict.helpers or not conflict.helpers <= helpers or not (first or known):
            return False
        if known is not None and known.base == base:  # that is their answer
            return False
        doing = " and ".join(text for helper, text in DOING.items() if helper in conflict.helpers)
        paths = utf8_safe(join_limited(conflict.paths, MAX_PATHS))
        task = asyncio.create_task(self._merge_with_help(action, attempt, base))
        self._merges[attempt.id] = _Merge(base, f"{doing} {paths}", task)
        return True

    async def _merge_with_help(
        self, action: Action, attempt: Attempt, base: Commit
    ) -> Integrated | IntegrationConflict:
        context, run = self._context, self._run
        maker = LockFileMaker(context=context, run=run, checkouts=self._checkouts, attempt_id=attempt.id)
        ask = None if self._merger is None else partial(ask_merger, self._merger, context, run, action)
        helpers = Helpers(ask_agent=ask, make_lock_files=partial(maker.make, base))
        return await self._integrate_on(action, attempt, base, helpers)

    async def _integrate_on(
        self, action: Action, attempt: Attempt, base: Commit, helpers: Helpers = NO_HELPERS
    ) -> Integrated | IntegrationConflict:
        # Work that was made on a former base of the run: the commits of that base are no part of it.
        made_on = attempt.base_sha if self._was_rebased else None
        head = _require_head(attempt)
        return await integrate(self._context, self._run, action, head=head, tip=base, base=made_on, helpers=helpers)

    async def keep(self, waiting: Collection[AttemptId]) -> None:
        """Forget the candidates that do not wait any more; what is still asked about them is cancelled."""
        gone = [self._merges.pop(each) for each in [*self._merges] if each not in waiting]
        await end_tasks([each.task for each in gone])

    async def close(self) -> None:
        """Cancel all that is still asked."""
        await self.keep(())


def _require_head(attempt: Attempt) -> Commit:
    if attempt.head_sha is None:
        raise LookupError(attempt.id)
    return attempt.head_sha
