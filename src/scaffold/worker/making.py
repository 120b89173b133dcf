"""Work that changes files: the agent goes on until what it leaves passes, or leaves the same twice."""

from msgspec import Struct

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.git import commit, refs, worktree
from scaffold.verify.contract import verify
from scaffold.worker.assignment import TESTING
from scaffold.worker.context import failure_prompt, summary, task_prompt
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.station import Station
from scaffold.worker.watch import Stuck, Watched


class Work(Struct, frozen=True):
    """What an agent's turn has left: a commit on top of the base, and its tree."""

    head: Commit
    tree: str


async def make(station: Station, agent: Watched) -> Handed | GaveUp:
    """Let the agent work until what it leaves passes; a turn that leaves the same as the one before ends it."""
    prompt = task_prompt(station.task)
    station.record.enter("executing")
    seen: str | Verification = await commit.tree_of(station.workspace.git, station.workspace.base)
    failed: Verification | None = None
    for iteration in range(1, station.task.run.settings.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, Stuck):
            return station.stuck(finish)
        station.record.answered(finish.text, iteration=iteration)
        work = await _committed(station)
        left = work.tree if isinstance(work, Work) else work
        if left == seen:
            return await _with_nothing_new(station, failed)
        seen = left
        station.record.enter("verifying")
        verification = await _verified(station, work.head) if isinstance(work, Work) else work
        if isinstance(work, Work) and verification.passed:
            return await _hand_in(station, work.head, verification)
        failed = verification
        station.record.enter("executing", verification=failed)
        prompt = failure_prompt(failed)
    return GaveUp("contract_failed", summary(failed) if failed else "the tier allows no iteration at all")


async def _committed(station: Station) -> Work | Verification:
    """Commit everything git does not ignore, whether or not the agent committed by itself.

    Where no commit can be had, the verification says why; the agent is told, it may have caused it.
    """
    git, base, settings = station.workspace.git, station.workspace.base, station.task.run.settings
    message = f"Work on {station.task.action.key}"
    try:
        await commit.commit_all(git, message, author=settings.author, committer=settings.committer)
        head = await commit.describe(git, "HEAD")
        if await commit.contains(git, head, base):
            return Work(head.commit, head.tree)
    except GitFailed as trouble:
        return _uncommitted(base, f"{trouble.what}\n{trouble.fix}")
    there = f"Go back with `git checkout --detach {base}` and make your changes there."
    return _uncommitted(base, f"HEAD does not contain the commit this task starts from. {there}")


async def _verified(station: Station, head: Commit) -> Verification:
    verification = await verify(station.task.action.contract, station.tree(head))
    if not verification.passed:  # the work goes on here, and what the checks left behind is not a part of it
        await worktree.restore(station.workspace.git, head)
    return verification


async def _with_nothing_new(station: Station, failed: Verification | None) -> Handed | GaveUp:
    """Return how an attempt ends whose last turn changed nothing.

    A tester may have found that the work it verifies passes as it stands: the checks say so, not its word.
    """
    if failed is None and station.task.action.role == TESTING and station.task.grounds:
        station.record.enter("verifying")
        results = tuple(await station.results_at_base())
        found = Verification(commit=station.workspace.base, results=results)
        if any(result.verdict == "pass" for result in results) and found.passed:
            station.record.hand_in(found.commit, found)
            return Handed(found.commit)
        failed = None if found.passed else found
    return GaveUp("contract_failed", _nothing_changed(failed))


async def _hand_in(station: Station, head: Commit, verification: Verification) -> Handed:
    await refs.pin(station.site.git, refs.work_ref(station.task.attempt.id), head)
    station.record.hand_in(head, verification)
    return Handed(head)


def _uncommitted(base: Commit, why: str) -> Verification:
    problem = CheckResult(name="commit", verdict="error", detail=legible(why))
    return Verification(commit=base, results=(problem,))


def _nothing_changed(failed: Verification | None) -> str:
    if failed is None:
        return "the agent said it was done, but nothing changed"
    return f"nothing changed after the checks failed: {summary(failed)}"
