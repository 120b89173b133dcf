"""Keep each active goal supervised, in shared processes that are restarted when they exit."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.events import SupervisorEnded, SupervisorStarted
from scaffold.core.ids import GoalId
from scaffold.core.model import Goal, ProcessIdentity, Run
from scaffold.core.states import Active, Failed, Paused
from scaffold.host.process.child import kill_orphan
from scaffold.host.process_identity import own_identity
from scaffold.host.wake_fifo import has_pending_wake, wake_up
from scaffold.orchestrator.owner.processes.crash_history import MAX_STRIKES, CrashHistory, ProgressMark, progress_mark
from scaffold.orchestrator.owner.processes.engine import STOP_GRACE_S, Engine, SupervisorExit, describe_exit_code
from scaffold.orchestrator.owner.run_end import RETRIED
from scaffold.orchestrator.planning.agent_advice import AgentAdvisor
from scaffold.orchestrator.planning.turn import close_lost_turns
from scaffold.orchestrator.supervisor.goal_process import (
    BUDGET_EXIT_CODE,
    DONE_EXIT_CODE,
    MAX_GOALS,
    NO_ACCESS_EXIT_CODE,
    UNAVAILABLE_EXIT_CODE,
    faulty_goal,
    goal_with_fault,
)
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import FAULT_EXIT_CODE, RunContext

PROBE_INTERVAL_S = 5.0
"""Seconds between the wake-ups that probe whether a process of supervisors responds."""
MAX_UNANSWERED_PROBES = 4
"""How many probes in a row may go unanswered before a process counts as hung."""


class _SupervisorProcess(Struct):
    """A process that supervises some goals, as seen by the owner."""

    goals: tuple[GoalId, ...]
    marks: Mapping[GoalId, ProgressMark]
    """Progress of the goals when the process was started."""
    identity: ProcessIdentity | None = None
    """None until it has started."""
    unheard: int = 0
    """Probes in a row without an answer."""
    stopped: bool = False
    """Whether its owner stopped it, so that its exit is not a crash."""


class SupervisorPool:
    """Starts, wakes and restarts the supervisors of a run, on behalf of its owner."""

    def __init__(self, context: RunContext, run: Run, engine: Engine) -> None:
        self._context = context
        self._run = run
        self._engine = engine
        self._changed = Wakeup()
        self._advisor = AgentAdvisor(context, run)
        self._processes: dict[tuple[GoalId, ...], _SupervisorProcess] = {}
        self._crashes = CrashHistory()
        self._not_before: dict[GoalId, float] = {}
        """Monotonic time from which the goal's next supervisor may start."""
        self._resting: frozenset[GoalId] = frozenset()

    async def keep(self) -> None:
        """Keep every active goal supervised, by as many agents as the plan can use; never returns."""
        while True:
            event = self._changed.next_event()
            self._advisor.refresh()
            due_s = await self._start_missing()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s):
                    await event.wait()

    def check_goals(self) -> None:
        """Look at all goals again, because a status has changed."""
        self._changed.notify_all()

    async def end_unresponsive(self) -> None:
        """Stop each process that no longer reads its wake-ups, so that it is replaced; never returns."""
        # Counts probes, not time, because supervisors are not overdue after the machine was suspended.
        while True:
            for process in tuple(self._processes.values()):
                path = self._fifo_path(process)
                # A live process has read the last probe from the pipe.
                process.unheard = process.unheard + 1 if has_pending_wake(path) else 0
                if process.unheard > MAX_UNANSWERED_PROBES:
                    await self._engine.stop_supervisor(process.goals, grace_s=STOP_GRACE_S)
                wake_up(path)
            await self._context.clock.sleep(PROBE_INTERVAL_S)

    def wake(self, goals: Collection[GoalId]) -> None:
        """Wake the processes that supervise one of the goals."""
        for process in self._processes.values():
            if any(goal in goals for goal in process.goals):
                wake_up(self._fifo_path(process))

    def wake_rested(self) -> bool:
        """Wake the supervisors of goals whose rest has ended since the last call; return whether there were any."""
        was, self._resting = (
            self._resting,
            frozenset(goal.id for goal in self._context.store.goals.resting(self._run.id)),
        )
        self.wake(was - self._resting)
        return bool(was - self._resting)

    async def stop_all(self) -> None:
        """Stop every process of supervisors."""
        for process in tuple(self._processes.values()):
            process.stopped = True
            await self._engine.stop_supervisor(process.goals, grace_s=STOP_GRACE_S)

    def handle_exit(self, exited: SupervisorExit) -> None:
        """Record the exit of a process; fail a goal after too many exits without progress."""
        store, process = self._context.store, self._processes.pop(exited.goals, None)
        if process is not None and process.stopped:
            exited = structs.replace(exited, code=DONE_EXIT_CODE)
        # An open turn counts as running planning, and the run would never pause for a human.
        for goal_id in {turn.goal_id for turn in store.turns.open_of_run(self._run.id)} & set(exited.goals):
            close_lost_turns(store, self._run, goal_id)
        with owner_transaction(store, self._run, durable=True):
            goals = [goal for goal in map(store.goals.get, exited.goals) if goal is not None]
            for goal in goals:
                self._record_end(goal, exited.code)
            self._record_crash([goal for goal in goals if isinstance(goal.state, Active)], exited, process)
        now = self._context.clock.monotonic()
        self._not_before |= {goal.id: now + self._crashes.delay_s(goal.id) for goal in goals}
        self._changed.notify_all()

    def _record_crash(
        self, unfinished: Sequence[Goal], exited: SupervisorExit, process: _SupervisorProcess | None
    ) -> None:
        if not unfinished:
            return
        store, marks = self._context.store, {} if process is None else process.marks
        # Exits with progress in between do not count: a supervisor that dies after each step reaches its goal.
        progressed = [goal.id for goal in unfinished if progress_mark(store, goal) != marks.get(goal.id)]
        names = [goal.id for goal in unfinished]
        faulty = goal_with_fault(exited.goals, exited.code)
        if faulty is not None:
            self._crashes.record_fault(names, faulty, progressed)
        elif exited.code in {BUDGET_EXIT_CODE, UNAVAILABLE_EXIT_CODE, NO_ACCESS_EXIT_CODE, FAULT_EXIT_CODE}:
            self._crashes.record_wait(names, progressed)
        elif exited.code == DONE_EXIT_CODE:
            self._crashes.record_exit(names, progressed)
        else:
            self._crashes.record_crash(names, faulty_goal(exited.goals, exited.code), progressed)
        for goal in unfinished:
            if self._crashes.has_used_up(goal.id):
                store.goals.move(goal.id, Failed(self._no_progress_text(exited)))

    async def _start_missing(self) -> float | None:
        """Start missing supervisors; return the seconds until the next delayed one, None if there is none."""
        goals = [self._activated_if_retried(goal) for goal in self._context.store.goals.for_run(self._run.id)]
        supervised = {goal: process for process in self._processes.values() for goal in process.goals}
        for goal in goals:
            if goal.id in supervised:
                process = supervised[goal.id]
                # A running process starts or ends to supervise a goal when its status changes.
                active = isinstance(goal.state, Active)
                if process.identity is not None and active is (goal.supervisor is None):
                    with owner_transaction(self._context.store, self._run):
                        if active:
                            self._record_start(goal, process.identity)
                        else:
                            self._record_end(goal, DONE_EXIT_CODE)
        missing = [goal for goal in goals if goal.id not in supervised and isinstance(goal.state, Active)]
        now = self._context.clock.monotonic()
        waits = {goal.id: self._not_before.get(goal.id, 0.0) - now for goal in missing}
        for group in self._process_groups(goal for goal in missing if waits[goal.id] <= 0):
            await self._start_group(group)
        return min((wait_s for wait_s in waits.values() if wait_s > 0), default=None)

    def _activated_if_retried(self, goal: Goal) -> Goal:
        if goal.state != Paused(RETRIED):
            return goal
        with owner_transaction(self._context.store, self._run, durable=True):
            self._context.store.goals.move(goal.id, Active())
        self._crashes.forgive(goal.id)
        self._not_before.pop(goal.id, None)
        return self._context.store.goals.get(goal.id) or goal

    def _process_groups(self, goals: Iterable[Goal]) -> Iterator[Sequence[Goal]]:
        shared: list[Goal] = []
        for goal in goals:
            if self._crashes.needs_own_process(goal.id):
                yield (goal,)
            else:
                shared.append(goal)
        for start in range(0, len(shared), MAX_GOALS):
            yield shared[start : start + MAX_GOALS]

    async def _start_group(self, group: Sequence[Goal]) -> None:
        store, goals = self._context.store, tuple(goal.id for goal in group)
        marks = {goal.id: progress_mark(store, goal) for goal in group}
        # Stored before the start awaits, so that a wake-up meanwhile does not start a second one.
        self._processes[goals] = process = _SupervisorProcess(goals, marks)
        try:
            process.identity = await self._engine.start_supervisor(goals)
        finally:
            # If the start failed or was cancelled, the next look starts another one.
            if process.identity is None:
                self._processes.pop(goals, None)
        # It may have exited, and its exit been handled, during the start.
        if self._processes.get(goals) is process:
            with owner_transaction(store, self._run):
                # Read again for the compare-and-set, because the start awaited.
                for goal in filter(None, map(store.goals.get, goals)):
                    self._record_start(goal, process.identity)

    def _record_start(self, goal: Goal, identity: ProcessIdentity) -> None:
        self._context.store.goals.supervise(goal.id, identity, was=goal.supervisor)
        self._context.store.events.append(self._run.id, SupervisorStarted(goal.name, identity.pid))

    def _record_end(self, goal: Goal, code: int) -> None:
        if goal.supervisor is not None:
            self._context.store.goals.supervise(goal.id, None, was=goal.supervisor)
            self._context.store.events.append(self._run.id, SupervisorEnded(goal.name, code))

    def _fifo_path(self, process: _SupervisorProcess) -> Path:
        return self._context.wake_fifo(self._run.id, process.goals[0])

    def _no_progress_text(self, exited: SupervisorExit) -> str:
        log_tail = self._context.log_tail(self._run.id, exited.goals[0])
        last = describe_exit_code(exited.code)
        return f"the supervisor exited {MAX_STRIKES} times in a row without progress (last: {last}). {log_tail}".strip()


async def end_orphaned_supervisors(context: RunContext, run: Run) -> None:
    """Kill the supervisors that a dead owner left, and remove them from the store."""
    store = context.store
    for goal in store.goals.for_run(run.id):
        if goal.supervisor is not None:
            if goal.supervisor != own_identity():
                await kill_orphan(goal.supervisor)
            with owner_transaction(store, run):
                store.goals.supervise(goal.id, None, was=goal.supervisor)
