"""Run the supervisors of some goals as a process or task, with a wake-up FIFO and an exit code."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from scaffold.core.errors import (
    BudgetExceeded,
    GitError,
    ModelAccessDenied,
    ModelUnavailable,
    ScaffoldError,
    StaleFence,
    StoreUnavailable,
)
from scaffold.core.ids import GoalId
from scaffold.core.model import Run
from scaffold.core.states import Active
from scaffold.host.wake_fifo import WakeFifo, wake_up
from scaffold.orchestrator.dispatch import slots_by_goal
from scaffold.orchestrator.supervisor.goal_loop import PlanningAgent, Supervisor
from scaffold.orchestrator.supervisor.wakeup import GoalChanges, Wakeup
from scaffold.run.context import FAULT_EXIT_CODE, RunContext
from scaffold.run.notices import warn

DONE_EXIT_CODE, BUDGET_EXIT_CODE, UNAVAILABLE_EXIT_CODE, NO_ACCESS_EXIT_CODE = 0, 2, 3, 5
"""Exit codes: nothing to do now | budget spent | the model's endpoint is away | it refuses this user.
FAULT_EXIT_CODE: a fault of the machine outside of any goal."""
MAX_GOALS = 16
"""How many goals may share a process: each process costs memory and reads every commit, but a crash ends the turns of
all its goals."""
_FIRST_ERROR_CODE, _FIRST_FAULT_CODE = 32, 64
"""The exit codes of an error, and of a fault of the machine, in the first of the goals."""
MAX_SLEEP_S = 2.0
"""The longest time between two polls of the store for writes without a wake-up."""


def faulty_goal(goals: Sequence[GoalId], code: int) -> GoalId | None:
    """Return the goal whose error ended a process of supervisors; None if the exit code does not say."""
    return _goal_at(goals, code - _FIRST_ERROR_CODE)


def goal_with_fault(goals: Sequence[GoalId], code: int) -> GoalId | None:
    """Return the goal whose fault of the machine ended a process of supervisors; None if the exit code does not say."""
    return _goal_at(goals, code - _FIRST_FAULT_CODE)


def _goal_at(goals: Sequence[GoalId], place: int) -> GoalId | None:
    return goals[place] if 0 <= place < len(goals) else None


async def supervise_goals(
    context: RunContext,
    run: Run,
    goals: Sequence[GoalId],
    planner: PlanningAgent,
    report_error: Callable[[Exception], None],
) -> int:
    """Supervise the goals until none is active, the budget is spent, or the model is away; return the exit code.

    Each goal has a task, and is supervised again if it becomes active again. An error of one goal ends the process: it
    is passed to `report_error`, and `faulty_goal` reads the goal from the exit code.
    """
    group = _SupervisedGoals(context, run, goals, planner)
    try:
        return await group.run(report_error)
    finally:
        wake_up(context.wake_fifo(run.id))


class _SupervisedGoals:
    def __init__(self, context: RunContext, run: Run, goals: Sequence[GoalId], planner: PlanningAgent) -> None:
        self._context = context
        self._run = run
        self._planner = planner
        self._wakeups = {goal: Wakeup() for goal in goals}
        self._active = set(goals)
        self._woken = Wakeup()
        self._all_idle = asyncio.Event()
        self._changes = GoalChanges(context.store, run.id)

    async def run(self, report_error: Callable[[Exception], None]) -> int:
        """Supervise until all goals are idle, and return the exit code; errors of a goal are reported."""
        goals = list(self._wakeups)
        fifo = WakeFifo(self._context.wake_fifo(self._run.id, goals[0]), self._woken.notify_all)
        tasks = [asyncio.create_task(self._supervise_goal(goal)) for goal in goals]
        others = [asyncio.create_task(self._watch_store()), asyncio.create_task(self._all_idle.wait())]
        try:
            done, _ = await asyncio.wait([*tasks, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            fifo.close()
            for task in (*tasks, *others):
                task.cancel()
            await asyncio.wait([*tasks, *others])
        errors = [(place, task.exception()) for place, task in enumerate([*tasks, *others]) if task in done]
        codes = (self._code_of(place, error, report_error) for place, error in errors if error is not None)
        return next(codes, DONE_EXIT_CODE)

    def _code_of(self, place: int, error: BaseException, report_error: Callable[[Exception], None]) -> int:
        # The tasks of the goals come first, then the others.
        ends: tuple[tuple[type[BaseException], int], ...] = (
            (StaleFence, DONE_EXIT_CODE),  # another process owns the run, and starts supervisors of its own
            (BudgetExceeded, BUDGET_EXIT_CODE),
            (ModelAccessDenied, NO_ACCESS_EXIT_CODE),
            (ModelUnavailable, UNAVAILABLE_EXIT_CODE),
            (StoreUnavailable, FAULT_EXIT_CODE),
        )
        for kind, code in ends:
            if isinstance(error, kind):
                return code
        of_goal = place < len(self._wakeups)
        if isinstance(error, GitError | OSError):
            if not of_goal:
                return FAULT_EXIT_CODE
            # The same fault may keep us from storing the notice.
            with contextlib.suppress(ScaffoldError, OSError):
                goal = self._context.store.goals.get([*self._wakeups][place])
                what = error.what if isinstance(error, GitError) else str(error)
                warn(
                    self._context, self._run.id, f"The supervisor of {goal.name if goal else place} tries again: {what}"
                )
            return _FIRST_FAULT_CODE + place
        if not of_goal or not isinstance(error, Exception):
            raise error
        report_error(error)
        return _FIRST_ERROR_CODE + place

    async def _supervise_goal(self, goal_id: GoalId) -> None:
        wakeup, store = self._wakeups[goal_id], self._context.store
        while True:
            tell = partial(wake_up, self._context.wake_fifo(self._run.id))
            await Supervisor(self._context, self._run, goal_id, wakeup, planner=self._planner, tell=tell).run()
            self._active.discard(goal_id)
            if not self._active:
                self._all_idle.set()
            while goal_id not in self._active:
                event = wakeup.next_event()
                goal = store.goals.get(goal_id)
                if goal is not None and isinstance(goal.state, Active):
                    self._active.add(goal_id)
                else:
                    await event.wait()

    async def _watch_store(self) -> None:
        store, called = self._context.store, False
        while True:
            event, seen = self._woken.next_event(), store.data_version()
            changed = self._changes.read().goals
            # Any change may have freed a slot, or made a goal need less than its share. The end of a rest is not a
            # change, so the owner calls then.
            served = slots_by_goal(store, self._run) if (changed or called) and not changed >= {*self._wakeups} else {}
            for goal_id, wakeup in self._wakeups.items():
                if goal_id in changed or goal_id in served:
                    wakeup.notify_all()
            while not event.is_set() and store.data_version() == seen:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(MAX_SLEEP_S):
                        await event.wait()
            called = event.is_set()
