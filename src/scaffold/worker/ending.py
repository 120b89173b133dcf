"""How an attempt ends without landing, and what that means for its action: the one place that decides it."""

from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.states import OWN_FAILURES, Failed, Outcome, Pending, status_of
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
) -> None:
    """End an attempt that did not land and put its action back, or fail it and block what needs it.

    One transaction. Own failures count up to the run's maximum; a crash, a conflict, a spent budget or a
    cancellation is nobody's failure. Raises StaleFence if somebody ended the attempt before.
    """
    with store.transaction(durable=True):
        store.attempts.end(attempt_id, outcome=outcome, error=error, head_sha=head, fence=fence)
        attempt = _known(store, attempt_id)
        spent = store.actions.failures(attempt.action_id)
        if outcome in OWN_FAILURES and spent >= run.settings.attempts:
            store.actions.move(attempt.action_id, Failed(f"{outcome} after {spent} attempts: {error}"))
            block_stranded(store, attempt.action_id)
        else:
            store.actions.move(attempt.action_id, Pending())


def block_stranded(store: Store, failed: ActionId) -> None:
    """Block every pending action of the goal that can never become ready now; the caller owns the transaction."""
    action = store.actions.get(failed)
    if action is None:
        return
    nodes = [node(each) for each in store.actions.of_goal(action.goal_id)]
    store.actions.block(stranded(nodes, store.facts.holding(action.goal_id)))


def node(action: Action) -> Node:
    """Return what the planner needs to know of a stored action."""
    return Node(
        id=action.id,
        parent_id=action.parent_id,
        preconditions=action.preconditions,
        effects=action.effects,
        status=status_of(action.state),
        kind=action.kind,
    )


def _known(store: Store, attempt_id: AttemptId) -> Attempt:
    attempt = store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    return attempt
