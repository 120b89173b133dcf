"""Reviews and audits: the agent changes nothing, and its verdict counts only with citations that can be resolved."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from scaffold.core.conversation import KeptTurn
from scaffold.core.proof.contract import Verification
from scaffold.core.states import AttemptOutcome
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.failures.refused_work import describe_failed_checks
from scaffold.verify.contract.review_verdict import (
    approval_verification,
    asked_in,
    audit_verification,
    is_audit,
    judged_at,
    parse_audit,
    parse_review,
    review_text,
    unresolved_citations,
)
from scaffold.worker.agent.prompt_learnings import with_learnings
from scaffold.worker.agent.watchdog import NoProgress, WatchedAgent
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.task_prompts import task_prompt
from scaffold.worker.workspace.attempt_worktree import rescue_again
from scaffold.worker.workspace.workplace import Workplace


class UnusableVerdict(Struct, frozen=True):
    """A verdict that does not count; the reviewer gets `why`."""

    outcome: AttemptOutcome
    """The attempt's outcome if no usable verdict follows."""
    why: str
    usable: Verification | None = None
    """What can be handed in nevertheless if no better one follows; None if nothing can."""


_Examination = Callable[[Workplace, AttemptRecords, str], Awaitable[Verification | AttemptEnd | UnusableVerdict]]


async def run_review(
    place: Workplace, records: AttemptRecords, agent: WatchedAgent, continued: KeptTurn | None
) -> CandidateReady | AttemptEnd:
    """Run the review until its verdict can be used; a rejection fails the action for good.

    It begins with the turn that is `continued`, if any.
    """
    prompt = continued or with_learnings(records, task_prompt(records.task))
    examine: _Examination = _examine_audit if is_audit(records.task.action) else _examine_review
    records.enter("executing")
    unusable, finish = UnusableVerdict("executor_failed", "the tier allows no iterations"), None
    for iteration in range(1, records.task.run.settings.tier.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, NoProgress):
            break
        records.answered(finish.text, iteration=iteration)
        records.enter("verifying")
        # Before the verdict is examined: the contract's checks must see the base, not what the reviewer changed.
        await _discard_changes(place, records)
        ending = await examine(place, records, finish.text)
        if isinstance(ending, Verification):
            return _hand_in(place, records, ending)
        if isinstance(ending, AttemptEnd):
            return ending
        unusable = ending
        records.enter("executing")
        prompt = f"Your verdict cannot be used yet. {unusable.why}\n\nGive it again, at the end of your message."
    if unusable.usable is not None:
        records.enter("verifying")
        return _hand_in(place, records, unusable.usable)
    if isinstance(finish, NoProgress):
        return AttemptEnd(finish.outcome, finish.cause)
    return AttemptEnd(unusable.outcome, f"no usable verdict: {unusable.why}")


async def _examine_review(
    place: Workplace, records: AttemptRecords, text: str
) -> Verification | AttemptEnd | UnusableVerdict:
    review = parse_review(text)
    if isinstance(review, str):
        return UnusableVerdict("executor_failed", review)
    base = place.workspace.base
    missing = await unresolved_citations(review, records.run_context.git, base)
    if missing:
        return UnusableVerdict("executor_failed", "\n".join(["These citations do not match the commit:", *missing]))
    # Another attempt would review the same commit again; the work has to change first, and that is another action.
    if review.verdict == "reject":
        return AttemptEnd("gate_failed", f"rejected: {review_text(review)}", permanent=True)
    results = await place.results_at_base(records.task.action.contract)
    verification = approval_verification(review, base, records.redactor, results)
    if not verification.passed:
        return UnusableVerdict(
            "contract_failed",
            f"You approved, but the contract's checks fail:\n\n{describe_failed_checks(verification)}",
        )
    return verification


async def _examine_audit(place: Workplace, records: AttemptRecords, text: str) -> Verification | UnusableVerdict:
    # An audit with flaws counts if the auditor does not correct them: its sound verdicts are worth having.
    answer = parse_audit(text)
    if isinstance(answer, str):
        return UnusableVerdict("executor_failed", answer)
    run_context, base = records.run_context, place.workspace.base
    asked = asked_in(records.task.action.acceptance)
    judged = await judged_at(answer, asked, run_context.git, base, specification=records.task.run.request)
    verification = audit_verification(judged.audit, base, run_context.redactor)
    if not judged.complaints:
        return verification
    why = "\n".join(["These verdicts do not count as they are:", *judged.complaints])
    return UnusableVerdict("executor_failed", why, verification)


async def _discard_changes(place: Workplace, records: AttemptRecords) -> None:
    # Pinned first: a reviewer's change may be what the user wants to see.
    attempt = records.task.attempt
    if await rescue_again(records.run_context, records.task.run, attempt.id) is None:
        return
    await worktree.restore(place.workspace.git, place.workspace.base)
    text = (
        f"{records.task.action.key}: a review must not change files; its changes are in {refs.rescue_ref(attempt.id)}."
    )
    records.inform(text)


def _hand_in(place: Workplace, records: AttemptRecords, verification: Verification) -> CandidateReady:
    records.hand_in(place.workspace.base, verification)
    return CandidateReady(place.workspace.base)
