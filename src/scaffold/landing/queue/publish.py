"""Move the session branch to a proven commit and record what landed; read what others did to the branch since."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.change_approval import ChangeSubject
from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.landing.branch_move import Intent
from scaffold.core.model import Run
from scaffold.core.proof.contract import Verification
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import (
    LandedAttempt,
    last_landed,
    record_landed,
    require_landed_on_branch,
    session_ref,
    session_tip,
)
from scaffold.landing.facts.stale_facts import RecheckResult
from scaffold.landing.proving.candidate_check import Candidate
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.queue.change_approvals import ChangeApprovals
from scaffold.landing.queue.step_result import BranchHeld
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store


class Proven(Struct, frozen=True, kw_only=True):
    """A candidate that may land, with its whole verification."""

    candidate: Candidate
    verification: Verification


class Unpublished(Struct, frozen=True, kw_only=True):
    """Nothing landed, because of one candidate of the batch."""

    attempt_id: AttemptId
    cause: Literal["lacking", "withdrawn", "unpinned", "unapproved"]
    """Its preconditions no longer hold | a human cancelled it | the ref of its work was moved | a human has not
    approved what would land."""
    lacking: tuple[str, ...] = ()
    """The preconditions that no longer hold."""


async def publish(
    context: RunContext,
    run: Run,
    batch: Sequence[Proven],
    rechecked: Sequence[RecheckResult],
    approvals: ChangeApprovals,
) -> Commit | Unpublished | None:
    """Land a batch with one update of the branch and one transaction that records it.

    Return the branch's new tip; None if another process moved the branch first. The proven tree lands: that of the last
    candidate's commit, whose ancestors down to the branch's tip are the commits of the others.
    """
    store, git, listed = context.store, context.git, run.settings.landing.tracked_list
    changed = [await own_changed_paths(git, listed, each.candidate.base, each.candidate.commit) for each in batch]
    asked = batch if approvals.required else ()
    subjects = [await approvals.subject(each.candidate, each.verification.doubts) for each in asked]
    intents = _record_intents(context, run, batch, approvals, subjects)
    if isinstance(intents, Unpublished):
        return intents
    tip, head = intents[0].old, intents[0].new
    # The ref transaction also requires each work ref at its head. An owner that takes over moves these refs first, so
    # an update that comes too late fails: see `_claim_candidate` in landing_record.py.
    work = {refs.work_ref(each.candidate.attempt.id): _require_head(each.candidate) for each in batch}
    if not await refs.move_and_delete(git, session_ref(run), new=head, old=tip, drop=work):
        with owner_transaction(store, run):
            for intent in intents:
                store.intents.settle(intent.id, done=False)
        return await _find_unpinned(context, run, batch, tip)
    landings = [
        LandedAttempt(
            attempt_id=each.candidate.attempt.id,
            commit=each.candidate.commit,
            changed=paths,
            unmarked=each.candidate.unmarked,
        )
        for each, paths in zip(batch, changed, strict=True)
    ]
    record_landed(context, run, landings, head=head, rechecked=rechecked)
    return head


async def _find_unpinned(context: RunContext, run: Run, batch: Sequence[Proven], tip: Commit) -> Unpublished | None:
    """Return the candidate whose work ref kept the branch from moving; None if others moved the branch."""
    if await session_tip(context, run) != tip:
        return None
    for each in batch:
        attempt_id = each.candidate.attempt.id
        if await refs.resolve(context.git, refs.work_ref(attempt_id)) != _require_head(each.candidate):
            return Unpublished(attempt_id=attempt_id, cause="unpinned")
    return None


def _record_intents(
    context: RunContext,
    run: Run,
    batch: Sequence[Proven],
    approvals: ChangeApprovals,
    subjects: Sequence[ChangeSubject],
) -> tuple[Intent, ...] | Unpublished:
    """Record the intended ref update with the evidence; after a crash the branch shows whether it happened."""
    store = context.store
    intents = tuple(
        Intent(
            id=new_id(12),
            run_id=run.id,
            attempt_id=each.candidate.attempt.id,
            fence=run.fence,
            ref=session_ref(run),
            old=batch[0].candidate.base,
            new=batch[-1].candidate.commit,
            commit=each.candidate.commit,
        )
        for each in batch
    )
    with owner_transaction(store, run, durable=True):
        # A batch lands as a whole or not at all.
        if (unpublished := _find_obstacle(store, batch, approvals, subjects)) is not None:
            return unpublished
        # Phase, evidence and intents are one transaction, so that `resolve_intent` finds all of them after a crash.
        for each, intent in zip(batch, intents, strict=True):
            attempt = each.candidate.attempt
            # A human who approved the change saw its doubts.
            reviewed = each.verification.reviewed or approvals.required
            verification = msgspec.structs.replace(each.verification, commit=each.candidate.commit, reviewed=reviewed)
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="landing", verification=verification)
            store.intents.add(intent)
    return intents


def _find_obstacle(
    store: Store, batch: Sequence[Proven], approvals: ChangeApprovals, subjects: Sequence[ChangeSubject]
) -> Unpublished | None:
    for each in batch:
        action, attempt = each.candidate.action, each.candidate.attempt
        try:
            store.attempts.check(attempt.id, fence=attempt.fence)
        except StaleFence:
            # A human cancelled the attempt while its checks ran; the run's own fence was checked before.
            return Unpublished(attempt_id=attempt.id, cause="withdrawn")
        lacking = store.facts.lacking(action.goal_id, action.preconditions)
        if lacking:
            return Unpublished(attempt_id=attempt.id, cause="lacking", lacking=tuple(lacking))
    for each, subject in zip(batch, subjects, strict=False):  # no subjects if no human is asked
        if approvals.answers(subject, each.candidate.action.id).approved is None:
            return Unpublished(attempt_id=each.candidate.attempt.id, cause="unapproved")
    return None


def _require_head(candidate: Candidate) -> Commit:
    if candidate.attempt.head_sha is None:
        raise LookupError(candidate.attempt.id)
    return candidate.attempt.head_sha


class SessionBranch:
    """Reads the session branch of a run for its owner, and rechecks facts if others moved it."""

    def __init__(self, context: RunContext, run: Run, refresher: FactRefresher) -> None:
        self._context = context
        self._run = run
        self._refresher = refresher
        self.landed: Commit | None = None
        """Where the queue left the branch; None if it must be read."""
        self._seen: Commit | None = None
        """The tip for which facts were last marked stale."""

    async def held(self) -> BranchHeld | None:
        """Return the worktree that has the session branch checked out; None if there is none with a folder."""
        for each in await worktree.worktrees_on_branch(self._context.repository, self._run.session_branch):
            # A deleted folder does not count, unless git's lock says that it is on a disk that is not mounted.
            if each.locked or each.path.exists():
                return BranchHeld(each.path)
        return None

    async def read_tip(self) -> Commit:
        """Return the session branch's tip, with all facts rechecked there.

        Raises RepositoryError if the branch no longer contains what this queue landed.
        """
        tip = await session_tip(self._context, self._run)
        landed = self.landed or last_landed(self._context.store, self._run)
        # A landing records its own changes, so only commits of others since then can have made facts stale.
        before = landed or self._run.base_sha
        if landed is not None and landed != tip:
            await require_landed_on_branch(self._context, self._run, landed, tip)
        if tip not in {before, self._seen}:
            self._refresher.mark_stale(await commits.changed_paths(self._context.git, before, tip), tip)
            self._seen = tip
        await self._refresher.settle(tip)
        return tip
