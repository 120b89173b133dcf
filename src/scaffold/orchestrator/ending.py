"""How a run ends or is put down, in the store."""

from collections.abc import Mapping
from typing import Literal

from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.core.states import (
    Active,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Pending,
    Planning,
    Running,
    RunState,
    waits_for,
)
from scaffold.store.database import Store
from scaffold.worker.ending import conclude

Whole = Literal["proven", "unproven"] | Failed
"""What is known of the whole: the gates hold at the tip, nobody has asked them, or they do not."""

PAUSE_REASONS: Mapping[str, str] = {
    "saved": "waits for your go-ahead",
    "stopped": "stopped by the user",
    "paused": "paused by the user",
    "limit": "the budget is used up",
    "held": "the session branch is checked out in a worktree",
}


def goals_verdict(store: Store, run_id: RunId) -> Completed | Failed | Cancelled | None:
    """Return the state a run has earned by its goals; None while one of them can still go on, or none is laid out."""
    goals = store.goals.of_run(run_id)
    if not goals or any(isinstance(goal.state, Planning | Active | Paused) for goal in goals):
        return None
    reasons = [f"{goal.name}: {goal.state.reason}" for goal in goals if isinstance(goal.state, Failed)]
    if reasons:
        return Failed("; ".join(reasons))
    if all(isinstance(goal.state, Cancelled) for goal in goals):
        return Cancelled()
    return Completed()


def finish(store: Store, run: Run, cause: str, whole: Whole = "unproven") -> RunState:
    """Give an active run the state it has earned, else pause it for `cause`, and let go of it.

    Where all goals are complete, the whole has to be proven as well: a run of which that is not known is paused.
    """
    with store.transaction(durable=True):
        state = _earned(goals_verdict(store, run.id), whole) or Paused(PAUSE_REASONS[cause])
        if isinstance(state, Paused):
            _pause_goals(store, run, state)
        else:
            store.inbox.withdraw(run.id)
        store.runs.move(run.id, state, fence=run.fence)
        store.runs.release(run.id, fence=run.fence)
    return state


def _earned(verdict: Completed | Failed | Cancelled | None, whole: Whole) -> Completed | Failed | Cancelled | None:
    if not isinstance(verdict, Completed) or whole == "proven":
        return verdict
    return whole if isinstance(whole, Failed) else None


def pause_for_human(store: Store, run: Run) -> None:
    """Pause an active run whose actions all wait for a human, but keep hold of it; the caller owns the transaction.

    Whoever decides later finds it paused, and nobody who decided before is overheard.
    """
    waited_for = {waits_for(action.state) for action in store.actions.of_run(run.id)} - {None}
    items = f"{len(waited_for)} item{'s' * (len(waited_for) != 1)}"
    state = Paused(f"waits for a human: {items}")
    _pause_goals(store, run, state)
    store.runs.move(run.id, state, fence=run.fence)


def fail(store: Store, run: Run, reason: str) -> None:
    """Fail an owned run that cannot go on, with every goal that could, and let go of it; `retry` gives it a chance."""
    with store.transaction(durable=True):
        store.runs.check(run.id, fence=run.fence)
        for goal in store.goals.of_run(run.id):
            if isinstance(goal.state, Planning | Active | Paused):
                store.goals.move(goal.id, Failed(reason))
        store.runs.move(run.id, Failed(reason), fence=run.fence)
        store.runs.release(run.id, fence=run.fence)


def save(store: Store, run: Run) -> None:
    """Put a run down before it has begun: `resume` starts it."""
    state = Paused(PAUSE_REASONS["saved"])
    with store.transaction(durable=True):
        _pause_goals(store, run, state)
        store.runs.move(run.id, state)


def _pause_goals(store: Store, run: Run, state: Paused) -> None:
    for goal in store.goals.of_run(run.id):
        if isinstance(goal.state, Planning | Active):
            store.goals.move(goal.id, state)


def finish_cancelled(store: Store, run: Run) -> RunState:
    """End a run for good: what is open is cancelled, what landed stays landed, what waited to land stays pinned."""
    state = Cancelled()
    for attempt in store.attempts.open_of_run(run.id):
        conclude(store, run, attempt.id, "cancelled", error="the run was cancelled")
    with store.transaction(durable=True):
        for action in store.actions.of_run(run.id):
            if isinstance(action.state, Pending | Blocked | Running):
                store.actions.move(action.id, state)
        for goal in store.goals.of_run(run.id):
            if isinstance(goal.state, Planning | Active | Paused):
                store.goals.move(goal.id, state)
        store.inbox.withdraw(run.id)
        store.runs.move(run.id, state, fence=run.fence)
        store.runs.release(run.id, fence=run.fence)
    return state
