"""The merge queue of a run: one candidate after another, each checked on the very tree that lands."""

from pathlib import Path

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Intent, Run
from scaffold.core.states import Outcome
from scaffold.git import commit, refs, worktree
from scaffold.git.merge import Conflicted, merge
from scaffold.host.environment import child_environment
from scaffold.host.ids import new_id
from scaffold.landing.record import record_landing, session_ref, session_tip
from scaffold.verify.contract import Tree, verify
from scaffold.worker.attempt import summary
from scaffold.worker.ending import conclude
from scaffold.worker.site import Site

TRIES_AGAINST_A_MOVING_BRANCH = 5


class Landed(Struct, frozen=True, tag="landed"):
    """The session branch carries the action's work, and its effects are facts."""

    commit: Commit


class Refused(Struct, frozen=True, tag="refused"):
    """The candidate did not land; its work stays pinned and its action has been put back or failed."""

    outcome: Outcome
    why: str


class Held(Struct, frozen=True, tag="held"):
    """Nothing can land while somebody has the session branch checked out at `path`."""

    path: Path


class Idle(Struct, frozen=True, tag="idle"):
    """No candidate waits."""


Step = Landed | Refused | Held | Idle


class MergeQueue:
    """Lands the candidates of one run; exactly one may work at a time, the owner of the run's lease."""

    def __init__(self, site: Site, run: Run) -> None:
        self._site = site
        self._run = run

    async def step(self) -> Step:
        """Take the candidate that has waited longest as far as it goes."""
        waiting = self._site.store.attempts.waiting_to_land(self._run.id)
        if not waiting:
            return Idle()
        holder = await worktree.checked_out_at(self._site.repository, self._run.session_branch)
        if holder is not None:
            return Held(holder)
        return await self._land(waiting[0])

    async def close(self) -> None:
        """Remove the queue's own worktree."""
        await worktree.remove(self._site.repository, self._site.landing_folder(self._run.id))

    async def _land(self, attempt: Attempt) -> Step:
        action = self._site.store.actions.get(attempt.action_id)
        if action is None or attempt.head_sha is None:
            raise LookupError(attempt.id)
        for _ in range(TRIES_AGAINST_A_MOVING_BRANCH):
            tip = await session_tip(self._site, self._run)
            merged = await self._integrate(action, attempt, attempt.head_sha, tip)
            if isinstance(merged, Refused):
                return merged
            verification = await self._verified(action, merged, tip)
            if not verification.passed:
                return self._refuse(attempt, _outcome(verification), summary(verification))
            if await self._publish(attempt, merged, tip, verification):
                await record_landing(self._site, self._run, attempt.id, merged)
                return Landed(merged)
        return self._refuse(attempt, "conflict", f"{self._run.session_branch} kept moving while this was landing")

    async def _integrate(self, action: Action, attempt: Attempt, head: Commit, tip: Commit) -> Commit | Refused:
        """Return the commit that would land: the candidate squashed onto the tip, made in memory."""
        if attempt.base_sha == tip:
            tree = await commit.tree_of(self._site.git, head)
        else:
            merged = await merge(self._site.git, tip, head)
            if isinstance(merged, Conflicted):
                where = ", ".join(merged.paths)
                return self._refuse(attempt, "conflict", f"conflicts with what landed before in {where}")
            tree = merged.tree
        return await commit.commit_tree(
            self._site.git,
            tree,
            parents=[tip],
            message=landing_message(self._run, action),
            author=self._run.settings.author,
            committer=self._run.settings.committer,
        )

    async def _verified(self, action: Action, merged: Commit, tip: Commit) -> Verification:
        folder = self._site.landing_folder(self._run.id)
        git = self._site.git.at(folder)
        if (folder / ".git").exists():
            await worktree.renew(git, merged)
        else:
            await worktree.add(self._site.repository, folder, merged)
        tree = Tree(
            root=folder,
            commit=merged,
            paths=await commit.listed_paths(git, merged),
            changed=await commit.changed_paths(git, tip, merged),
            environ=child_environment(
                self._site.environ, extra={"SCAFFOLD_RUN": self._run.id, "SCAFFOLD_ACTION": action.key}
            ),
        )
        return await verify(action.contract, tree)

    async def _publish(self, attempt: Attempt, merged: Commit, tip: Commit, verification: Verification) -> bool:
        """Move the session branch from `tip` to `merged`; False if somebody else moved it meanwhile.

        The intent comes first, with the evidence: a crash after it can tell from the branch what happened.
        """
        store = self._site.store
        intent = Intent(
            id=new_id(12),
            run_id=self._run.id,
            attempt_id=attempt.id,
            fence=self._run.fence,
            ref=session_ref(self._run),
            old=tip,
            new=merged,
        )
        with store.transaction(durable=True):
            store.runs.check(self._run.id, fence=self._run.fence)
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="landing", verification=verification)
            store.intents.add(intent)
        if await refs.move(self._site.git, intent.ref, new=merged, old=tip):
            return True
        with store.transaction():
            store.intents.settle(intent.id, done=False)
        return False

    def _refuse(self, attempt: Attempt, outcome: Outcome, why: str) -> Refused:
        conclude(self._site.store, self._run, attempt.id, outcome, error=why, head=attempt.head_sha)
        return Refused(outcome, why)


def landing_message(run: Run, action: Action) -> str:
    """Return the message of the one commit that carries an action's work."""
    first, _, rest = action.description.strip().partition("\n")
    subject = f"{action.key}: {first}" if first and first != action.key else action.key
    body = f"\n\n{rest.strip()}" if rest.strip() else ""
    return f"{subject}{body}\n\nScaffold-Run: {run.id}\nScaffold-Action: {action.key}\n"


def _outcome(verification: Verification) -> Outcome:
    timed_out = any(result.verdict == "timeout" for result in verification.failures)
    return "timeout" if timed_out else "contract_failed"
