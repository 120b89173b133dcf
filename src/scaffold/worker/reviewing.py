"""Work that changes nothing: the agent reads and judges, and its verdict is taken only with what it can point at."""

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.states import Outcome
from scaffold.git import refs, worktree
from scaffold.verify.review import Review, passed, read_review, told, unresolved
from scaffold.worker.context import summary, task_prompt
from scaffold.worker.notice import inform
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.station import Station
from scaffold.worker.watch import Stuck, Watched
from scaffold.worker.workspace import keep


class Unusable(Struct, frozen=True):
    """Why a verdict does not count, in words for who gave it."""

    outcome: Outcome
    """What it is if it stays like this."""
    why: str


async def review(station: Station, agent: Watched) -> Handed | GaveUp:
    """Let the agent review until its verdict can be used; a rejection is the end of this action."""
    prompt = task_prompt(station.task)
    station.record.enter("executing")
    unusable = Unusable("executor_failed", "the tier allows no iteration at all")
    for iteration in range(1, station.task.run.settings.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, Stuck):
            return station.stuck(finish)
        station.record.answered(finish.text, iteration=iteration)
        station.record.enter("verifying")
        await _discard_changes(station)
        ending = await _examined(station, read_review(finish.text))
        if not isinstance(ending, Unusable):
            return ending
        unusable = ending
        station.record.enter("executing")
        prompt = f"Your verdict cannot be used yet. {unusable.why}\n\nGive it again, at the end of your message."
    return GaveUp(unusable.outcome, f"no verdict that can be used: {unusable.why}")


async def _examined(station: Station, said: Review | str) -> Handed | GaveUp | Unusable:
    if isinstance(said, str):
        return Unusable("executor_failed", said)
    base = station.workspace.base
    missing = await unresolved(said, station.site.git, base)
    if missing:
        return Unusable("executor_failed", "\n".join(["These citations lead nowhere:", *missing]))
    if said.verdict == "reject":
        return GaveUp("gate_failed", f"rejected: {told(said)}", for_good=True)
    results = await station.results_at_base(station.task.action.contract)
    verification = passed(said, base, station.site.redactor, results)
    if not verification.passed:
        return Unusable("contract_failed", f"What must be so for an approval is not:\n\n{summary(verification)}")
    return _hand_in(station, verification)


async def _discard_changes(station: Station) -> None:
    """Pin what the agent changed though it was to change nothing, and put the worktree back."""
    attempt = station.task.attempt
    if await keep(station.site, station.task.run, attempt.id) is None:
        return
    await worktree.restore(station.workspace.git, station.workspace.base)
    text = f"{station.task.action.key}: a review changes nothing; what it did is kept as {refs.rescue_ref(attempt.id)}."
    inform(station.site, attempt.run_id, text)


def _hand_in(station: Station, verification: Verification) -> Handed:
    station.record.hand_in(station.workspace.base, verification)
    return Handed(station.workspace.base)
