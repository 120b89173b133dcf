"""Progress of goals and of a run: what a process that dies again and again has achieved in between."""

import hashlib
from collections.abc import Mapping

from scaffold.core.ids import RunId
from scaffold.core.model import Goal
from scaffold.store.database import Store

ProgressMark = tuple[str, Mapping[str, int], int, int]
"""Progress of a goal: status, number of actions by status, assertions ever shown, its last attempt."""


def progress_mark(store: Store, goal: Goal) -> ProgressMark:
    """Return a value that changes when anything happens in the goal."""
    facts = len(store.facts.of_goal(goal.id))
    return (type(goal.state).__name__, store.actions.tally(goal.id), facts, store.goals.last_slot(goal.id))


NO_PROGRESS = frozenset({None, "lost", "cancelled", "unavailable", "no_access"})


def run_progress(store: Store, run_id: RunId) -> str:
    """Return a text that changes with the progress of the run, whose dead owner has been recovered.

    Attempts that were only lost are no progress: an owner that dies again and again loses some each time. Nor are those
    whose model was away.
    """
    goals = [progress_mark(store, goal)[:3] for goal in store.goals.of_run(run_id)]
    ended = sum(1 for each in store.attempts.of_run(run_id) if each.outcome not in NO_PROGRESS)
    return hashlib.sha256(repr((goals, ended)).encode()).hexdigest()[:16]
