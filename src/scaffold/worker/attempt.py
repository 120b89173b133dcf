"""One attempt, from its workspace to a candidate."""

import asyncio

from msgspec import Struct

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.errors import BudgetSpent, GitFailed, ModelTrouble, ScaffoldError, StaleFence, WaitsForHuman
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Model
from scaffold.core.states import Landing, Outcome, Phase, Running, Verifying
from scaffold.git import commit, refs, worktree
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.verify.contract import Tree, verify
from scaffold.worker.assignment import Assignment
from scaffold.worker.consent import Human
from scaffold.worker.context import failure_prompt, summary, task_prompt
from scaffold.worker.enclosure import enclosure, forget_temporary
from scaffold.worker.ending import conclude
from scaffold.worker.native import attempt_environment, native_agent
from scaffold.worker.site import Site
from scaffold.worker.workspace import Workspace, give_back, open_workspace, retire


class Handed(Struct, frozen=True, tag="handed"):
    """A candidate was handed in."""

    head: Commit


class GaveUp(Struct, frozen=True, tag="gave_up"):
    """The attempt ended by itself without a candidate."""

    outcome: Outcome
    error: str
    item: str | None = None
    """What it waits for in the inbox; None if it waits for no human."""


class Work(Struct, frozen=True):
    """What an agent's turn has left: a commit on top of the base, and its tree."""

    head: Commit
    tree: str


class Worker:
    """Carries out one assignment; every phase is in the store before it begins."""

    def __init__(self, site: Site, task: Assignment, model: Model) -> None:
        self._site = site
        self._task = task
        self._model = model
        self._human = Human(site, task)

    async def carry_out(self, identity: ProcessIdentity, *, log_file: str) -> Handed | GaveUp:
        """Claim the attempt and see it through; raises StaleFence if somebody else ended it meanwhile."""
        site, run, attempt = self._site, self._task.run, self._task.attempt
        folder = site.attempt_folder(run.id, attempt.id)
        with site.store.transaction():
            site.store.attempts.claim(
                attempt.id, fence=attempt.fence, worker=identity, worktree=str(folder), log_file=log_file
            )
        ending = await self._bounded()
        await asyncio.to_thread(forget_temporary, site, run, name=attempt.id)
        match ending:
            case Handed():
                await give_back(site, attempt)
            case GaveUp(outcome=outcome, error=error, item=item):
                pinned = await retire(site, run, attempt.id)
                told = site.redactor.clean(error)
                conclude(site.store, run, attempt.id, outcome, error=told, head=pinned, fence=attempt.fence, item=item)
        return ending

    async def _bounded(self) -> Handed | GaveUp:
        seconds = self._task.run.settings.attempt_timeout_s
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._work()
        except TimeoutError:
            if not deadline.expired():
                raise
            return GaveUp("timeout", f"not finished after {seconds:g} s")
        except BudgetSpent as spent:
            return GaveUp("budget", spent.what)
        except WaitsForHuman as waits:
            return GaveUp("waiting", waits.what, waits.item)
        except StaleFence:
            raise
        except ModelTrouble as trouble:
            return GaveUp("executor_failed", trouble.in_full)
        except ScaffoldError as trouble:
            return GaveUp("executor_failed", f"{type(trouble).__name__}: {trouble.in_full}")

    async def _work(self) -> Handed | GaveUp:
        """Let the agent work until what it leaves passes; a turn that leaves the same as the one before ends it."""
        task = self._task
        workspace = await open_workspace(self._site, task.attempt)
        async with enclosure(self._site, task.run, workspace.path, name=task.attempt.id) as walls:
            return await self._iterate(workspace, walls)

    async def _iterate(self, workspace: Workspace, walls: Enclosure | None) -> Handed | GaveUp:
        task = self._task
        agent = native_agent(self._site, task, workspace, self._model, human=self._human, enclosure=walls)
        prompt = task_prompt(task.goal, task.action, task.prerequisites, task.attempt.briefing)
        self._enter("executing")
        seen: str | Verification = await commit.tree_of(workspace.git, workspace.base)
        failed: Verification | None = None
        for _ in range(task.run.settings.iterations):
            finish = await agent.turn(prompt)
            work = await self._committed(workspace)
            left = work.tree if isinstance(work, Work) else work
            if left == seen:
                return GaveUp("contract_failed", _nothing_changed(failed))
            seen = left
            self._enter("verifying")
            verification = await self._verified(workspace, work.head, walls) if isinstance(work, Work) else work
            if isinstance(work, Work) and verification.passed:
                return await self._hand_in(work.head, verification, finish.text)
            failed = verification
            self._enter("executing", failed)
            prompt = failure_prompt(failed)
        return GaveUp("contract_failed", summary(failed) if failed else "the tier allows no iteration at all")

    async def _committed(self, workspace: Workspace) -> Work | Verification:
        """Commit everything git does not ignore, whether or not the agent committed by itself.

        Where no commit can be had, the verification says why; the agent is told, it may have caused it.
        """
        git, settings = workspace.git, self._task.run.settings
        message = f"Work on {self._task.action.key}"
        try:
            await commit.commit_all(git, message, author=settings.author, committer=settings.committer)
            head = Commit((await git("rev-parse", "--verify", "HEAD")).line)
            if await commit.is_ancestor(git, workspace.base, head):
                return Work(head, await commit.tree_of(git, head))
        except GitFailed as trouble:
            return _uncommitted(workspace.base, f"{trouble.what}\n{trouble.fix}")
        there = f"Go back with `git checkout --detach {workspace.base}` and make your changes there."
        return _uncommitted(workspace.base, f"HEAD does not contain the commit this task starts from. {there}")

    async def _verified(self, workspace: Workspace, head: Commit, walls: Enclosure | None) -> Verification:
        environ = attempt_environment(self._site, self._task)
        tree = Tree(
            git=workspace.git,
            base=workspace.base,
            commit=head,
            environ=environ,
            enclosure=walls,
            clean=self._site.redactor.clean,
        )
        verification = await verify(self._task.action.contract, tree)
        await worktree.restore(workspace.git, head)  # what the checks left behind is not the work
        return verification

    async def _hand_in(self, head: Commit, verification: Verification, result: str) -> Handed:
        store, attempt = self._site.store, self._task.attempt
        await refs.pin(self._site.git, refs.work_ref(attempt.id), head)
        with store.transaction(durable=True):
            store.attempts.advance(
                attempt.id,
                fence=attempt.fence,
                phase="candidate",
                head_sha=head,
                verification=verification,
                result=self._site.redactor.clean(legible(result)),
            )
            store.actions.move(attempt.action_id, Landing())
        return Handed(head)

    def _enter(self, phase: Phase, verification: Verification | None = None) -> None:
        store, attempt = self._site.store, self._task.attempt
        wanted = Verifying() if phase == "verifying" else Running()
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=verification)
            action = store.actions.get(attempt.action_id)
            if action is not None and action.state != wanted:
                store.actions.move(attempt.action_id, wanted)


def _uncommitted(base: Commit, why: str) -> Verification:
    problem = CheckResult(name="commit", verdict="error", detail=legible(why))
    return Verification(commit=base, results=(problem,))


def _nothing_changed(failed: Verification | None) -> str:
    if failed is None:
        return "the agent said it was done, but nothing changed"
    return f"nothing changed after the checks failed: {summary(failed)}"
