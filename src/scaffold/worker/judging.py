"""Work that changes nothing: the agent reads and judges, and its verdict is taken only with what it can point at."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.states import Outcome
from scaffold.git import refs, worktree
from scaffold.verify.contract import results_of
from scaffold.verify.review import Review, passed, read_review, told, unresolved
from scaffold.worker.context import summary, task_prompt
from scaffold.worker.desk import Desk
from scaffold.worker.notice import inform
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.watch import Stuck, Watched
from scaffold.worker.workspace import keep


class Unusable(Struct, frozen=True):
    """Why a verdict does not count, in words for who gave it."""

    outcome: Outcome
    """What it is if it stays like this."""
    why: str


async def judge(desk: Desk, agent: Watched) -> Handed | GaveUp:
    """Let the agent judge until its verdict can be used; a rejection is the end of this action."""
    prompt = task_prompt(desk.task)
    desk.record.enter("executing")
    unusable = Unusable("executor_failed", "the tier allows no iteration at all")
    for iteration in range(1, desk.task.run.settings.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, Stuck):
            return desk.stuck(finish)
        desk.record.answered(finish.text, iteration=iteration)
        desk.record.enter("verifying")
        await _discard_changes(desk)
        ending = await _examined(desk, read_review(finish.text))
        if not isinstance(ending, Unusable):
            return ending
        unusable = ending
        desk.record.enter("executing")
        prompt = f"Your verdict cannot be used yet. {unusable.why}\n\nGive it again, at the end of your message."
    return GaveUp(unusable.outcome, f"no verdict that can be used: {unusable.why}")


async def _examined(desk: Desk, review: Review | str) -> Handed | GaveUp | Unusable:
    if isinstance(review, str):
        return Unusable("executor_failed", review)
    base = desk.workspace.base
    missing = await unresolved(review, desk.site.git, base)
    if missing:
        return Unusable("executor_failed", "\n".join(["These citations lead nowhere:", *missing]))
    if review.verdict == "reject":
        return GaveUp("gate_failed", f"rejected: {told(review)}", for_good=True)
    checks = await _checked(desk)
    verification = passed(review, base, desk.site.redactor, checks)
    if not verification.passed:
        return Unusable("contract_failed", f"What must be so for an approval is not:\n\n{summary(verification)}")
    return _hand_in(desk, verification)


async def _checked(desk: Desk) -> Sequence[CheckResult]:
    """Return what the action's contract shows of the commit that was judged."""
    contract = desk.task.action.contract
    if contract is None or contract.empty:
        return ()
    results = await results_of(contract, desk.tree(desk.workspace.base))
    await worktree.restore(desk.workspace.git, desk.workspace.base)
    return results


async def _discard_changes(desk: Desk) -> None:
    """Pin what the agent changed though it was to change nothing, and put the worktree back."""
    attempt = desk.task.attempt
    if await keep(desk.site, desk.task.run, attempt.id) is None:
        return
    await worktree.restore(desk.workspace.git, desk.workspace.base)
    text = f"{desk.task.action.key}: a review changes nothing; what it did is kept as {refs.rescue_ref(attempt.id)}."
    inform(desk.site, attempt.run_id, text)


def _hand_in(desk: Desk, verification: Verification) -> Handed:
    desk.record.hand_in(desk.workspace.base, verification)
    return Handed(desk.workspace.base)
