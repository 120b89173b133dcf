"""End, pause or save a run in the store."""

from collections.abc import Mapping
from typing import Literal

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import (
    OTHERS_FIRST,
    WAITS_FOR_HUMAN,
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
    Saved,
    awaited_inbox_id,
)
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.plan.decide import decide
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.notices import asked_items
from scaffold.store.database import Store

FinalGateStatus = Literal["proven", "unproven"] | Failed
"""The result of all gates at the tip: `proven` if they pass, `unproven` if they have not run, Failed if one blocks."""
PauseCause = Literal["stopped", "paused", "limit", "deaths", "held", "unavailable", "unchanged"]
"""Why a run whose goals are not over is paused."""
EndCause = PauseCause | Literal["done", "cancelled", "waiting"]
"""Why this process stopped executing the run.

`limit`: the budget is spent; `unavailable`: the model refuses all requests for good; `unchanged`: its first actions
changed nothing; `held`: the session branch is checked out in a worktree; `waiting`: a human must decide.
"""
PAUSE_REASONS: Mapping[PauseCause, str] = {
    "stopped": "stopped by the user",
    "paused": "paused by the user",
    "limit": "the budget is used up",
    "deaths": "the process that executes it died too often without progress",
    "held": "the session branch is checked out in a worktree",
    "unavailable": "its model accepts no requests",
    "unchanged": "its first actions each ended with nothing changed",
}
NONE_AWAITING: Mapping[AttemptId, str] = {}
NOT_AGREED = "waits for your go-ahead"
"""Why the goals of a saved run are paused."""
RETRIED = "retried"
"""Why a run or a goal that failed is paused after `retry`."""


def unfinished_cause(cause: EndCause) -> PauseCause | Literal["cancelled"]:
    """Return what ends the run if its goals are not over."""
    match cause:
        case "done" | "waiting":  # a human retried a goal, or answered, just when nothing was left to do
            return "paused"
        case other:
            return other


def state_from_goals(store: Store, run_id: RunId) -> Completed | Failed | Cancelled | None:
    """Return the final state that follows from the run's goals; None if one is not over, or there are none yet."""
    # Asked at every wake-up of the owner, so the goals are read only once all have ended.
    goals = () if store.goals.count_unfinished(run_id) else store.goals.for_run(run_id)
    if not goals:
        return None
    reasons = [f"{goal.name}: {goal.state.reason}" for goal in goals if isinstance(goal.state, Failed)]
    if reasons:
        return Failed("; ".join(reasons))
    if all(isinstance(goal.state, Cancelled) for goal in goals):
        return Cancelled()
    return Completed()


def finish_run(
    store: Store,
    run: Run,
    cause: PauseCause | Literal["cancelled"],
    whole: FinalGateStatus = "unproven",
    *,
    why: str = "",
) -> RunState:
    """Move an active run without open attempts to its final state, or cancel or pause it for `cause`; then release it.

    A run with all goals completed is completed only if `whole` is `proven`; while `unproven` it is cancelled or paused.
    `why` is added to the reason of a pause.
    """
    with store.transaction(durable=True):
        # Read in the transaction: a human may retry a goal now, and then the run is not completed.
        state: RunState | None = state_from_goals(store, run.id)
        if isinstance(state, Completed) and whole != "proven":
            state = whole if isinstance(whole, Failed) else None
        if state is None:
            state = Cancelled() if cause == "cancelled" else Paused(PAUSE_REASONS[cause] + why)
        if isinstance(state, Cancelled):
            _cancel_work(store, run)
        if isinstance(state, Paused):
            _pause_goals(store, run, state)
        else:
            store.inbox.withdraw(run.id)
        store.runs.move(run.id, state, fence=run.fence)
        store.runs.release(run.id, fence=run.fence)
    return state


def pause_if_waiting(store: Store, run: Run, awaiting: Mapping[AttemptId, str] = NONE_AWAITING) -> bool:
    """Pause the run, without releasing it, if nothing can happen before a human decides; return whether it was paused.

    `awaiting`: the candidates that wait for an approval, each with its inbox item.
    """
    # Most runs do not wait for a human, and the transaction would take the write lock at every wake-up.
    if not awaiting and not any(store.actions.waiting(goal.id) for goal in store.goals.for_run(run.id)):
        return False
    # A question that is asked at a terminal may be answered at any time.
    if asked_items(store, run.id):
        return False
    # One transaction: a decision is either seen here, or finds the run paused.
    with owner_transaction(store, run, durable=True):
        # An expired item releases its action, which asks again.
        store.inbox.expire(run.id)
        goals = [goal for goal in store.goals.for_run(run.id) if isinstance(goal.state, Active | Paused)]
        # An open attempt may make other actions ready. Checked in the transaction, because supervisors queue attempts
        # at any time.
        open_ones = {each.id for each in store.attempts.open_of_run(run.id)}
        busy = bool(open_ones - awaiting.keys() or store.turns.open_of_run(run.id))
        # A candidate that was approved just now lands next.
        busy = busy or not all(map(store.inbox.is_open, awaiting.values()))
        busy = busy or any(store.actions.ready(goal.id, 1) for goal in store.goals.resting(run.id))
        idle = not busy and not any(decide(read_goal_view(store, run, goal)) for goal in goals)
        if idle and release_others_first(store, run):
            return False
        waiting = idle and (bool(awaiting) or any(store.actions.waiting(goal.id) for goal in goals))
        if waiting:
            awaited = {awaited_inbox_id(action.state) for action in store.actions.for_run(run.id)} - {None}
            open_items = awaited | {*awaiting.values()}
            items = count_of(len(open_items), "item")
            state = Paused(f"{WAITS_FOR_HUMAN}: {items}")
            _pause_goals(store, run, state)
            store.runs.move(run.id, state, fence=run.fence)
    return waiting


def release_others_first(store: Store, run: Run) -> bool:
    """Let actions go on that have used their share of the budget, if no other waits; return whether there were any."""
    actions = store.actions.for_run(run.id)
    if any(awaited_inbox_id(each.state) for each in actions):
        return False
    put_off = [each for each in actions if each.state == OTHERS_FIRST]
    store.actions.move_each(put_off, Pending())
    return bool(put_off)


def can_start(store: Store, run: Run) -> bool:
    """Return whether an active goal can do something now, other than wait for candidates to land."""
    active = [goal for goal in store.goals.for_run(run.id) if isinstance(goal.state, Active)]
    return any(decide(read_goal_view(store, run, goal)) for goal in active)


def hold_run(store: Store, run: Run, reason: str) -> None:
    """Pause a run and its goals without releasing it; a paused run stays as it is."""
    with store.transaction(durable=True):
        now = store.runs.get(run.id)
        if now is not None and not isinstance(now.state, Paused):
            _pause_goals(store, run, Paused(reason))
            store.runs.move(run.id, Paused(reason), fence=run.fence)


def fail_run(store: Store, run: Run, reason: str) -> None:
    """Fail an owned run and its unfinished goals, and release it; `retry` can reopen it."""
    with store.transaction(durable=True):
        store.runs.check(run.id, fence=run.fence)
        for goal in store.goals.for_run(run.id):
            if isinstance(goal.state, Planning | Active | Paused):
                store.goals.move(goal.id, Failed(reason))
        store.runs.move(run.id, Failed(reason), fence=run.fence)
        store.runs.release(run.id, fence=run.fence)


def save_run(context: RunContext, run_id: RunId) -> None:
    """Save a run that the user has not agreed to start, and release it; `resume` with its name starts it.

    A run that was started before stays paused. Raises RunBusy if another live process owns the run.
    """
    run, store = take_over_run(context, run_id), context.store
    with store.transaction(durable=True):
        if isinstance(run.state, Planning | Active):
            _pause_goals(store, run, Paused(f"{NOT_AGREED}: `scaffold resume {run.id}`"))
            store.runs.move(run.id, Saved(), fence=run.fence)
        store.runs.release(run.id, fence=run.fence)


def _pause_goals(store: Store, run: Run, state: Paused) -> None:
    for goal in store.goals.for_run(run.id):
        if isinstance(goal.state, Planning | Active):
            store.goals.move(goal.id, state)


def cancel_run(store: Store, run: Run) -> RunState:
    """Cancel a run and everything open in it; landed work stays landed, candidates stay pinned."""
    state = Cancelled()
    cancel_attempts(store, run)
    with store.transaction(durable=True):
        _cancel_work(store, run)
        store.inbox.withdraw(run.id)
        store.runs.move(run.id, state, fence=run.fence)
        store.runs.release(run.id, fence=run.fence)
    return state


def cancel_attempts(store: Store, run: Run) -> None:
    """Cancel all open attempts of a run that is being cancelled, also those whose candidates wait to land."""
    for attempt in store.attempts.open_of_run(run.id):
        # One transaction each: if this process dies in between, cancelling the run again does the rest.
        end_attempt(store, run, attempt.id, AttemptEnd("cancelled", "the run was cancelled"))


def _cancel_work(store: Store, run: Run) -> None:
    for action in store.actions.for_run(run.id):
        if isinstance(action.state, Pending | Blocked | Running):
            store.actions.move(action.id, Cancelled())
    for goal in store.goals.for_run(run.id):
        if isinstance(goal.state, Planning | Active | Paused):
            store.goals.move(goal.id, Cancelled())
