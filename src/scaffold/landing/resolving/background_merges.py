"""Resolve conflicts with helpers, a merge agent and the tools of lock files, while other candidates go on."""

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
"""What a helper does with files, for users; the agent is asked first."""


class _Merge(Struct, frozen=True):
    base: Commit
    doing: str
    task: asyncio.Task[Integrated | IntegrationConflict]


class BackgroundMerges:
    """The candidates of a run that helpers merge or have merged; each answer is for one base.

    If the base has moved, the candidate is merged again, and helpers are asked again only if it still conflicts.
    Nothing is stored, so a kill loses only the answers.
    """

    def __init__(self, context: RunContext, run: Run, checkouts: Checkouts, merger: Merger | None = None) -> None:
        """Regenerate lock files in one of the `checkouts`; ask `merger` about what no program can decide."""
        self._context = context
        self._run = run
        self._checkouts = checkouts
        self._merger = merger
        self._was_rebased = context.store.branch_moves.was_rebased(run.id)
        self._merges: dict[AttemptId, _Merge] = {}

    @property
    def pending(self) -> Mapping[AttemptId, str]:
        """{candidate that waits for an answer: what is being done with it, for users}."""
        return {each: merge.doing for each, merge in self._merges.items() if not merge.task.done()}

    @property
    def tasks(self) -> Sequence[asyncio.Task[Integrated | IntegrationConflict]]:
        """The tasks that have not ended."""
        return [each.task for each in self._merges.values() if not each.task.done()]

    async def merge(self, action: Action, attempt: Attempt, base: Commit) -> Integrated | IntegrationConflict:
        """Return a candidate merged into `base`: by the helpers' answer, or as far as possible without one.

        Raises what the helpers raised, whatever base they were asked about; they are then asked again.
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
        """Ask helpers about a conflict with `base`; return False if no helper can resolve it.

        Only the `first` in the line is asked about for the first time: those ahead of another candidate may be refused,
        and its answer would have been paid for nothing.
        """
        known = self._merges.get(attempt.id)
        helpers: frozenset[Helper] = frozenset({"lock tool"} if self._merger is None else {"lock tool", "agent"})
        if not conflict.helpers or not conflict.helpers <= helpers or not (first or known):
            return False
        if known is not None and known.base == base:  # the conflict is their answer
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
        # The commits of a former base are not part of the work that was made on it.
        made_on = attempt.base_sha if self._was_rebased else None
        if attempt.head_sha is None:
            raise LookupError(attempt.id)
        return await integrate(
            self._context, self._run, action, head=attempt.head_sha, tip=base, base=made_on, helpers=helpers
        )

    async def keep(self, waiting: Collection[AttemptId]) -> None:
        """Forget the candidates that no longer wait, and cancel what is still asked about them."""
        gone = [self._merges.pop(each) for each in [*self._merges] if each not in waiting]
        await end_tasks([each.task for each in gone])

    async def close(self) -> None:
        """Cancel all merges."""
        await self.keep(())
