"""One attempt, from its workspace to a candidate."""

import asyncio

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.errors import BudgetSpent, ModelTrouble, ScaffoldError, StaleFence
from scaffold.core.ids import Commit
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Model
from scaffold.core.states import Landing, Outcome, Phase, Running, Verifying
from scaffold.git import commit, refs, worktree
from scaffold.verify.contract import Tree, verify
from scaffold.worker.assignment import Assignment
from scaffold.worker.context import describe, failure_prompt, task_prompt
from scaffold.worker.ending import conclude
from scaffold.worker.native import attempt_environment, native_agent
from scaffold.worker.site import Site
from scaffold.worker.workspace import Workspace, keep_work, open_workspace, rescue


class Handed(Struct, frozen=True, tag="handed"):
    """A candidate was handed in."""

    head: Commit


class GaveUp(Struct, frozen=True, tag="gave_up"):
    """The attempt ended by itself without a candidate."""

    outcome: Outcome
    error: str


class Worker:
    """Carries out one assignment; every phase is in the store before it begins."""

    def __init__(self, site: Site, task: Assignment, model: Model) -> None:
        self._site = site
        self._task = task
        self._model = model

    async def carry_out(self, identity: ProcessIdentity, *, log_file: str) -> Handed | GaveUp:
        """Claim the attempt and see it through; raises StaleFence if somebody else ended it meanwhile."""
        site, attempt = self._site, self._task.attempt
        with site.store.transaction():
            site.store.attempts.claim(
                attempt.id,
                fence=attempt.fence,
                worker=identity,
                worktree=str(site.attempt_folder(attempt.run_id, attempt.id)),
                log_file=log_file,
            )
        ending = await self._bounded()
        if isinstance(ending, GaveUp):
            pinned = await rescue(site, self._task.run, attempt)
            conclude(
                site.store,
                self._task.run,
                attempt.id,
                ending.outcome,
                error=ending.error,
                head=pinned,
                fence=attempt.fence,
            )
        else:
            await worktree.remove(site.repository, site.attempt_folder(attempt.run_id, attempt.id))
        return ending

    async def _bounded(self) -> Handed | GaveUp:
        seconds = self._task.run.settings.attempt_timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await self._work()
        except TimeoutError:
            return GaveUp("timeout", f"not finished after {seconds:g} s")
        except BudgetSpent as spent:
            return GaveUp("budget", spent.what)
        except StaleFence:
            raise
        except ModelTrouble as trouble:
            return GaveUp("executor_failed", f"{trouble.what} {trouble.fix}")
        except ScaffoldError as trouble:
            return GaveUp("executor_failed", f"{type(trouble).__name__}: {trouble.what} {trouble.fix}")

    async def _work(self) -> Handed | GaveUp:
        task = self._task
        workspace = await open_workspace(self._site, task.attempt)
        agent = native_agent(self._site, task, workspace, self._model)
        prompt = task_prompt(task.goal, task.action, task.prerequisites, task.attempt.briefing)
        self._enter("executing")
        seen = await commit.tree_of(workspace.git, workspace.base)
        failed: Verification | None = None
        for _ in range(task.run.settings.iterations):
            finish = await agent.turn(prompt)
            head = await self._committed(workspace)
            tree = await commit.tree_of(workspace.git, head)
            if tree == seen:
                return GaveUp("contract_failed", _nothing_changed(failed))
            seen = tree
            self._enter("verifying")
            verification = await self._verified(workspace, head)
            if verification.passed:
                return await self._hand_in(head, verification, finish.text)
            failed = verification
            self._enter("executing", failed)
            prompt = failure_prompt(failed)
        return GaveUp("contract_failed", summary(failed) if failed else "the tier allows no iteration at all")

    async def _committed(self, workspace: Workspace) -> Commit:
        await keep_work(workspace, self._task.run, f"Work on {self._task.action.key}")
        head = await refs.resolve(workspace.git, "HEAD")
        if head is None:
            raise StaleFence("the worktree has no commit any more", "Retry the action.")
        return head

    async def _verified(self, workspace: Workspace, head: Commit) -> Verification:
        tree = Tree(
            root=workspace.path,
            commit=head,
            paths=await commit.listed_paths(workspace.git, head),
            changed=await commit.changed_paths(workspace.git, workspace.base, head),
            environ=attempt_environment(self._site, self._task.attempt, self._task.action),
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
                result=result,
            )
            store.actions.move(attempt.action_id, Landing())
        return Handed(head)

    def _enter(self, phase: Phase, verification: Verification | None = None) -> None:
        store, attempt = self._site.store, self._task.attempt
        action = store.actions.get(attempt.action_id)
        wanted = Verifying() if phase == "verifying" else Running()
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=verification)
            if action is not None and action.state != wanted:
                store.actions.move(attempt.action_id, wanted)


def _nothing_changed(failed: Verification | None) -> str:
    if failed is None:
        return "the agent said it was done, but nothing changed"
    return f"nothing changed after the checks failed: {summary(failed)}"


def summary(verification: Verification) -> str:
    """Return the failures of a verification in one paragraph each."""
    return "\n".join(describe(result) for result in verification.failures)
