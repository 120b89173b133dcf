"""The merge queue of a run: candidates are proven in parallel, and land together on the tree that was proven."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import takewhile

from msgspec import Struct, structs

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.ports import Merger
from scaffold.core.proof.gates import GateResult
from scaffold.host.slots import usable_cores
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.facts.story_steps import unpin_contained
from scaffold.landing.integration import Integrated, why_merge_failed
from scaffold.landing.proving.batch_check import BatchVerifier, lands_with, with_gates_of_batch
from scaffold.landing.proving.candidate_check import CandidateResult, CandidateVerifier, outcome_of
from scaffold.landing.proving.candidate_line import Line, end_tasks
from scaffold.landing.proving.checkout import LANDING, Checkouts, names_of_lanes
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.proving.proof_setup import ProofSetup
from scaffold.landing.queue.arrangement import MAX_LANES
from scaffold.landing.queue.change_approvals import ChangeApprovals, Rejected
from scaffold.landing.queue.landed_notices import tell_running_agents
from scaffold.landing.queue.order import QueueOrder
from scaffold.landing.queue.publish import Proven, SessionBranch, Unpublished, publish
from scaffold.landing.queue.step_result import (
    CANCELLED,
    WORK_GONE,
    BatchLanded,
    CandidateRefused,
    FactsSettled,
    QueueIdle,
    QueueStep,
    StepRecorded,
    end_candidate,
    record_candidate,
)
from scaffold.landing.resolving.background_merges import BackgroundMerges
from scaffold.run.context import RunContext
from scaffold.run.failures.refused_work import summarize_failures

MAX_LANDING_TRIES = 5


class _Batch(Struct, kw_only=True):
    """The lanes at the front that are proven together; a batch that fails is halved until one candidate is left."""

    size: int | None = None
    """None until the first lane is proven: until then, more may join."""
    failed_together: int = 0
    proof: asyncio.Task[CandidateResult] | None = None
    proven: int = 0
    """How many lanes `proof` is about."""

    @property
    def next_size(self) -> int:
        """How many lanes to prove next."""
        return max(1, self.failed_together // 2) if self.failed_together else self.size or 0


class MergeQueue:
    """Lands the candidates of one run; only the owner of the run's lease may use it."""

    def __init__(
        self,
        context: RunContext,
        run: Run,
        arrivals: Callable[[], asyncio.Event] = asyncio.Event,
        *,
        merger: Merger | None = None,
    ) -> None:
        """`arrivals` returns an event that is set when a candidate may have been handed in or withdrawn.

        `merger` is asked about conflicts that no program can decide.
        """
        self._context = context
        self._run = run
        self._arrivals = arrivals
        self._setup = setup = ProofSetup(context, run)
        # The next landing has a checkout of its own, so that it does not wait for those behind it.
        self._front = Checkouts(context, run, [LANDING])
        # The repository's services run once per run, so checks that use them cannot run in parallel.
        side_by_side = not run.settings.environment.services
        self._lanes = Checkouts(context, run, names_of_lanes(usable_cores())) if side_by_side else self._front
        self._refresher = FactRefresher(context, run, self._front, lambda: setup.baseline)
        self._batch_verifier = BatchVerifier(context, run, setup, self._front, self._refresher)
        verifier = CandidateVerifier(setup, self._refresher, front=self._front, lanes=self._lanes)
        self._line = Line(context, verifier, run.settings.landing.tracked_list)
        self.approvals = ChangeApprovals(context, run)
        """The humans' approvals of the candidates."""
        self._merges = BackgroundMerges(context, run, self._lanes, merger)
        self._order = QueueOrder(context, run, lanes=MAX_LANES if side_by_side else 1)
        self._branch = SessionBranch(context, run, self._refresher)
        self._batch = _Batch()
        self._candidates: dict[AttemptId, Attempt] = {}
        self._tries = Counter[AttemptId]()
        self._rearranged = False
        """Whether candidates left the line, or are held, so that others may join it."""
        self._busy = asyncio.Lock()

    async def step(self) -> QueueStep:
        """Land proven candidates, or refuse one; if none can land, recheck stale facts.

        The proofs of the next candidates go on after this returns.
        """
        async with self._busy:
            step: QueueStep | None = None
            try:
                step = await self._next_step()
            except GitError:
                self._line.pins_commits = True
                raise
            finally:
                if step is None:  # no proof outlives an error or a cancellation
                    await self.end_proofs()
            return step

    async def recheck_facts(self) -> None:
        """If others moved the session branch, recheck the run's facts; actions with refuted facts run again."""
        async with self._busy:
            await self._clear_line()
            await self._branch.read_tip()

    async def run_all_gates(self) -> tuple[GateResult, ...]:
        """Return all gates' results at the branch's tip, compared with the baseline."""
        async with self._busy:
            await self._clear_line()
            return await self._batch_verifier.run_final_gates(await session_tip(self._context, self._run))

    def forget_tip(self) -> None:
        """Read branch and candidates again before the next landing, because others may have recorded landings."""
        self._branch.landed = None
        self._candidates = {}
        self._setup.forget()

    @property
    def held(self) -> int:
        """How many candidates conflict with landed work and wait for actions that are done again."""
        return self._order.held

    async def release_held(self) -> None:
        """Stop holding candidates on this tip, because the actions that they wait for do not go on."""
        async with self._busy:
            self._order.release_held(await self._queue_tip())

    async def end_proofs(self) -> None:
        """End all proofs and all merges by helpers; the next step starts them again."""
        await self._clear_line()
        await self._merges.close()

    async def close(self) -> None:
        """End all proofs and remove the queue's own worktrees."""
        await self.end_proofs()
        self._order.clear()
        # `close` also stops services, whose containers may have files of any worktree mounted.
        await self._front.close()
        if self._lanes is not self._front:
            await self._lanes.remove()

    async def _next_step(self) -> QueueStep:
        while True:
            self._rearranged, arrived = False, self._arrivals()
            waiting = self._waiting_candidates()
            await self._drop_withdrawn({attempt.id for attempt in waiting})
            step = next((each for each in waiting if each.kind == "step" or each.edits), None)
            if step is not None:
                return await self._record_step(step)
            if not waiting:
                return await self._settle_facts()
            # Moving a branch under its checkout would make the user's next commit revert the landing.
            hold = await self._branch.held()
            if hold is not None:
                return hold
            # A review, or a tester that changed nothing, hands in its base, so there is nothing to merge.
            unchanged = next((each for each in waiting if each.head_sha == each.base_sha), None)
            if unchanged is not None:
                return await self._record_step(unchanged)
            done = await self._admit_candidates(waiting) or await self._decide_front()
            if done is not None:
                return done
            if self._rearranged:
                continue
            merging = self._merges.pending
            gates = self._batch.proven if self._batch.proof else 0
            self._order.show(self._line.lanes, gates=gates, merging=merging, awaiting=self.approvals.awaiting)
            if not self._line.lanes and not (merging and not self._refresher.waiting()):
                return await self._settle_facts()
            await self._wait_for_change(arrived)

    def _waiting_candidates(self) -> tuple[Attempt, ...]:
        # Oldest first. Cached: while a candidate waits, its stored row changes only when it ends.
        attempts = self._context.store.attempts
        ids = attempts.ids_waiting_to_land(self._run.id)
        if not self._candidates.keys() >= {*ids}:
            self._candidates = {each.id: each for each in attempts.waiting_to_land(self._run.id)}
        return tuple(self._candidates[each] for each in ids if each in self._candidates)

    async def _admit_candidates(self, waiting: Sequence[Attempt]) -> CandidateRefused | None:
        tip = await self._queue_tip()
        merging, awaiting = self._merges.pending.keys(), self.approvals.set_aside(tip)
        chosen = await self._order.next_to_prove(waiting, self._line.ids(), tip, merging=merging, awaiting=awaiting)
        alone = len(chosen) == 1 and not self._line.lanes
        for action, attempt in chosen:
            base = self._line.end(tip)
            try:
                merged = await self._merges.merge(action, attempt, base)
                if isinstance(merged, Integrated):
                    if refused := await self._add_to_line(action, attempt, merged, tip=tip, alone=alone):
                        return refused
                    continue
            except GitError:
                # Only a candidate whose work is gone is refused; otherwise the machine is at fault.
                if attempt.head_sha is not None and await self._context.git.has_all(attempt.head_sha, known=tip):
                    raise
                return end_candidate(self._context, self._run, attempt, CandidateRefused("lost", WORK_GONE))
            if not self._merges.begin(action, attempt, base, merged, first=not self._line.lanes):
                if self._line.lanes:
                    self._order.postpone(attempt.id, self._line.ids())
                elif not await self._order.must_wait(attempt, tip):
                    return await self._refuse_candidate(
                        attempt, tip, CandidateRefused("conflict", merged.why, merged.told)
                    )
            # The arrangement of the others depends on it, so they are arranged again.
            self._rearranged = True
            break
        return None

    async def _add_to_line(
        self, action: Action, attempt: Attempt, merged: Integrated, *, tip: Commit, alone: bool
    ) -> CandidateRefused | None:
        candidate = await self._line.candidate(action, attempt, merged, self._line.end(tip))
        match await self.approvals.verdict_on(candidate, tip):
            case "approved":
                await self._line.add(candidate, alone=alone)
            case "waits":
                self._rearranged = True
            case "later":
                self._order.postpone(attempt.id, self._line.ids())
                self._rearranged = True
            case Rejected(why=why, outcome=outcome):
                await self.approvals.end(attempt.id)
                return end_candidate(self._context, self._run, attempt, CandidateRefused(outcome, why))
        return None

    async def _decide_front(self) -> QueueStep | None:
        """Land or refuse the front of the line; None if it is not proven yet."""
        lanes = self._line.lanes
        failed = next((place for place, lane in enumerate(lanes) if lane.shown and not lane.shown.result.passed), None)
        if failed == 0:
            return await self._judge_failed_front()
        if failed is not None:
            # It failed on top of others that may not land either, so it is proven again once they have.
            self._order.postpone(lanes[failed].id, self._line.ids()[:failed])
            await self._drop_from(failed)
            return None
        front = lanes[0].shown if lanes else None
        if front is None:
            return None
        if front.whole:
            proven = Proven(candidate=lanes[0].candidate, verification=front.result.verification)
            return await self._publish_batch([proven], front.result)
        if self._batch.size is None:
            self._batch.size = len(self._line.lanes)
        return await self._decide_batch()

    async def _decide_batch(self) -> QueueStep | None:
        """Prove a batch of candidates that passed alone; land it, or halve it to find the one that fails."""
        batch = self._batch
        if batch.proof is None:
            count = self._order.count_together(self._line.ids()[: batch.next_size])
            lanes = self._line.lanes[:count]
            if all(lane.proof.done() for lane in lanes):
                first, *others = [lane.proven_alone for lane in lanes]
                proven = [first, *takewhile(partial(lands_with, first), others)]
                batch.proof, batch.proven = asyncio.create_task(self._batch_verifier.together(proven)), len(proven)
        if batch.proof is None or not batch.proof.done():
            return None
        result, together = batch.proof.result(), self._line.lanes[: batch.proven]
        verifications = with_gates_of_batch([lane.proven_alone for lane in together], result.verification)
        if result.passed:
            pairs = zip(together, verifications, strict=True)
            return await self._publish_batch(
                [Proven(candidate=lane.candidate, verification=verification) for lane, verification in pairs], result
            )
        if len(together) == 1:
            return await self._refuse_front(structs.replace(result, verification=verifications[0]))
        batch.failed_together, batch.proof = len(together), None
        return await self._decide_batch()

    async def _publish_batch(self, batch: Sequence[Proven], result: CandidateResult) -> QueueStep | None:
        """Move the session branch to the proven commit and record it; None if the branch has moved."""
        # The user may have checked the branch out while the checks ran.
        hold = await self._branch.held()
        if hold is not None:
            return hold
        first = batch[0].candidate
        published = await publish(self._context, self._run, batch, result.rechecked, self.approvals)
        if isinstance(published, Unpublished):
            return await self._drop_unpublished(published, first.base)
        if published is None:
            return await self._try_again(first.attempt)
        landed = tuple(each.candidate.attempt.id for each in batch)
        self._branch.landed = published
        self._tries.clear()
        self._setup.settle(each.verification for each in batch)
        await self._line.advance(len(batch))
        self._batch = _Batch(failed_together=max(0, self._batch.failed_together - len(batch)))
        self._order.count_overtaken(landed)
        for each in batch:
            await unpin_contained(self._context, each.candidate.attempt, landed=True)
            await self.approvals.end(each.candidate.attempt.id)
        keys = [each.candidate.action.key for each in batch]
        await tell_running_agents(self._context, self._run, old=first.base, new=published, landed=keys)
        return BatchLanded(published, landed)

    async def _drop_unpublished(self, unpublished: Unpublished, tip: Commit) -> CandidateRefused | None:
        """Remove the candidate that kept a batch from landing, and refuse it unless it was withdrawn."""
        place = self._line.ids().index(unpublished.attempt_id)
        attempt = self._line.lanes[place].candidate.attempt
        await self._drop_from(place)
        if unpublished.cause == "unapproved":  # it is asked about again, as it would land now
            return None
        if unpublished.cause == "withdrawn":
            return CANCELLED
        if unpublished.cause == "unpinned":
            return end_candidate(self._context, self._run, attempt, CandidateRefused("lost", WORK_GONE))
        lacking = f"what it builds on no longer holds: {', '.join(unpublished.lacking)}"
        return await self._refuse_candidate(attempt, tip, CandidateRefused("conflict", lacking))

    async def _try_again(self, attempt: Attempt) -> CandidateRefused | None:
        """Prove everything again on the moved branch; refuse the candidate if the branch never stops moving."""
        await self._clear_line()
        self._branch.landed = None
        self._tries[attempt.id] += 1
        if self._tries[attempt.id] < MAX_LANDING_TRIES:
            return None
        branch = self._run.session_branch
        moving = f"{branch} kept moving while this was added to it; the work itself was not refused"
        return end_candidate(self._context, self._run, attempt, CandidateRefused("conflict", moving))

    async def _judge_failed_front(self) -> CandidateRefused | None:
        """Refuse a failed front; one that was proven in parallel with others is proven once more, alone."""
        # Its checks may need what others used at the same time, such as a port.
        front = self._line.lanes[0]
        result = front.proof.result()
        if result.whole or all(each.exit_code is None for each in result.result.verification.failures):
            return await self._refuse_front(result.result)
        self._order.prove_alone(front.id)
        await self._clear_line()
        return None

    async def _refuse_front(self, result: CandidateResult) -> CandidateRefused | None:
        candidate, verification = self._line.lanes[0].candidate, result.verification
        if verification.passed:
            refused = CandidateRefused("gate_failed", result.broken_summary)
        else:
            refused = CandidateRefused(outcome_of(verification), summarize_failures(verification))
        if candidate.merged and refused.outcome != "timeout":
            # Both sides passed alone, so the failure does not count against its agent.
            refused = CandidateRefused("conflict", why_merge_failed(candidate.merged, refused.why), candidate.merged)
        return await self._refuse_candidate(candidate.attempt, candidate.base, refused)

    async def _refuse_candidate(
        self, attempt: Attempt, tip: Commit, refused: CandidateRefused
    ) -> CandidateRefused | None:
        """Return a candidate to its action; None if it is proven again because the tip has moved."""
        self._order.prove_alone(None)
        if attempt.id in self._line.ids():
            await self._drop_from(self._line.ids().index(attempt.id))
        # The user's commits may have fixed what failed, so a refusal on an outdated tip does not count.
        if tip != await session_tip(self._context, self._run):
            return await self._try_again(attempt)
        return end_candidate(self._context, self._run, attempt, refused)

    async def _record_step(self, attempt: Attempt) -> QueueStep:
        step = await record_candidate(self._context, self._run, attempt)
        if isinstance(step, StepRecorded):
            self._candidates = {}
        return step

    async def _settle_facts(self) -> FactsSettled | QueueIdle:
        if not self._refresher.waiting():
            return QueueIdle()
        await self._refresher.settle(await session_tip(self._context, self._run))
        return FactsSettled()

    async def _queue_tip(self) -> Commit:
        """Return the commit on which the next landing builds, with all facts rechecked there."""
        # Where this queue left the branch: moving it fails if others have moved it since.
        if self._line.lanes:
            return self._line.lanes[0].candidate.base
        return self._branch.landed or await self._branch.read_tip()

    async def _drop_withdrawn(self, waiting: Collection[AttemptId]) -> None:
        # A human may have cancelled candidates that are in the line.
        await self._merges.keep(waiting)
        await self.approvals.keep(waiting)
        gone = next((place for place, each in enumerate(self._line.ids()) if each not in waiting), None)
        if gone is not None:
            await self._drop_from(gone)
            self._rearranged = False

    async def _drop_from(self, place: int) -> None:
        self._rearranged = True
        await self._line.drop_from(place)
        batch = self._batch
        if batch.proof is not None and place < batch.proven:
            await end_tasks([batch.proof])
            batch.proof = None
        if place < batch.failed_together:
            batch.failed_together = 0
        if batch.proof is None:
            batch.size = None

    async def _clear_line(self) -> None:
        await self._drop_from(0)

    async def _wait_for_change(self, arrived: asyncio.Event) -> None:
        arrival = asyncio.create_task(arrived.wait())
        proofs = [lane.proof for lane in self._line.lanes if not lane.proof.done()]
        batch = [self._batch.proof] if self._batch.proof is not None else []
        try:
            await asyncio.wait({arrival, *proofs, *batch, *self._merges.tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
