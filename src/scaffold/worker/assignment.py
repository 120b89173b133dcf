"""What one worker process is to do, read from the store."""

from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId
from scaffold.core.model import Action, Attempt, Goal, Run
from scaffold.store.database import Store


class Assignment(Struct, frozen=True, kw_only=True):
    """An attempt with all it belongs to."""

    run: Run
    goal: Goal
    action: Action
    attempt: Attempt
    prerequisites: tuple[Action, ...]
    """The actions whose effects are this one's preconditions, in plan order."""


def read_assignment(store: Store, attempt_id: AttemptId) -> Assignment:
    """Read everything an attempt needs; raises StaleFence if it is no longer there to be done."""
    attempt = store.attempts.get(attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    goal = store.goals.get(action.goal_id) if action else None
    run = store.runs.get(action.run_id) if action else None
    if attempt is None or action is None or goal is None or run is None or attempt.status != "queued":
        raise StaleFence(f"attempt {attempt_id} is not waiting for a worker", "Nothing to do: somebody else has it.")
    needed = frozenset(action.preconditions)
    before = tuple(each for each in store.actions.of_goal(goal.id) if needed.intersection(each.effects))
    return Assignment(run=run, goal=goal, action=action, attempt=attempt, prerequisites=before)
