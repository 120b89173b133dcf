"""The merge queue of a run: one candidate after another, each checked on the very tree that lands."""

import asyncio
from pathlib import Path

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.errors import StaleFence
from scaffold.core.gates import GateResult
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Intent, Run
from scaffold.core.states import Outcome
from scaffold.git import commit, refs, worktree
from scaffold.git.merge import Conflicted, merge
from scaffold.host.ids import new_id
from scaffold.landing.proving import Proven, Prover
from scaffold.landing.record import (
    last_landed,
    record_landed,
    record_unchanged,
    require_on_branch,
    session_ref,
    session_tip,
)
from scaffold.worker.context import summary
from scaffold.worker.ending import conclude
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

TRIES_AGAINST_A_MOVING_BRANCH = 5


class Landed(Struct, frozen=True, tag="landed"):
    """The session branch carries the action's work, and its effects are facts."""

    commit: Commit


class Recorded(Struct, frozen=True, tag="recorded"):
    """A review's approval counts, and its effects are facts; there was nothing to land."""

    reviewed: Commit


class Refused(Struct, frozen=True, tag="refused"):
    """The candidate did not land; its work stays pinned and its action has been put back or failed."""

    outcome: Outcome
    why: str


class Held(Struct, frozen=True, tag="held"):
    """Nothing can land while somebody has the session branch checked out at `path`."""

    path: Path


class Settled(Struct, frozen=True, tag="settled"):
    """No candidate waits; facts that were in question hold again, or have fallen."""


class Idle(Struct, frozen=True, tag="idle"):
    """No candidate waits, and nothing is in question."""


Step = Landed | Recorded | Refused | Held | Settled | Idle


class MergeQueue:
    """Lands the candidates of one run; exactly one may work at a time, the owner of the run's lease."""

    def __init__(self, site: Site, run: Run) -> None:
        self._site = site
        self._run = run
        self._prover = Prover(site, run)
        self._busy = asyncio.Lock()
        self._landed: Commit | None = None
        self._seen: Commit | None = None
        """The tip by which facts were last put in question."""

    async def step(self) -> Step:
        """Take the candidate that has waited longest as far as it goes; without one, settle what is in question."""
        async with self._busy:
            waiting = self._site.store.attempts.waiting_to_land(self._run.id)
            if not waiting:
                return await self._settle()
            try:
                return await self._hold() or await self._land(waiting[0])
            except StaleFence:
                if not self._withdrawn(waiting[0]):
                    raise
                return Refused("cancelled", "it was cancelled while it waited to land")

    async def reconsider(self) -> None:
        """Look again at what the run has shown, should others have moved its branch; what fell is to be done again."""
        async with self._busy:
            await self._tip()

    async def prove_whole(self) -> tuple[GateResult, ...]:
        """Return how all gates do where the branch is now, run whole, against how they did before."""
        async with self._busy:
            return await self._prover.whole(await session_tip(self._site, self._run))

    def _withdrawn(self, attempt: Attempt) -> bool:
        """Tell whether a human has cancelled the candidate; nothing is left to be said of it then."""
        now = self._site.store.attempts.get(attempt.id)
        return now is not None and now.status == "ended" and now.outcome == "cancelled"

    async def close(self) -> None:
        """Remove the queue's own worktree."""
        await self._prover.close()

    async def _settle(self) -> Settled | Idle:
        if not self._prover.upkeep.waiting():
            return Idle()
        await self._prover.upkeep.settle(await session_tip(self._site, self._run))
        return Settled()

    async def _hold(self) -> Held | None:
        """Return who has the session branch checked out; a worktree whose folder was deleted holds nothing."""
        for each in await worktree.on_branch(self._site.repository, self._run.session_branch):
            if each.locked or each.path.exists():
                return Held(each.path)
        return None

    async def _land(self, attempt: Attempt) -> Step:
        action = self._site.store.actions.get(attempt.action_id)
        if action is None or attempt.head_sha is None:
            raise LookupError(attempt.id)
        if attempt.head_sha == attempt.base_sha:
            return await self._record(action, attempt)
        tip = self._landed
        for _ in range(TRIES_AGAINST_A_MOVING_BRANCH):
            tip = tip or await self._tip()
            step = await self._land_on(tip, action, attempt, attempt.head_sha)
            if isinstance(step, Refused):
                if tip == await session_tip(self._site, self._run):
                    return self._refuse(attempt, step)
            elif step is not None:
                return step
            tip = None
        moving = f"{self._run.session_branch} kept moving while this was landing"
        return self._refuse(attempt, Refused("conflict", moving))

    async def _land_on(
        self, tip: Commit, action: Action, attempt: Attempt, head: Commit
    ) -> Landed | Held | Refused | None:
        """Take a candidate as far as it goes on a tip; None, or a refusal that counts for nothing, if it is old."""
        merged = await self._integrate(action, head, tip)
        if isinstance(merged, Refused):
            return merged
        proven = await self._prover.candidate(action, attempt, merged, tip)
        if not proven.verification.passed:
            return Refused(_outcome(proven.verification), summary(proven.verification))
        if proven.broken:
            return Refused("gate_failed", proven.breaks)
        return await self._publish(action, attempt, head, proven, tip)

    async def _record(self, action: Action, attempt: Attempt) -> Step:
        """Record what was found if what it is about is as it was; else it is judged anew, and nobody has failed."""
        outdated = await record_unchanged(self._site, self._run, attempt, action)
        return Recorded(attempt.base_sha) if outdated is None else self._refuse(attempt, Refused("conflict", outdated))

    async def _tip(self) -> Commit:
        """Return where the session branch is, with all that holds there settled.

        Raises RepositoryUnfit if it lost what this queue landed.
        """
        tip = await session_tip(self._site, self._run)
        landed = self._landed or last_landed(self._site.store, self._run)
        before = landed or self._run.base_sha
        if landed is not None and landed != tip:
            await require_on_branch(self._site, self._run, landed, tip)
        if tip not in {before, self._seen}:
            self._prover.upkeep.mark(await commit.changed_paths(self._site.git, before, tip), tip)
            self._seen = tip
        await self._prover.upkeep.settle(tip)
        return tip

    async def _integrate(self, action: Action, head: Commit, tip: Commit) -> Commit | Refused:
        """Return the commit that would land: the candidate squashed onto the tip, made in memory."""
        merged = await merge(self._site.git, tip, head)
        if isinstance(merged, Conflicted):
            where = ", ".join(merged.paths)
            return Refused("conflict", f"conflicts with what landed before in {where}")
        return await commit.commit_tree(
            self._site.git,
            merged.tree,
            parents=[tip],
            message=landing_message(self._run, action),
            author=self._run.settings.author,
            committer=self._run.settings.committer,
        )

    async def _publish(
        self, action: Action, attempt: Attempt, head: Commit, proven: Proven, tip: Commit
    ) -> Landed | Held | Refused | None:
        """Move the session branch to what was verified and record it; None if somebody else moved it meanwhile."""
        hold = await self._hold()
        if hold is not None:
            return hold
        intent = self._intend(action, attempt, proven.verification, tip)
        if isinstance(intent, Refused):
            return intent
        work = refs.work_ref(attempt.id)
        if not await refs.land(self._site.git, intent.ref, new=intent.new, old=intent.old, drop=work, kept=head):
            with owned(self._site.store, self._run):
                self._site.store.intents.settle(intent.id, done=False)
            return None
        record_landed(self._site, self._run, attempt.id, intent.new, proven.changed, proven.renewed)
        self._landed = intent.new
        return Landed(intent.new)

    def _intend(self, action: Action, attempt: Attempt, verification: Verification, tip: Commit) -> Intent | Refused:
        """Write down what is about to happen, with the evidence: after a crash the branch tells whether it did.

        The preconditions are looked at once more: nothing lands on facts that fell since it was begun.
        """
        store = self._site.store
        intent = Intent(
            id=new_id(12),
            run_id=self._run.id,
            attempt_id=attempt.id,
            fence=self._run.fence,
            ref=session_ref(self._run),
            old=tip,
            new=verification.commit,
        )
        with owned(store, self._run, durable=True):
            lacking = store.facts.lacking(action.goal_id, action.preconditions)
            if not lacking:
                store.attempts.advance(attempt.id, fence=attempt.fence, phase="landing", verification=verification)
                store.intents.add(intent)
        if lacking:
            return Refused("conflict", f"what it was built on does not hold any more: {', '.join(lacking)}")
        return intent

    def _refuse(self, attempt: Attempt, refused: Refused) -> Refused:
        told = self._site.redactor.clean(refused.why)
        conclude(self._site.store, self._run, attempt.id, refused.outcome, error=told, head=attempt.head_sha)
        return Refused(refused.outcome, told)


def landing_message(run: Run, action: Action) -> str:
    """Return the message of the one commit that carries an action's work."""
    first, _, rest = action.description.strip().partition("\n")
    subject = f"{action.key}: {first}" if first and first != action.key else action.key
    body = f"\n\n{rest.strip()}" if rest.strip() else ""
    return f"{subject}{body}\n\nScaffold-Run: {run.id}\nScaffold-Action: {action.key}\n"


def _outcome(verification: Verification) -> Outcome:
    """Return what the attempt ended with: a deadline, its own contract, or the repository's gates."""
    late = [*(each.verdict for each in verification.failures), *(each.verdict for each in verification.broken_gates)]
    if "timeout" in late:
        return "timeout"
    return "contract_failed" if verification.failures else "gate_failed"
