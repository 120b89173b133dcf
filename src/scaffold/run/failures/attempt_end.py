"""End attempts that did not land, and decide the next state of their actions. No other module ends such an attempt."""

from msgspec import Struct, structs

from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId, Commit, GoalId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import (
    COUNTED_FAILURES,
    OTHERS_FIRST,
    WORKER_PHASES,
    AttemptOutcome,
    Failed,
    Pending,
    blocked_on_inbox,
)
from scaffold.plan.failures.escalation import ATTEMPTED
from scaffold.plan.graph.readiness import action_node, blocked_by_failure
from scaffold.run.failures.ladder import escalate, is_safety_refusal, most_telling
from scaffold.run.failures.worker_losses import LOSSES, is_repeated_loss, record_death, record_loss
from scaffold.store.database import Store


class AttemptEnd(Struct, frozen=True):
    """How an attempt ended that did not land."""

    outcome: AttemptOutcome
    error: str
    item: str | None = None
    """The inbox item that the action waits for; None if it waits for no human."""
    permanent: bool = False
    """Whether another attempt would be useless, e.g. after a rejection."""
    died: bool = False
    """Whether its worker died while the run's owner lived."""
    others_first: bool = False
    """Whether its action goes on only once no other one could."""


def end_attempt(
    store: Store,
    run: Run,
    attempt_id: AttemptId,
    end: AttemptEnd,
    *,
    head: Commit | None = None,
    fence: int | None = None,
) -> None:
    """End an attempt that did not land; its action becomes pending again, blocked on an inbox item, or failed.

    One transaction. An action fails if the end is permanent, or if the failure ladder has no further attempt for it;
    only COUNTED_FAILURES count, not a crash, a conflict, a spent budget or a cancellation.
    If its worker died, its goal rests; if that happens again and again, the action is blocked on a question.
    Its reason names the most telling of these failures. If it fails, every action of the goal that can no longer
    become ready is blocked. Otherwise it is blocked on the inbox item, unless that was decided meanwhile.

    A worker passes its attempt's `fence`: StaleFence if the attempt has already ended or its candidate was handed in.
    The run's owner passes none: StaleFence if another process owns the run.
    """
    with store.transaction(durable=True):
        record_attempt_end(store, run, attempt_id, end, head=head, fence=fence)


def record_attempt_end(
    store: Store,
    run: Run,
    attempt_id: AttemptId,
    end: AttemptEnd,
    *,
    head: Commit | None = None,
    fence: int | None = None,
) -> None:
    """End an attempt as `end_attempt` does, in the caller's transaction."""
    # The check is in the transaction that writes: an owner that was replaced
    # meanwhile must not end its successor's attempt.
    if fence is None:
        store.runs.check(run.id, fence=run.fence)
    store.attempts.end(
        attempt_id, outcome=end.outcome, error=utf8_safe(end.error), head_sha=head, fence=fence, died=end.died
    )
    attempt = require_attempt(store, attempt_id)
    # The raise rolls back the end above: a candidate belongs to the merge queue, whatever happens to its worker.
    if fence is not None and attempt.phase not in WORKER_PHASES:
        raise StaleFence(
            f"attempt {attempt_id} has submitted its candidate", "Exit; the run's owner decides about the candidate."
        )
    # Only what a worker says of itself: that its owner stopped or died says nothing about the next attempt.
    if fence is not None and is_repeated_loss(store, attempt):
        end = structs.replace(end, permanent=True)
    failed = _final_failure(store, run, attempt, end)
    if failed is not None:
        store.actions.move(attempt.action_id, failed)
        block_unreachable_actions(store, _action_of(store, attempt).goal_id)
        return
    store.actions.move(attempt.action_id, Pending())  # an action is blocked from pending only
    if end.others_first:
        store.actions.move(attempt.action_id, OTHERS_FIRST)
    if end.died:
        item = record_death(store, run, attempt)
    else:
        item = record_loss(store, run, attempt) if end.outcome in LOSSES else end.item
    # A decision in the moment before has nothing left to wake the action up, so it must not be blocked any more.
    if item is not None and store.inbox.is_open(item):
        store.actions.move(attempt.action_id, blocked_on_inbox(item))


def _final_failure(store: Store, run: Run, attempt: Attempt, end: AttemptEnd) -> Failed | None:
    escalation = escalate(store, run, attempt, _action_of(store, attempt), permanent=end.permanent)
    if escalation is None or escalation in ATTEMPTED:
        return None
    if end.permanent or is_safety_refusal(attempt):
        return Failed(utf8_safe(end.error))
    # A last timeout says less than the test that failed before it, so the most telling failure is named.
    counted = [each for each in store.attempts.for_action(attempt.action_id) if each.outcome in COUNTED_FAILURES]
    telling = most_telling(counted[-store.actions.failures(attempt.action_id) :])
    return Failed(f"{telling.outcome} in attempt {telling.number} of {attempt.number}: {telling.error or ''}")


def block_unreachable_actions(store: Store, goal_id: GoalId) -> None:
    """Block each pending action of the goal that can no longer become ready; the caller owns the transaction."""
    nodes = [*map(action_node, store.actions.for_goal(goal_id))]
    store.actions.block(blocked_by_failure(nodes, store.facts.holding(goal_id)))


def require_attempt(store: Store, attempt_id: AttemptId) -> Attempt:
    """Return the attempt; LookupError if there is none."""
    attempt = store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    return attempt


def _action_of(store: Store, attempt: Attempt) -> Action:
    action = store.actions.get(attempt.action_id)
    if action is None:
        raise LookupError(attempt.action_id)
    return action
