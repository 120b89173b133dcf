"""How an attempt ends without landing, and what that means for its action: the one place that decides it."""

from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId, Commit, GoalId
from scaffold.core.legible import legible
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.states import (
    OWN_FAILURES,
    WORKER_PHASES,
    Failed,
    Outcome,
    Pending,
    status_of,
    waiting_for,
    waits_for,
)
from scaffold.plan.readiness import Node, stranded
from scaffold.store.database import Store


def conclude(
    store: Store,
    run: Run,
    attempt_id: AttemptId,
    outcome: Outcome,
    *,
    error: str,
    head: Commit | None = None,
    fence: int | None = None,
    item: str | None = None,
    for_good: bool = False,
) -> None:
    """End an attempt that did not land and put its action back, or fail it and block what needs it.

    One transaction. `fence` is the attempt's own when its worker ends it; None means that the run's owner does, whose
    lease is checked. Own failures count up to the run's maximum, and beyond it where the action was given another
    approach; a crash, a conflict, a spent budget or a cancellation is nobody's failure. What is `for_good`, like a
    rejection, no further attempt would change. With an `item` of the inbox the action waits for that, unless it was
    decided meanwhile. Raises StaleFence if somebody ended the attempt before, if another process owns the run, and for
    a worker that has handed its candidate in: that one is the owner's.
    """
    reason = legible(error)
    with store.transaction(durable=True):
        if fence is None:
            store.runs.check(run.id, fence=run.fence)
        store.attempts.end(attempt_id, outcome=outcome, error=reason, head_sha=head, fence=fence)
        attempt = _known(store, attempt_id)
        if fence is not None and attempt.phase not in WORKER_PHASES:
            raise StaleFence(f"attempt {attempt_id} has handed its candidate in", "Leave the rest to the run's owner.")
        given_up = _given_up(store, run, attempt, outcome, reason, for_good=for_good)
        if given_up is not None:
            store.actions.move(attempt.action_id, given_up)
            block_stranded(store, _action_of(store, attempt).goal_id)
            return
        store.actions.move(attempt.action_id, Pending())
        if item is not None and store.inbox.is_open(item):
            store.actions.move(attempt.action_id, waiting_for(item))


def _given_up(
    store: Store, run: Run, attempt: Attempt, outcome: Outcome, reason: str, *, for_good: bool
) -> Failed | None:
    """Return the state of an action that has had its last attempt, None if it is to have another."""
    if for_good:
        return Failed(reason)
    spent = store.actions.failures(attempt.action_id)
    most = run.settings.attempts + _action_of(store, attempt).extra_attempts
    if outcome in OWN_FAILURES and spent >= most:
        return Failed(f"{outcome} after {spent} attempts: {reason}")
    return None


def block_stranded(store: Store, goal_id: GoalId) -> None:
    """Block every pending action of the goal that can never become ready now; the caller owns the transaction."""
    nodes = [_node(action) for action in store.actions.of_goal(goal_id)]
    store.actions.block(stranded(nodes, store.facts.holding(goal_id)))


def _node(action: Action) -> Node:
    return Node(
        id=action.id,
        parent_id=action.parent_id,
        preconditions=action.preconditions,
        effects=action.effects,
        status="waiting" if waits_for(action.state) else status_of(action.state),
        kind=action.kind,
    )


def _known(store: Store, attempt_id: AttemptId) -> Attempt:
    attempt = store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    return attempt


def _action_of(store: Store, attempt: Attempt) -> Action:
    action = store.actions.get(attempt.action_id)
    if action is None:
        raise LookupError(attempt.action_id)
    return action
