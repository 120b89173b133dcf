"""The failure ladder in the store: what follows from a failed attempt, decided in the transaction that ends it."""

from collections.abc import Sequence

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import GoalId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.states import COUNTED_FAILURES, WORKER_PHASES, Escalation
from scaffold.plan.failures.escalation import (
    ATTEMPTED,
    ESCALATION_TEXT,
    FailureHistory,
    next_escalation,
)
from scaffold.plan.failures.recurrence import same_failure
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import select
from scaffold.run.attempts.declaration import read_declaration
from scaffold.run.failures.refused_work import summarize_failures
from scaffold.run.failures.stored_fingerprints import attempt_fingerprint
from scaffold.run.failures.telling_failure import failure_kind
from scaffold.run.learning.stores import LearningStores
from scaffold.store.database import Store
from scaffold.verify.contract.review_verdict import is_audit


def attempts_allowed(run: Run, action: Action, attempt: Attempt | None = None) -> int:
    """Return how many failures an action may have, without the attempts granted to it.

    A step of a story that fails fails the story; its agent has had all iterations, and could ask to begin again. Only
    once it has left its worker (the `attempt`), others may have broken it.
    """
    alone = action.method == "story" and (attempt is None or attempt.phase in WORKER_PHASES)
    return 1 if alone else run.settings.limits.attempts


def escalate(store: Store, run: Run, attempt: Attempt, action: Action, *, permanent: bool) -> Escalation | None:
    """Decide and store what follows from an attempt that has ended; None if its end counts as no failure.

    Grants the action a further attempt if that is what follows. The caller owns the transaction.
    """
    if attempt.outcome not in COUNTED_FAILURES and not permanent:
        return None
    fingerprint, counted = attempt_fingerprint(attempt), counted_failures(store, action)
    earlier = [each for each in counted if each.id != attempt.id]
    limit = attempts_allowed(run, action, attempt)
    # Whether a learning fits is asked only where it decides.
    last = len(counted) == limit and not (permanent or action.extra_attempts or action.method == "story")
    history = FailureHistory(
        fingerprints=(*(each.fingerprint for each in earlier), fingerprint),
        limit=limit,
        extra=action.extra_attempts,
        alternatives=sum(each.alternative for each in counted),
        tried=failure_kind(attempt) not in {"unchanged", "error"},
        learning=last and has_new_learning(store, run, attempt, action, fingerprint),
        may_exceed=action.method != "story",
        permanent=permanent,
    )
    left = replans_left(store, run, action.goal_id, failed=True)
    planner = has_planner(store, run, action.goal_id, failed=True)
    found = next_escalation(history, replans_left=left, planner=planner)
    store.attempts.classify(attempt.id, fingerprint=fingerprint, escalation=found)
    if found in ATTEMPTED and len(counted) >= limit + action.extra_attempts:
        store.actions.grant_attempt(action.id)
    # That most failures are followed by another attempt, the run shows anyway.
    if found != "again":
        text = f"{action.key}: {failure_text(attempt, found, same_failure(earlier, fingerprint))}"
        store.events.append(run.id, NoticeRaised("info", text))
    return found


def counted_failures(store: Store, action: Action) -> Sequence[Attempt]:
    """Return the failed attempts that count, oldest first: those since a human last granted attempts."""
    failures = store.actions.failures(action.id)
    counted = [each for each in store.attempts.of_action(action.id) if each.outcome in COUNTED_FAILURES]
    return counted[-failures:] if failures else []


def replans_left(store: Store, run: Run, goal_id: GoalId, *, failed: bool) -> int:
    """Return how often the goal may still be replanned without a new fact; 0 without a planner."""
    if not has_planner(store, run, goal_id, failed=failed):
        return 0
    return max(0, run.settings.limits.replans - store.turns.count_without_progress_of_goal(goal_id, "replan"))


def has_planner(store: Store, run: Run, goal_id: GoalId, *, failed: bool) -> bool:
    """Return whether a planner finds another way for the goal.

    An audit that has `failed` is not replanned: other actions are no audit.
    """
    return run.settings.planning.planner and not (failed and any(map(is_audit, store.actions.of_goal(goal_id))))


def has_new_learning(store: Store, run: Run, attempt: Attempt, action: Action, fingerprint: str) -> bool:
    """Return whether the next attempt would be given a learning about this failure that none before it was given.

    Only learnings of the repository count: those of a user must not decide what a run costs.
    """
    tokens, now = run.settings.learning.tokens, attempt.ended_at or attempt.queued_at
    if not tokens:
        return False
    refused = attempt.verification is not None and not attempt.verification.passed
    shown = summarize_failures(attempt.verification) if attempt.verification and refused else attempt.error or ""
    situation = Situation(shown, read_declaration(store, action).files, fingerprint)
    stores = LearningStores(store, None)
    known = {name for each in store.attempts.of_action(action.id) for name in store.learning_uses.of_attempt(each.id)}
    # A preference fits everything, so it says nothing about this failure.
    found = [each for each in stores.candidates(situation) if each.is_current(now) and not each.preference]
    chosen = select(matches(found, situation), stores.scores(found, now), tokens=tokens)
    return any(each.id not in known for each in chosen.given)


def failure_text(attempt: Attempt, found: Escalation, same: Attempt | None) -> str:
    """Return how an attempt failed, compared with those before it, and what follows."""
    again = f"in the same way as attempt {same.number}" if same else "in a way that is new"
    return f"attempt {attempt.number} failed {again}; {ESCALATION_TEXT[found]}"
