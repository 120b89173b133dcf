"""Reopen failed work so that `resume` continues it. The caller owns each transaction."""

from scaffold.core.errors import UsageError
from scaffold.core.ids import ActionId, GoalId, RunId
from scaffold.core.model import Goal
from scaffold.core.states import Cancelled, Completed, Failed, Paused, Pending, status_of
from scaffold.orchestrator.owner.run_end import RETRIED
from scaffold.run.failures.attempt_end import block_unreachable_actions
from scaffold.store.database import Store


def retry_failed_goal(store: Store, run_id: RunId, goal: Goal) -> None:
    """Reopen a failed goal and all its failed actions."""
    for action in store.actions.for_goal(goal.id):
        reopen_failed(store, action.id)
    reopen_goal(store, run_id, goal.id)


def reopen_failed(store: Store, action_id: ActionId) -> None:
    """Set a failed action back to pending, with its failed descendants and the failed compounds above it."""
    action = store.actions.get(action_id)
    if action is None or not isinstance(action.state, Failed):
        return
    store.actions.reset_failures(action_id)
    store.actions.move(action_id, Pending())
    # A failed compound fails its children, and may have failed its parent.
    for child in store.actions.children(action_id):
        reopen_failed(store, child.id)
    if action.parent_id is not None:
        reopen_failed(store, action.parent_id)


def reopen_goal(store: Store, run_id: RunId, goal_id: GoalId) -> None:
    """Pause a failed goal and its run so that `resume` continues them; reset the turn limits and unblock actions.

    Raises UsageError if the goal or the run is completed or cancelled.
    """
    goal, run = store.goals.get(goal_id), store.runs.get(run_id)
    if goal is None or run is None:
        raise LookupError(goal_id)
    for state, name in ((run.state, f"run {run_id}"), (goal.state, f"the goal `{goal.name}`")):
        if isinstance(state, Completed | Cancelled):
            raise UsageError(f"{name} is {status_of(state)}: nothing in it can be retried", "Start a new run.")
    # Otherwise the goal would fail again at once, because the limits count turns since the last new fact.
    store.turns.reset_progress_count(goal_id)
    # Another failed action may remain, so actions that still cannot be reached are blocked again.
    store.actions.unblock(goal_id)
    block_unreachable_actions(store, goal_id)
    if isinstance(goal.state, Failed):
        store.goals.move(goal_id, Paused(RETRIED))
    if isinstance(run.state, Failed):
        store.runs.move(run_id, Paused(RETRIED))
