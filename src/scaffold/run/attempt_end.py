"""Ends attempts that did not land, and decides the next state of their actions; the only place that does."""

from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId, Commit, GoalId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.core.states import (
    COUNTED_FAILURES,
    WORKER_PHASES,
    AttemptOutcome,
    Failed,
    Pending,
    awaited_inbox_id,
    blocked_on_inbox,
    status_of,
)
from scaffold.plan.graph.readiness import ActionNode, blocked_by_failure
from scaffold.store.database import Store


class AttemptEnd(Struct, frozen=True):
    """How an attempt ended that did not land."""

    outcome: AttemptOutcome
    error: str
    item: str | None = None
    """The inbox item that the action waits for; None if it waits for no human."""
    for_good: bool = False
    """Whether another attempt would be useless, e.g. after a rejection."""


def end_attempt(
    store: Store,
    run: Run,
    attempt_id: AttemptId,
    end: AttemptEnd,
    *,
    head: Commit | None = None,
    fence: int | None = None,
) -> None:
    """End an attempt that did not land; put its action back to pending, or fail it and block its dependants.

    One transaction. `fence` is the attempt's fence if its worker ends it; None if the run's owner does, whose lease is
    checked. Only COUNTED_FAILURES count toward the run's maximum (plus the action's extra attempts); a crash, a
    conflict, a spent budget or a cancellation does not. An end `for_good` fails the action at once. With an inbox item
    the action is blocked on it, unless it was decided meanwhile. Raises StaleFence if the attempt has already ended, if
    another process owns the run, or if a worker has already handed in its candidate.
    """
    reason = utf8_safe(end.error)
    with store.transaction(durable=True):
        if fence is None:
            store.runs.check(run.id, fence=run.fence)
        store.attempts.end(attempt_id, outcome=end.outcome, error=reason, head_sha=head, fence=fence)
        attempt = _require_attempt(store, attempt_id)
        if fence is not None and attempt.phase not in WORKER_PHASES:
            raise StaleFence(f"attempt {attempt_id} has handed in its candidate", "Leave the rest to the run's owner.")
        given_up = _final_failure(store, run, attempt, end)
        if given_up is not None:
            store.actions.move(attempt.action_id, given_up)
            block_unreachable_actions(store, _action_of(store, attempt).goal_id)
            return
        store.actions.move(attempt.action_id, Pending())
        if end.item is not None and store.inbox.is_open(end.item):
            store.actions.move(attempt.action_id, blocked_on_inbox(end.item))


def _final_failure(store: Store, run: Run, attempt: Attempt, end: AttemptEnd) -> Failed | None:
    """Return the failed state of an action without attempts left; None if it gets another."""
    reason = utf8_safe(end.error)
    if end.for_good:
        return Failed(reason)
    spent = store.actions.failures(attempt.action_id)
    most = run.settings.limits.attempts + _action_of(store, attempt).extra_attempts
    if end.outcome in COUNTED_FAILURES and spent >= most:
        return Failed(f"{end.outcome} after {count_of(spent, 'attempt')}: {reason}")
    return None


def block_unreachable_actions(store: Store, goal_id: GoalId) -> None:
    """Block each pending action of the goal that can no longer become ready; the caller owns the transaction."""
    nodes = [_node(action) for action in store.actions.of_goal(goal_id)]
    store.actions.block(blocked_by_failure(nodes, store.facts.holding(goal_id)))


def _node(action: Action) -> ActionNode:
    return ActionNode(
        id=action.id,
        parent_id=action.parent_id,
        preconditions=action.preconditions,
        effects=action.effects,
        status="waiting" if awaited_inbox_id(action.state) else status_of(action.state),
        kind=action.kind,
    )


def _require_attempt(store: Store, attempt_id: AttemptId) -> Attempt:
    attempt = store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    return attempt


def _action_of(store: Store, attempt: Attempt) -> Action:
    action = store.actions.get(attempt.action_id)
    if action is None:
        raise LookupError(attempt.action_id)
    return action
