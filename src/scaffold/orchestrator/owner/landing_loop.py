"""Land the candidates of a run as they are handed in, on behalf of its owner."""

import asyncio
import contextlib
from collections.abc import Callable

from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.landing.facts.landing_record import resolve_intent
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BranchHeld, QueueIdle
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext

BRANCH_HELD_POLL_S = 1.0
APPROVAL_POLL_S = 1.0


class LandingLoop:
    """Steps through a run's merge queue."""

    def __init__(
        self, context: RunContext, run: Run, queue: MergeQueue, wakeup: Wakeup, is_stuck: Callable[[], bool]
    ) -> None:
        """`is_stuck` returns whether only held candidates are left and nothing can start."""
        self._context = context
        self._run = run
        self._queue = queue
        self._wakeup = wakeup
        self._is_stuck = is_stuck
        self._told = (0, 0)
        self.branch_held = False
        """Whether the session branch is checked out in a worktree."""

    async def run(self) -> None:
        """Land candidates; never returns."""
        # After a fault, a landing may have moved the branch without its record.
        for intent in self._context.store.intents.open_of_run(self._run.id):
            await resolve_intent(self._context, self._run, intent)
        self._queue.forget_tip()
        while True:
            event = self._wakeup.next_event()
            step = await self._queue.step()
            if isinstance(step, BranchHeld) and not self.branch_held:
                branch = self._run.session_branch
                text = f"{branch} is checked out at {step.path}; landing waits until you switch branches."
                with owner_transaction(self._context.store, self._run):
                    self._context.store.events.append(self._run.id, NoticeRaised("warning", text))
                self._wakeup.notify_all()
            self.branch_held = isinstance(step, BranchHeld)
            if isinstance(step, BranchHeld):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BRANCH_HELD_POLL_S):
                        await event.wait()
            elif not isinstance(step, QueueIdle):
                self._wakeup.notify_all()
            elif self._is_stuck():
                await self._queue.release_held()
            else:
                aside = self._queue.held, len(self._queue.approvals.resting)
                if aside != self._told:
                    self._told = aside
                    self._wakeup.notify_all()
                # Approvals expire without an event, so they are polled.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(APPROVAL_POLL_S if self._queue.approvals.awaiting else None):
                        await event.wait()
