"""Reviews: the agent changes nothing, and its verdict counts only with citations that can be resolved."""

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.conversation import WaitingTurn
from scaffold.core.review import Review
from scaffold.core.states import AttemptOutcome
from scaffold.git import refs, worktree
from scaffold.run.attempt_end import AttemptEnd
from scaffold.run.failure_summary import describe_failed_checks
from scaffold.run.notices import inform
from scaffold.verify.contract.review import approval_verification, parse_review, review_text, unresolved_citations
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.attempt_record import CandidateReady
from scaffold.worker.prompts import task_prompt
from scaffold.worker.watchdog import NoProgress, WatchedAgent
from scaffold.worker.workspace import rescue_again


class UnusableVerdict(Struct, frozen=True):
    """A verdict that does not count; the reviewer gets `why`."""

    outcome: AttemptOutcome
    """The attempt's outcome if no usable verdict follows."""
    why: str


async def run_review(
    context: AttemptContext, agent: WatchedAgent, continued: WaitingTurn | None = None
) -> CandidateReady | AttemptEnd:
    """Run the review until its verdict can be used; a rejection fails the action for good.

    It begins with the turn that is `continued`, if any.
    """
    prompt = continued or task_prompt(context.task)
    context.record.enter("executing")
    unusable = UnusableVerdict("executor_failed", "the tier allows no iterations")
    for iteration in range(1, context.task.run.settings.tier.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, NoProgress):
            return context.end_without_progress(finish)
        context.record.answered(finish.text, iteration=iteration)
        context.record.enter("verifying")
        # Before the verdict is examined: the contract's checks must see the base, not what the reviewer changed.
        await _discard_changes(context)
        ending = await _examine(context, parse_review(finish.text))
        if not isinstance(ending, UnusableVerdict):
            return ending
        unusable = ending
        context.record.enter("executing")
        prompt = f"Your verdict cannot be used yet. {unusable.why}\n\nGive it again, at the end of your message."
    return AttemptEnd(unusable.outcome, f"no usable verdict: {unusable.why}")


async def _examine(context: AttemptContext, review: Review | str) -> CandidateReady | AttemptEnd | UnusableVerdict:
    """Return what follows from a review; a str is the reason why the agent's answer is none."""
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
    return _hand_in(context, verification)


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
