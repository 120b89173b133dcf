"""Work that changes files: the agent goes on until what it leaves passes, or leaves the same twice."""

from msgspec import Struct

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.git import commit, refs, worktree
from scaffold.verify.contract import verify
from scaffold.worker.context import failure_prompt, summary, task_prompt
from scaffold.worker.desk import Desk
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.watch import Stuck, Watched


class Work(Struct, frozen=True):
    """What an agent's turn has left: a commit on top of the base, and its tree."""

    head: Commit
    tree: str


async def make(desk: Desk, agent: Watched) -> Handed | GaveUp:
    """Let the agent work until what it leaves passes; a turn that leaves the same as the one before ends it."""
    prompt = task_prompt(desk.task)
    desk.record.enter("executing")
    seen: str | Verification = await commit.tree_of(desk.workspace.git, desk.workspace.base)
    failed: Verification | None = None
    for iteration in range(1, desk.task.run.settings.iterations + 1):
        finish = await agent.turn(prompt)
        if isinstance(finish, Stuck):
            return desk.stuck(finish)
        desk.record.answered(finish.text, iteration=iteration)
        work = await _committed(desk)
        left = work.tree if isinstance(work, Work) else work
        if left == seen:
            return GaveUp("contract_failed", _nothing_changed(failed))
        seen = left
        desk.record.enter("verifying")
        verification = await _verified(desk, work.head) if isinstance(work, Work) else work
        if isinstance(work, Work) and verification.passed:
            return await _hand_in(desk, work.head, verification)
        failed = verification
        desk.record.enter("executing", verification=failed)
        prompt = failure_prompt(failed)
    return GaveUp("contract_failed", summary(failed) if failed else "the tier allows no iteration at all")


async def _committed(desk: Desk) -> Work | Verification:
    """Commit everything git does not ignore, whether or not the agent committed by itself.

    Where no commit can be had, the verification says why; the agent is told, it may have caused it.
    """
    git, base, settings = desk.workspace.git, desk.workspace.base, desk.task.run.settings
    message = f"Work on {desk.task.action.key}"
    try:
        await commit.commit_all(git, message, author=settings.author, committer=settings.committer)
        head = Commit((await git("rev-parse", "--verify", "HEAD")).line)
        if await commit.is_ancestor(git, base, head):
            return Work(head, await commit.tree_of(git, head))
    except GitFailed as trouble:
        return _uncommitted(base, f"{trouble.what}\n{trouble.fix}")
    there = f"Go back with `git checkout --detach {base}` and make your changes there."
    return _uncommitted(base, f"HEAD does not contain the commit this task starts from. {there}")


async def _verified(desk: Desk, head: Commit) -> Verification:
    verification = await verify(desk.task.action.contract, desk.tree(head))
    await worktree.restore(desk.workspace.git, head)  # what the checks left behind is not the work
    return verification


async def _hand_in(desk: Desk, head: Commit, verification: Verification) -> Handed:
    await refs.pin(desk.site.git, refs.work_ref(desk.task.attempt.id), head)
    desk.record.hand_in(head, verification)
    return Handed(head)


def _uncommitted(base: Commit, why: str) -> Verification:
    problem = CheckResult(name="commit", verdict="error", detail=legible(why))
    return Verification(commit=base, results=(problem,))


def _nothing_changed(failed: Verification | None) -> str:
    if failed is None:
        return "the agent said it was done, but nothing changed"
    return f"nothing changed after the checks failed: {summary(failed)}"
