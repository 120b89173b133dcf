"""Which goals crash their supervisors, and what was achieved between two crashes."""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Goal
from scaffold.store.database import Store

MAX_STRIKES = 6
"""How many exits in a row without progress in its goal fail it: five supervisors replace the first one."""
MAX_SHARED_CRASHES = 1
"""How many crashes a goal may have caused and still share a process with others."""


# A supervisor that exits after progress is replaced at once.
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds before the next supervisor starts, by the number of exits without progress."""
MAX_FAULTS = 40
"""How many faults of the machine in a row a goal's supervisors may meet before the goal fails: about half an hour."""
MAX_SHARED_FAULTS = 1
"""How many of them in a row a goal may meet and still share a process with others."""
FAULT_BACKOFF_S = (0.0, 0.1, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before the next supervisor starts, by the number of faults in a row."""


class _GoalHistory(Struct):
    """The exits of the supervisors of one goal."""

    exits: int = 0
    """Exits in a row without progress, whichever goal caused them."""
    strikes: int = 0
    """Exits in a row without progress that count against the goal."""
    crashes: int = 0
    """Crashes that the goal caused."""
    faults: int = 0
    """Faults of the machine in a row."""


class CrashHistory:
    """The crashes of a run's supervisors since its owner started.

    If the exit of a shared process does not say which goal crashed it, one goal after another gets a process of its
    own: if that crashes, the culprit is known; if the others crash again, it is the next goal's turn.
    """

    def __init__(self) -> None:
        self._goals: dict[GoalId, _GoalHistory] = {}
        self._suspect: GoalId | None = None
        self._cleared: set[GoalId] = set()

    def record_crash(self, goals: Sequence[GoalId], faulty: GoalId | None, progressed: Collection[GoalId]) -> None:
        """Record that the process of these unfinished goals crashed because of `faulty`; None if that is unknown.

        `progressed`: those with progress since the process started.
        """
        self._count_exits(goals, progressed)
        culprit = goals[0] if len(goals) == 1 else faulty
        if culprit is None:
            if self._cleared.issuperset(goals):
                self._cleared.clear()
            self._suspect = next(goal for goal in goals if goal not in self._cleared)
            self._cleared.add(self._suspect)
            return
        history = self._history_of(culprit)
        history.crashes += 1
        history.strikes = 0 if culprit in progressed else history.strikes + 1
        self._suspect = None
        self._cleared.clear()

    def record_exit(self, goals: Sequence[GoalId], progressed: Collection[GoalId]) -> None:
        """Record that the process of these unfinished goals just exited, which counts against each of them."""
        self._count_exits(goals, progressed)
        for goal in goals:
            history = self._history_of(goal)
            history.strikes = 0 if goal in progressed else history.strikes + 1

    def record_wait(self, goals: Sequence[GoalId], progressed: Collection[GoalId]) -> None:
        """Record that the process of these unfinished goals exited in order to wait, which counts against none."""
        self._count_exits(goals, progressed)

    def record_fault(self, goals: Sequence[GoalId], met_by: GoalId, progressed: Collection[GoalId]) -> None:
        """Record that the process of these unfinished goals exited because `met_by` had a fault of the machine."""
        self._count_exits(goals, progressed)
        self._history_of(met_by).faults += 1

    def forgive(self, goal: GoalId) -> None:
        """Forget the goal's exits, because a human retries it."""
        self._goals.pop(goal, None)

    def needs_own_process(self, goal: GoalId) -> bool:
        """Return whether the goal must not share a process now."""
        history = self._history_of(goal)
        faulty = history.crashes > MAX_SHARED_CRASHES or history.faults > MAX_SHARED_FAULTS
        return goal == self._suspect or history.strikes > 0 or faulty

    def has_used_up(self, goal: GoalId) -> bool:
        """Return whether the goal's supervisors have exited too often without progress."""
        history = self._history_of(goal)
        return history.strikes >= MAX_STRIKES or history.faults >= MAX_FAULTS

    def delay_s(self, goal: GoalId) -> float:
        """Return the seconds before the goal's next supervisor may start."""
        history = self._history_of(goal)
        return max(_backoff_s(BACKOFF_S, history.exits), _backoff_s(FAULT_BACKOFF_S, history.faults))

    def _history_of(self, goal: GoalId) -> _GoalHistory:
        return self._goals.setdefault(goal, _GoalHistory())

    def _count_exits(self, goals: Sequence[GoalId], progressed: Collection[GoalId]) -> None:
        for goal in goals:
            history = self._history_of(goal)
            history.exits = 0 if goal in progressed else history.exits + 1
            if goal in progressed:
                history.faults = 0


def _backoff_s(pauses: Sequence[float], count: int) -> float:
    return pauses[min(count, len(pauses) - 1)]


ProgressMark = tuple[str, Mapping[str, int], int, int]
"""Progress of a goal: status, number of actions by status, number of facts, last slot."""
NO_PROGRESS = frozenset({None, "lost", "cancelled", "unavailable", "no_access"})


def progress_mark(store: Store, goal: Goal) -> ProgressMark:
    """Return a value that changes when anything happens in the goal."""
    facts = len(store.facts.for_goal(goal.id))
    return (type(goal.state).__name__, store.actions.tally(goal.id), facts, store.goals.last_slot(goal.id))


def run_progress(store: Store, run_id: RunId) -> str:
    """Return a text that changes with the progress of a run whose dead owner has been recovered."""
    # Lost attempts are not progress: an owner that dies again and again loses some each time.
    goals = [progress_mark(store, goal)[:3] for goal in store.goals.for_run(run_id)]
    ended = sum(1 for each in store.attempts.for_run(run_id) if each.outcome not in NO_PROGRESS)
    return hashlib.sha256(repr((goals, ended)).encode()).hexdigest()[:16]
