"""The merge queue of a run: one candidate after another, each verified on the exact tree that lands."""

import asyncio
from pathlib import Path

from msgspec import Struct

from scaffold.core.contract import Verification
from scaffold.core.errors import StaleFence
from scaffold.core.gates import GateResult
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Intent, Run
from scaffold.core.states import AttemptOutcome
from scaffold.git import commits, refs, worktree
from scaffold.host.random_ids import new_id
from scaffold.landing.candidate_check import CandidateResult, CandidateVerifier
from scaffold.landing.integration import IntegrationConflict, integrate
from scaffold.landing.record import (
    last_landed,
    record_landed,
    record_without_commit,
    require_landed_on_branch,
    session_ref,
    session_tip,
)
from scaffold.run.attempt_end import AttemptEnd, end_attempt
from scaffold.run.context import RunContext
from scaffold.run.failure_summary import summarize_failures
from scaffold.run.lease import owner_transaction

MAX_LANDING_TRIES = 5


class CandidateLanded(Struct, frozen=True, tag="landed"):
    """The action's work is on the session branch, and its effects are facts."""

    commit: Commit


class ReviewRecorded(Struct, frozen=True, tag="recorded"):
    """A review's approval was recorded, and its effects are facts; there was nothing to land."""

    reviewed: Commit


class CandidateRefused(Struct, frozen=True, tag="refused"):
    """The candidate did not land; its work stays pinned, and its action is pending again or failed."""

    outcome: AttemptOutcome
    why: str


class BranchHeld(Struct, frozen=True, tag="held"):
    """Nothing can land while the session branch is checked out at `path`."""

    path: Path


class FactsSettled(Struct, frozen=True, tag="settled"):
    """No candidate waits; stale facts were rechecked."""


class QueueIdle(Struct, frozen=True, tag="idle"):
    """No candidate and no stale fact waits."""


QueueStep = CandidateLanded | ReviewRecorded | CandidateRefused | BranchHeld | FactsSettled | QueueIdle


class MergeQueue:
    """Lands the candidates of one run; only the owner of the run's lease may use it."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._verifier = CandidateVerifier(context, run)
        self._busy = asyncio.Lock()
        self._landed: Commit | None = None
        self._seen: Commit | None = None
        """The tip for which facts were last marked stale."""

    async def step(self) -> QueueStep:
        """Land or refuse the oldest waiting candidate; without one, recheck stale facts."""
        async with self._busy:
            waiting = self._context.store.attempts.next_to_land(self._run.id)
            if waiting is None:
                return await self._settle()
            try:
                # Git would move a branch that is checked out without its files, so that
                # the user's next commit reverts the landing.
                return await self._hold() or await self._land(waiting)
            # A cancellation ends the attempt while its checks run here; only a fence of the run means another owner.
            except StaleFence:
                if not self._withdrawn(waiting):
                    raise
                return CandidateRefused("cancelled", "it was cancelled while it waited to land")

    async def recheck_facts(self) -> None:
        """If others moved the session branch, recheck the run's facts; actions with refuted facts run again."""
        async with self._busy:
            await self._tip()

    async def run_all_gates(self) -> tuple[GateResult, ...]:
        """Return all gates' results at the branch's tip, compared with the baseline."""
        async with self._busy:
            return await self._verifier.run_all_gates(await session_tip(self._context, self._run))

    def forget_tip(self) -> None:
        """Read the branch before the next landing: others may have recorded what this queue moved it to."""
        self._landed = None

    def _withdrawn(self, attempt: Attempt) -> bool:
        """Return whether a human cancelled the candidate meanwhile."""
        now = self._context.store.attempts.get(attempt.id)
        return now is not None and now.status == "ended" and now.outcome == "cancelled"

    async def close(self) -> None:
        """Remove the queue's own worktree."""
        await self._verifier.close()

    async def _settle(self) -> FactsSettled | QueueIdle:
        if not self._verifier.fact_refresher.waiting():
            return QueueIdle()
        await self._verifier.fact_refresher.settle(await session_tip(self._context, self._run))
        return FactsSettled()

    async def _hold(self) -> BranchHeld | None:
        """Return the worktree that has the session branch checked out, unless its folder was deleted; else None."""
        for each in await worktree.worktrees_on_branch(self._context.repository, self._run.session_branch):
            # A deleted folder holds nothing. Git's lock is for worktrees on disks that are not always mounted.
            if each.locked or each.path.exists():
                return BranchHeld(each.path)
        return None

    async def _land(self, attempt: Attempt) -> QueueStep:
        action = self._context.store.actions.get(attempt.action_id)
        if action is None or attempt.head_sha is None:
            raise LookupError(attempt.id)
        # A review, or a tester that changed nothing, hands in its base: there is nothing to merge.
        if attempt.head_sha == attempt.base_sha:
            return await self._record(action, attempt)
        # The first try assumes that the branch was not moved since, which saves
        # reading it; the ref update compares anyway.
        tip = self._landed
        for _ in range(MAX_LANDING_TRIES):
            tip = tip or await self._tip()
            step = await self._land_on(tip, action, attempt, attempt.head_sha)
            if isinstance(step, CandidateRefused):
                # A refusal on an outdated tip says nothing: the user's commit may have
                # fixed what failed. Try again on the current one.
                if tip == await session_tip(self._context, self._run):
                    return self._refuse(attempt, step)
            elif step is not None:
                return step
            tip = None
        moving = f"{self._run.session_branch} kept moving while this was added to it; the work itself was not refused"
        return self._refuse(attempt, CandidateRefused("conflict", moving))

    async def _land_on(
        self, tip: Commit, action: Action, attempt: Attempt, head: Commit
    ) -> CandidateLanded | BranchHeld | CandidateRefused | None:
        """Try to land a candidate on a tip; None, or a refusal the caller ignores, if the tip is outdated."""
        merged = await integrate(self._context, self._run, action, head=head, tip=tip)
        if isinstance(merged, IntegrationConflict):
            return CandidateRefused("conflict", merged.why)
        proven = await self._verifier.candidate(action, attempt, merged.commit, tip)
        if not proven.verification.passed:
            return CandidateRefused(_outcome(proven.verification), summarize_failures(proven.verification))
        if proven.broken:
            return CandidateRefused("gate_failed", proven.broken_summary)
        return await self._publish(action, attempt, head, proven, tip)

    async def _record(self, action: Action, attempt: Attempt) -> QueueStep:
        """Record a candidate without a commit; if the reviewed code changed since, have it reviewed again."""
        outdated = await record_without_commit(self._context, self._run, attempt, action)
        return (
            ReviewRecorded(attempt.base_sha)
            if outdated is None
            else self._refuse(attempt, CandidateRefused("conflict", outdated))
        )

    async def _tip(self) -> Commit:
        """Return the session branch's tip, with all facts rechecked there.

        Raises RepositoryError if the branch no longer contains what this queue landed.
        """
        tip = await session_tip(self._context, self._run)
        landed = self._landed or last_landed(self._context.store, self._run)
        # A landing records its own changes, so only what others put on top since then can have made facts stale.
        before = landed or self._run.base_sha
        if landed is not None and landed != tip:
            await require_landed_on_branch(self._context, self._run, landed, tip)
        if tip not in {before, self._seen}:
            self._verifier.fact_refresher.mark_stale(await commits.changed_paths(self._context.git, before, tip), tip)
            self._seen = tip
        await self._verifier.fact_refresher.settle(tip)
        return tip

    async def _publish(
        self, action: Action, attempt: Attempt, head: Commit, proven: CandidateResult, tip: Commit
    ) -> CandidateLanded | BranchHeld | CandidateRefused | None:
        """Move the session branch to the verified commit and record it; None if the branch moved meanwhile."""
        # The checks took minutes, in which the user may have checked the branch out.
        hold = await self._hold()
        if hold is not None:
            return hold
        intent = self._intend(action, attempt, proven.verification, tip)
        if isinstance(intent, CandidateRefused):
            return intent
        work = refs.work_ref(attempt.id)
        # The ref transaction also needs the work ref at `head`. An owner that took over moves that ref first, so this
        # update fails if it comes too late: see `_claim_candidate` in record.py.
        if not await refs.move_and_delete(
            self._context.git, intent.ref, new=intent.new, old=intent.old, drop=work, kept=head
        ):
            with owner_transaction(self._context.store, self._run):
                self._context.store.intents.settle(intent.id, done=False)
            return None
        record_landed(self._context, self._run, attempt.id, intent.new, proven.changed, proven.rechecked)
        self._landed = intent.new
        return CandidateLanded(intent.new)

    def _intend(
        self, action: Action, attempt: Attempt, verification: Verification, tip: Commit
    ) -> Intent | CandidateRefused:
        """Record the intended ref update with the evidence: after a crash the branch shows whether it happened.

        Refuse the candidate if its preconditions no longer hold.
        """
        store = self._context.store
        intent = Intent(
            id=new_id(12),
            run_id=self._run.id,
            attempt_id=attempt.id,
            fence=self._run.fence,
            ref=session_ref(self._run),
            old=tip,
            new=verification.commit,
        )
        with owner_transaction(store, self._run, durable=True):
            lacking = store.facts.lacking(action.goal_id, action.preconditions)
            # The phase, the evidence and the intent are one transaction: after a crash
            # `resolve_intent` finds all it needs to record.
            if not lacking:
                store.attempts.advance(attempt.id, fence=attempt.fence, phase="landing", verification=verification)
                store.intents.add(intent)
        if lacking:
            return CandidateRefused("conflict", f"what it builds on no longer holds: {', '.join(lacking)}")
        return intent

    def _refuse(self, attempt: Attempt, refused: CandidateRefused) -> CandidateRefused:
        why = self._context.redactor.clean(refused.why)
        end_attempt(self._context.store, self._run, attempt.id, AttemptEnd(refused.outcome, why), head=attempt.head_sha)
        return CandidateRefused(refused.outcome, why)


def _outcome(verification: Verification) -> AttemptOutcome:
    """Return the attempt's outcome: a timeout, a failed contract, or a failed gate, in this order."""
    failed = [*(each.verdict for each in verification.failures), *(each.verdict for each in verification.broken_gates)]
    if "timeout" in failed:
        return "timeout"
    return "contract_failed" if verification.failures else "gate_failed"
