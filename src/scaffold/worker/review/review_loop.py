"""Reviews and audits: the agent changes nothing, and its verdict counts only with citations that can be resolved."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from scaffold.core.conversation import WaitingTurn
from scaffold.core.proof.contract import Verification
from scaffold.core.states import AttemptOutcome
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.failures.refused_work import describe_failed_checks
from scaffold.run.notices import inform
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
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.attempt_record import CandidateReady
from scaffold.worker.task_prompts import task_prompt
from scaffold.worker.workspace.attempt_worktree import rescue_again


class UnusableVerdict(Struct, frozen=True):
    """A verdict that does not count; the reviewer gets `why`."""

    outcome: AttemptOutcome
    """The attempt's outcome if no usable verdict follows."""
    why: str
    usable: Verification | None = None
    """What can be handed in nevertheless if no better one follows; None if nothing can."""


_Examination = Callable[[AttemptContext, str], Awaitable[Verification | AttemptEnd | UnusableVerdict]]


async def run_review(
    context: AttemptContext, agent: WatchedAgent, continued: WaitingTurn | None = None
) -> CandidateReady | AttemptEnd:
    """Run the review until its verdict can be used; a rejection fails the action for good.

    It begins with the turn that is `continued`, if any.
    """
    prompt = continued or with_learnings(context, task_prompt(context.task))
    examine: _Examination = _examine_audit if is_audit(context.task.action) else _examine_review
    context.record.enter("executing")
    unusable, finish = UnusableVerdict("executor_failed", "the tier allows no iterations"), None
    for iteration in range(1, context.task.run.settings.tier.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, NoProgress):
            break
        context.record.answered(finish.text, iteration=iteration)
        context.record.enter("verifying")
        # Before the verdict is examined: the contract's checks must see the base, not what the reviewer changed.
        await _discard_changes(context)
        ending = await examine(context, finish.text)
        if isinstance(ending, Verification):
            return _hand_in(context, ending)
        if isinstance(ending, AttemptEnd):
            return ending
        unusable = ending
        context.record.enter("executing")
        prompt = f"Your verdict cannot be used yet. {unusable.why}\n\nGive it again, at the end of your message."
    if unusable.usable is not None:
        context.record.enter("verifying")
        return _hand_in(context, unusable.usable)
    if isinstance(finish, NoProgress):
        return AttemptEnd(finish.outcome, finish.cause)
    return AttemptEnd(unusable.outcome, f"no usable verdict: {unusable.why}")


async def _examine_review(context: AttemptContext, text: str) -> Verification | AttemptEnd | UnusableVerdict:
    """Return what follows from a review."""
    review = parse_review(text)
    if isinstance(review, str):
        return UnusableVerdict("executor_failed", review)
    base = context.workspace.base
    missing = await unresolved_citations(review, context.run_context.git, base)
    if missing:
        return UnusableVerdict("executor_failed", "\n".join(["These citations do not match the commit:", *missing]))
    # Another attempt would review the same commit again; the work has to change first, and that is another action.
    if review.verdict == "reject":
        return AttemptEnd("gate_failed", f"rejected: {review_text(review)}", permanent=True)
    results = await context.results_at_base(context.task.action.contract)
    verification = approval_verification(review, base, context.run_context.redactor, results)
    if not verification.passed:
        return UnusableVerdict(
            "contract_failed",
            f"You approved, but the contract's checks fail:\n\n{describe_failed_checks(verification)}",
        )
    return verification


async def _examine_audit(context: AttemptContext, text: str) -> Verification | UnusableVerdict:
    """Return an audit as it counts; one with flaws counts, too, if the auditor does not correct them."""
    answer = parse_audit(text)
    if isinstance(answer, str):
        return UnusableVerdict("executor_failed", answer)
    run_context, base = context.run_context, context.workspace.base
    asked = asked_in(context.task.action.acceptance)
    judged = await judged_at(answer, asked, run_context.git, base, specification=context.task.run.request)
    verification = audit_verification(judged.audit, base, run_context.redactor)
    if not judged.complaints:
        return verification
    why = "\n".join(["These verdicts do not count as they are:", *judged.complaints])
    return UnusableVerdict("executor_failed", why, verification)


async def _discard_changes(context: AttemptContext) -> None:
    """Pin any changes the reviewer made and restore the worktree."""
    attempt = context.task.attempt
    if await rescue_again(context.run_context, context.task.run, attempt.id) is None:
        return
    await worktree.restore(context.workspace.git, context.workspace.base)
    text = (
        f"{context.task.action.key}: a review must not change files; its changes are in {refs.rescue_ref(attempt.id)}."
    )
    inform(context.run_context, attempt.run_id, text)


def _hand_in(context: AttemptContext, verification: Verification) -> CandidateReady:
    context.record.hand_in(context.workspace.base, verification)
    return CandidateReady(context.workspace.base)
