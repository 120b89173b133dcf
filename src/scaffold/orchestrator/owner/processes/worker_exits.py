"""Start a worker for each queued attempt, handle its exit, and stop workers that are overdue or hung."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from scaffold.core.ids import ActionId, ActionKey, AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, AttemptOutcome, Failed
from scaffold.orchestrator.owner.processes.engine import STOP_GRACE_S, AttemptExit, Engine, describe_exit_code
from scaffold.orchestrator.owner.recovery.interrupted_run import release_attempt
from scaffold.orchestrator.owner.watch.machine_watch import MachineWatch
from scaffold.plan.message_text import quoted_list
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.attempts.time_limit import attempt_timeout_s
from scaffold.run.context import FAULT_EXIT_CODE, RunContext
from scaffold.run.failures.ladder import failure_kind
from scaffold.run.failures.soft_timeouts import settled_questions, withdraw_settled
from scaffold.run.notices import asked_items
from scaffold.run.resources.sandbox import remove_temporary_folder
from scaffold.store.database import Store
from scaffold.store.spending.run_budget import budget_use
from scaffold.worker.workspace.attempt_worktree import UNPINNED_PHASES, rescue_and_remove

MAX_STARTUP_RETRIES = 2
"""How often a worker that died before claiming its attempt is started again without a record."""


class AttemptLauncher:
    """Starts each queued attempt of a run once, and again if its worker died before claiming it."""

    def __init__(self, store: Store, run: Run, engine: Engine, on_budget_end: Callable[[], None]) -> None:
        """Call `on_budget_end` instead of starting a worker that the budget would end at once."""
        self._store = store
        self._run = run
        self._engine = engine
        self._on_budget_end = on_budget_end
        self._started: Counter[AttemptId] = Counter()
        self._waiting: set[AttemptId] = set()

    async def start_queued(self) -> None:
        """Start a worker for each queued attempt without one; raises OSError if a process cannot be started."""
        # An attempt stays `queued` until its worker has claimed it.
        queued = [each for each in self._store.attempts.queued(self._run.id) if each.id not in self._waiting]
        if self._is_out_of_budget(queued):
            self._on_budget_end()
            return
        for attempt in queued:
            # Another call may have started it while this one awaited a start.
            if attempt.id not in self._waiting:
                self._waiting.add(attempt.id)
                self._started[attempt.id] += 1
                try:
                    await self._engine.start_attempt(attempt)
                except OSError:
                    # The machine may have room for another process later.
                    self._started[attempt.id] -= 1
                    self._waiting.discard(attempt.id)
                    raise

    def _is_out_of_budget(self, queued: Sequence[Attempt]) -> bool:
        # An attempt whose predecessor ended for the budget would end at once. Others may need no model request.
        again = [each for each in queued if each.number > 1]
        if not again or budget_use(self._store, self._run).reached is None:
            return False
        earlier = (self._store.attempts.for_action(each.action_id) for each in again)
        return any(attempts[-2].outcome == "budget" for attempts in earlier if len(attempts) > 1)

    def has_started(self, attempt: Attempt) -> bool:
        """Return whether a worker was started for the open attempt."""
        return attempt.status != "queued" or attempt.id in self._waiting

    def restart_if_unclaimed(self, attempt: Attempt) -> bool:
        """Requeue an attempt whose worker exited before claiming it; False if it was claimed, or no retry is left."""
        if attempt.status != "queued" or self._started[attempt.id] > MAX_STARTUP_RETRIES:
            return False
        self._waiting.discard(attempt.id)
        return True


LAST_WRITES_S = 10.0
"""Seconds that workers have at the end of a run for what follows the end of their attempts."""
OVERTIME_S = 120.0
"""Seconds that a worker has after its deadline to save its work."""
HEARTBEAT_TIMEOUT_S = 60.0
"""Seconds without a heartbeat after which a worker counts as hung."""
FIRST_ACTIONS = 3
"""A run of which so many first actions changed nothing pauses: more of them would only cost more."""
LOOK_GAP_S = 10.0
"""After a longer gap between two looks, the database may have been away, so that heartbeats could not be stored."""


class WorkerExitHandler:
    """Records exits of workers, and stops those that do not end."""

    def __init__(
        self, context: RunContext, run: Run, engine: Engine, launcher: AttemptLauncher, disk: MachineWatch
    ) -> None:
        self._context = context
        self._run = run
        self._engine = engine
        self._launcher = launcher
        self._disk = disk
        self._last_look = -math.inf
        self._looking_since = -math.inf
        """Start of the present series of looks; heartbeats missed before it do not count."""
        self._asked: frozenset[str] = frozenset()
        """The items that were asked at a terminal at the last look."""
        self._unchanged: dict[ActionId, ActionKey] | None = {}
        """The first actions, while each changes nothing; None once one was seen to change something."""
        self._first_seen: dict[AttemptId, float] = {}
        """Monotonic time at which each attempt was first seen, because wall-clock time may jump."""

    async def handle_exit(self, exited: AttemptExit) -> AttemptOutcome | None:
        """Return the outcome of the attempt whose worker exited; None if the attempt starts again or still lands.

        A worker that left its attempt open has crashed; the attempt is released.
        """
        attempt = self._context.store.attempts.get(exited.attempt_id)
        # A worker that died before its claim has done nothing, so the same attempt starts again.
        if attempt is None or self._launcher.restart_if_unclaimed(attempt):
            return None
        if attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            folder = self._context.worktree_of(attempt)
            # Not a shared worktree, in which the next attempt may already work. A submitted candidate has none.
            if not attempt.workspace and (attempt.phase in UNPINNED_PHASES or folder.exists()):
                await rescue_and_remove(self._context, self._run, attempt.id)
            await asyncio.to_thread(remove_temporary_folder, self._context, self._run, name=attempt.id)
            return attempt.outcome
        # We killed an overdue worker; any other one died, because a worker that can end its attempt does.
        outcome: AttemptOutcome = "timeout" if self._is_overdue(attempt) else "lost"
        log_tail = self._context.log_tail(attempt.run_id, attempt.id)
        how = f"the worker exited with {describe_exit_code(exited.code)} in phase {attempt.phase}"
        error = f"{how}. {log_tail}".strip()
        # On a full disk, writing to a mapped file raises a signal, and Python cannot flush its output.
        self._disk.look()
        died = outcome == "lost" and exited.code != FAULT_EXIT_CODE and not self._disk.full
        await release_attempt(self._context, self._run, attempt, outcome=outcome, error=error, died=died)
        return outcome

    async def let_workers_exit(self) -> None:
        """Wait for the workers that have ended their attempts: they still write patches and notes."""
        read = self._context.store.attempts.get
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITES_S):
                while any(found.status == "ended" for each in self._engine.workers if (found := read(each))):
                    await self._engine.next_exit()

    def unchanged_start(self, exited: AttemptExit) -> str:
        """Return which actions changed nothing, if they are the run's first, and too many for a chance; or ""."""
        store = self._context.store
        attempt = store.attempts.get(exited.attempt_id)
        action = store.actions.get(attempt.action_id) if attempt else None
        if self._unchanged is None or attempt is None or action is None:
            return ""
        kind = failure_kind(attempt)
        if kind == "unchanged":
            latest = store.attempts.for_action(action.id)[-2:]
            # An agent may find out what to change only when it is told that nothing was.
            if isinstance(action.state, Failed) or [failure_kind(each) for each in latest] == [kind, kind]:
                self._unchanged[action.id] = action.key
        elif kind != "error" or attempt.phase not in WORKER_PHASES:
            self._unchanged = None
            return ""
        goals = store.goals.for_run(self._run.id)
        if len(self._unchanged) < FIRST_ACTIONS or any(store.actions.tally(each.id).get("completed") for each in goals):
            return ""
        keys = quoted_list([*self._unchanged.values()])
        return f" ({keys}): see what the agent said, or try another model; `scaffold resume` goes on"

    async def end_overdue(self) -> None:
        """Stop workers that are past their deadline or send no heartbeats."""
        now = self._context.clock.monotonic()
        if now - self._last_look > LOOK_GAP_S and self._last_look > -math.inf:
            self._looking_since = now
        for attempt in self._context.store.attempts.open_of_run(self._run.id):
            if attempt.phase in WORKER_PHASES and (self._is_overdue(attempt) or self._is_hung(attempt)):
                await self._engine.stop_attempt(attempt.id, grace_s=STOP_GRACE_S)
        self._last_look = self._context.clock.monotonic()

    def watch_inbox(self) -> bool:
        """Expire overdue inbox items, so that their actions can ask again; return whether more may go on now."""
        store = self._context.store
        asked = asked_items(store, self._run.id)
        overdue = bool(store.inbox.overdue(self._run.id))
        settled = bool(settled_questions(store, self._run))
        if overdue or settled:
            with owner_transaction(store, self._run):
                store.inbox.expire(self._run.id)
                withdraw_settled(store, self._run)
        # A terminal that stops asking, or dies, causes no event.
        changed = overdue or settled or asked != self._asked
        self._asked = asked
        return changed

    def _is_overdue(self, attempt: Attempt) -> bool:
        now = self._context.clock.monotonic()
        action = self._context.store.actions.get(attempt.action_id)
        allowed_s = attempt_timeout_s(self._run, action) if action else 0.0
        ends_at = self._first_seen.setdefault(attempt.id, now) + allowed_s
        return now > max(ends_at, attempt.ends_at or 0.0) + OVERTIME_S

    def _is_hung(self, attempt: Attempt) -> bool:
        return (
            attempt.heartbeat_at is not None
            and self._context.clock.monotonic() - max(attempt.heartbeat_at, self._looking_since) > HEARTBEAT_TIMEOUT_S
        )
