"""The failure ladder in the store: what follows from a failed attempt, decided in the transaction that ends it."""

from collections.abc import Sequence
from typing import Final, Literal, assert_never

from msgspec import structs

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import GoalId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.proof.contract import Verification
from scaffold.core.states import COUNTED_FAILURES, WORKER_PHASES, Escalation
from scaffold.plan.failures.escalation import ATTEMPTED, ESCALATION_TEXT, FailureHistory, next_escalation
from scaffold.plan.failures.fingerprint import ShownFailure, failure_fingerprint
from scaffold.plan.failures.recurrence import same_failure
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import select
from scaffold.run.attempts.assignment import read_declaration
from scaffold.run.failures.refused_work import refusals_of, summarize_failures
from scaffold.run.learning.stores import LearningStores
from scaffold.store.database import Store
from scaffold.verify.contract.review_verdict import is_audit

FailureKind = Literal["named", "refused", "unimproved", "unchanged", "timeout", "error"]
"""How an attempt failed: refused with the names of tests, files or facts | refused by a check | the agent changed
nothing after its work was refused | it changed nothing at all | out of time | an error of its agent or provider."""
MOST_TELLING_FIRST: Sequence[FailureKind] = ("named", "refused", "unimproved", "unchanged", "timeout", "error")
AGENT_SAID: Final = "\nThe agent said: "
"""Separates why an attempt that changed nothing ended from the words of its agent, which differ each time."""


def attempts_allowed(run: Run, action: Action, attempt: Attempt | None = None) -> int:
    """Return the failures an action may have, granted attempts not counted.

    A step of a story that fails fails the story; its agent has had all iterations, and could ask to begin again. Only
    once it has left its worker (the `attempt`), others may have broken it.
    """
    alone = action.method == "story" and (attempt is None or attempt.phase in WORKER_PHASES)
    return 1 if alone else run.settings.limits.attempts


def is_safety_refusal(attempt: Attempt) -> bool:
    """Return whether the work of the ended attempt changed what its task may not, which is for a human to allow."""
    return attempt.verification is not None and attempt.verification.is_safety_refusal


def escalate(store: Store, run: Run, attempt: Attempt, action: Action, *, permanent: bool) -> Escalation | None:
    """Decide and store what follows from an attempt that has ended; None if its end counts as no failure.

    Grants the action a further attempt if that is what follows. The caller owns the transaction.
    """
    if attempt.outcome not in COUNTED_FAILURES and not permanent:
        return None
    fingerprint, counted = attempt_fingerprint(attempt), counted_failures(store, action)
    earlier = [each for each in counted if each.id != attempt.id]
    limit = attempts_allowed(run, action, attempt)
    # Asked only where it decides: it reads every learning of the repository.
    last = len(counted) == limit and not (
        permanent or is_safety_refusal(attempt) or action.extra_attempts or action.method == "story"
    )
    history = FailureHistory(
        fingerprints=(*(each.fingerprint for each in earlier), fingerprint),
        limit=limit,
        extra=action.extra_attempts,
        alternatives=sum(each.alternative for each in counted),
        tried=failure_kind(attempt) not in {"unchanged", "error"},
        learning=last and has_new_learning(store, run, attempt, action, fingerprint),
        may_exceed=action.method != "story",
        permanent=permanent,
        refused=is_safety_refusal(attempt),
    )
    left = replans_left(store, run, action.goal_id, failed=True)
    planner = has_planner(store, run, action.goal_id, failed=True)
    found = next_escalation(history, replans_left=left, planner=planner)
    store.attempts.classify(attempt.id, fingerprint=fingerprint, escalation=found)
    if found in ATTEMPTED and len(counted) >= limit + action.extra_attempts:
        store.actions.grant_attempt(action.id)
    # The run shows retries anyway, so they get no event.
    if found != "again":
        text = f"{action.key}: {failure_text(attempt, found, same_failure(earlier, fingerprint))}"
        store.events.append(run.id, NoticeRaised("info", text))
    return found


def counted_failures(store: Store, action: Action) -> Sequence[Attempt]:
    """Return the failed attempts that count, oldest first: those since a human last granted attempts."""
    failures = store.actions.failures(action.id)
    counted = [each for each in store.attempts.for_action(action.id) if each.outcome in COUNTED_FAILURES]
    return counted[-failures:] if failures else []


def replans_left(store: Store, run: Run, goal_id: GoalId, *, failed: bool) -> int:
    """Return the replans left to the goal until a new fact; 0 without a planner."""
    if not has_planner(store, run, goal_id, failed=failed):
        return 0
    return max(0, run.settings.limits.replans - store.turns.count_without_progress_of_goal(goal_id, "replan"))


def has_planner(store: Store, run: Run, goal_id: GoalId, *, failed: bool) -> bool:
    """Return whether a planner finds another way for the goal.

    An audit that has `failed` is not replanned: other actions are no audit.
    """
    return run.settings.planning.planner and not (failed and any(map(is_audit, store.actions.for_goal(goal_id))))


def has_new_learning(store: Store, run: Run, attempt: Attempt, action: Action, fingerprint: str) -> bool:
    """Return whether the next attempt would be given a learning about this failure that none before it was given.

    Only the repository's learnings count: a user's must not decide what a run costs.
    """
    tokens, now = run.settings.learning.tokens, attempt.ended_at or attempt.queued_at
    if not tokens:
        return False
    refused = attempt.verification is not None and not attempt.verification.passed
    shown = summarize_failures(attempt.verification) if attempt.verification and refused else attempt.error or ""
    situation = Situation(shown, read_declaration(store, action).files, fingerprint)
    stores = LearningStores(store, None)
    known = {name for each in store.attempts.for_action(action.id) for name in store.learning_uses.for_attempt(each.id)}
    # A preference fits everything, so it says nothing about this failure.
    found = [each for each in stores.candidates(situation) if each.is_current(now) and not each.preference]
    chosen = select(matches(found, situation), stores.scores(found, now), tokens=tokens)
    return any(each.id not in known for each in chosen.given)


def failure_text(attempt: Attempt, found: Escalation, same: Attempt | None) -> str:
    """Return a sentence: how the attempt failed compared with earlier ones, and what follows."""
    again = f"in the same way as attempt {same.number}" if same else "in a new way"
    return f"attempt {attempt.number} failed {again}; {ESCALATION_TEXT[found]}"


def verification_fingerprint(verification: Verification) -> str:
    """Return the fingerprint of why work is refused; empty for work that passed."""
    gates = refusals_of(structs.replace(verification, results=()))
    # The name of the check is not its output, so no program of an agent can pass for the failure of another check.
    by_checks = [ShownFailure(f"{each.name} {each.verdict}", each.detail) for each in verification.failures]
    by_gates = [ShownFailure(each.what.partition("\n")[0], "\n".join((*each.items, each.output))) for each in gates]
    return failure_fingerprint(*by_checks, *by_gates)


def attempt_fingerprint(attempt: Attempt) -> str:
    """Return the fingerprint of how an ended attempt failed: of what refused its work, else of its error."""
    if attempt.verification is not None and not attempt.verification.passed:
        return verification_fingerprint(attempt.verification)
    error = (attempt.error or "").partition(AGENT_SAID)[0]
    return failure_fingerprint(ShownFailure(attempt.outcome or "", error)) if error else ""


def most_telling(attempts: Sequence[Attempt]) -> Attempt:
    """Return the attempt whose failure says most about the work; the latest of those that say the same.

    There must be at least one.
    """
    return min(reversed(attempts), key=lambda each: MOST_TELLING_FIRST.index(failure_kind(each)))


def failure_kind(attempt: Attempt) -> FailureKind:
    """Return the kind of an ended attempt's failure; `error` for outcomes that do not judge the work."""
    match attempt.outcome:
        case "contract_failed" | "gate_failed":
            return _refusal_kind(attempt)
        case "rejected":
            return "named"
        case "timeout":
            return "timeout"
        case (
            "executor_failed"
            | "conflict"
            | "budget"
            | "cancelled"
            | "lost"
            | "unavailable"
            | "no_access"
            | "waiting"
            | "landed"
            | "recorded"
            | "restarted"
            | None
        ):
            return "error"
        case _:
            assert_never(attempt.outcome)


def _refusal_kind(attempt: Attempt) -> FailureKind:
    # A candidate had passed before; what refused it there names what it broke.
    if attempt.phase not in WORKER_PHASES:
        return "named"
    if attempt.verification is None or attempt.verification.passed:
        return "unchanged"
    # Work is checked in a later phase: an attempt that ends while its agent works did not change what was refused.
    if attempt.phase == "executing":
        return "unimproved"
    # A failed command tells only its output, which says less than a test, a finding or a path.
    names_something = any(gate.tests for gate in attempt.verification.broken_gates) or any(
        result.exit_code is None and result.verdict == "fail" for result in attempt.verification.failures
    )
    return "named" if names_something else "refused"
