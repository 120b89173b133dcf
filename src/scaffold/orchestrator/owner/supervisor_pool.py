"""Keep a supervisor running for each active goal, restarting those that exit."""

import asyncio
import contextlib
from pathlib import Path

from msgspec import Struct

from scaffold.core.events import SupervisorEnded, SupervisorStarted
from scaffold.core.ids import GoalId
from scaffold.core.model import Goal, Run
from scaffold.core.states import Active, Failed, Paused
from scaffold.host.identity import own_identity
from scaffold.host.process.child import kill_orphan
from scaffold.host.wake_fifo import has_pending_wake, wake_up
from scaffold.orchestrator.owner.engine import STOP_GRACE_S, Engine, SupervisorExit, describe_exit_code
from scaffold.orchestrator.owner.progress import ProgressMark, progress_mark
from scaffold.orchestrator.owner.run_end import RETRIED
from scaffold.orchestrator.planning.turn import close_lost_turns
from scaffold.orchestrator.supervisor.process import wake_fifo_path
from scaffold.orchestrator.wakeup import Wakeup
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction
from scaffold.run.machine_faults import FAULT_EXIT_CODE

MAX_STRIKES = 5
"""How often in a row a supervisor may exit without progress in its goal before the goal fails."""
# A supervisor that exits after progress, so without a strike, is replaced at once.
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds before the next supervisor starts, by the number of exits without progress."""

FAULT_BACKOFF_S = 3.0
"""Seconds before the next supervisor starts after a fault of the machine."""
PROBE_INTERVAL_S = 5.0
"""Seconds between the wake-ups that test whether a supervisor responds."""
MAX_UNANSWERED_PROBES = 4
"""How many probes in a row may go unanswered before a supervisor counts as hung."""


class _SupervisorState(Struct):
    """The supervisors of one goal, as seen by the owner."""

    mark: ProgressMark | None = None
    """Progress of the goal when the last supervisor started; None before the first."""
    strikes: int = 0
    """Exits in a row without progress."""
    running: bool = False
    not_before: float = 0.0
    """Monotonic time from which the next supervisor may start."""
    unheard: int = 0
    """Probes in a row without an answer."""


class SupervisorPool:
    """Starts, wakes and restarts the supervisors of a run, on behalf of its owner."""

    def __init__(self, context: RunContext, run: Run, engine: Engine, wakeup: Wakeup) -> None:
        self._context = context
        self._run = run
        self._engine = engine
        self._wakeup = wakeup
        self._watches: dict[GoalId, _SupervisorState] = {}

    async def keep(self) -> None:
        """Start a supervisor for each active goal without one; never returns."""
        while True:
            event = self._wakeup.next_event()
            due_s = await self._start_missing()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s):
                    await event.wait()

    async def end_unresponsive(self) -> None:
        """Stop each supervisor that no longer reads its wake-ups, so that it is replaced; never returns.

        Counts probes instead of time: after the machine was suspended, supervisors are not overdue.
        """
        while True:
            for goal_id, watch in tuple(self._watches.items()):
                # The pipe itself is the answer: a supervisor that lives has read the last probe out of it.
                watch.unheard = watch.unheard + 1 if watch.running and has_pending_wake(self._fifo_path(goal_id)) else 0
                if watch.unheard > MAX_UNANSWERED_PROBES:
                    await self._engine.stop_supervisor(goal_id, grace_s=STOP_GRACE_S)
            self.wake()
            await self._context.clock.sleep(PROBE_INTERVAL_S)

    def wake(self) -> None:
        """Wake every running supervisor."""
        for goal_id, watch in self._watches.items():
            if watch.running:
                wake_up(self._fifo_path(goal_id))

    def handle_exit(self, exited: SupervisorExit) -> None:
        """Record a supervisor's exit; fail the goal after too many exits without progress."""
        store, watch = self._context.store, self._watches.setdefault(exited.goal_id, _SupervisorState())
        watch.running = False
        # A turn that stays open would count as planning at work, and the run would never pause for a human.
        close_lost_turns(store, self._run, exited.goal_id)
        with owner_transaction(store, self._run, durable=True):
            goal = store.goals.get(exited.goal_id)
            if goal is None:
                return
            store.goals.supervise(goal.id, None, was=goal.supervisor)
            store.events.append(self._run.id, SupervisorEnded(goal.name, exited.code))
            if not isinstance(goal.state, Active):
                return
            # Deaths with progress in between do not count: a supervisor that
            # dies after each step still reaches its goal.
            # Nor do faults of the machine, which the owner meets, too.
            if exited.code != FAULT_EXIT_CODE:
                watch.strikes = watch.strikes + 1 if progress_mark(store, goal) == watch.mark else 0
            if watch.strikes >= MAX_STRIKES:
                store.goals.move(goal.id, Failed(self._no_progress_text(goal, exited)))
        delay_s = (
            FAULT_BACKOFF_S if exited.code == FAULT_EXIT_CODE else BACKOFF_S[min(watch.strikes, len(BACKOFF_S) - 1)]
        )
        watch.not_before = self._context.clock.monotonic() + delay_s

    async def _start_missing(self) -> float | None:
        """Start missing supervisors; return the seconds until the next delayed one is due, None if there is none."""
        waits: list[float] = []
        for goal in self._context.store.goals.of_run(self._run.id):
            watch = self._watches.setdefault(goal.id, _SupervisorState())
            if watch.running or not self._needs_supervisor(goal):
                continue
            wait_s = watch.not_before - self._context.clock.monotonic()
            if wait_s > 0:
                waits.append(wait_s)
            else:
                await self._start(goal, watch)
        return min(waits, default=None)

    def _needs_supervisor(self, goal: Goal) -> bool:
        """Return whether the goal needs a supervisor now; activates a retried goal."""
        store = self._context.store
        if goal.state == Paused(RETRIED):
            with owner_transaction(store, self._run, durable=True):
                store.goals.move(goal.id, Active())
            self._watches[goal.id].strikes = 0
            return True
        return isinstance(goal.state, Active)

    async def _start(self, goal: Goal, watch: _SupervisorState) -> None:
        store = self._context.store
        # `running` is set before the start, which awaits, so that a wake-up meanwhile does not start a second one.
        watch.mark, watch.running = progress_mark(store, goal), True
        try:
            identity = await self._engine.start_supervisor(goal.id)
        except OSError:
            watch.running = False
            raise
        with owner_transaction(store, self._run):
            # Read again for the compare-and-set: the start awaited.
            now = store.goals.get(goal.id)
            store.goals.supervise(goal.id, identity, was=now.supervisor if now else None)
            store.events.append(self._run.id, SupervisorStarted(goal.name, identity.pid))

    def _fifo_path(self, goal_id: GoalId) -> Path:
        return wake_fifo_path(self._context, self._run.id, goal_id)

    def _no_progress_text(self, goal: Goal, exited: SupervisorExit) -> str:
        log_tail = self._context.log_tail(self._run.id, goal.id)
        last = describe_exit_code(exited.code)
        return f"the supervisor exited {MAX_STRIKES} times in a row without progress (last: {last}). {log_tail}".strip()


async def end_orphaned_supervisors(context: RunContext, run: Run) -> None:
    """Kill the supervisors that a dead owner left, and clear them in the store."""
    store = context.store
    for goal in store.goals.of_run(run.id):
        if goal.supervisor is not None:
            if goal.supervisor != own_identity():
                await kill_orphan(goal.supervisor)
            with owner_transaction(store, run):
                store.goals.supervise(goal.id, None, was=goal.supervisor)
