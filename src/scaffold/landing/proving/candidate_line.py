"""The line of candidates that are proven in parallel, each on the commit of the one ahead of it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Action, Attempt
from scaffold.core.run_settings import WriteBack
from scaffold.git import refs
from scaffold.landing.integration import Integrated
from scaffold.landing.proving.batch_check import ProvenAlone
from scaffold.landing.proving.candidate_check import Candidate, CandidateResult, CandidateVerifier
from scaffold.run.context import RunContext
from scaffold.run.task_list import with_marks_of


class LaneProof(Struct, frozen=True, kw_only=True):
    """The result of one candidate's proof."""

    result: CandidateResult
    whole: bool
    """Whether it includes the gates and the facts of others, so that the candidate may land alone."""


class Lane:
    """A candidate and the task that proves it."""

    def __init__(self, candidate: Candidate, proof: asyncio.Task[LaneProof]) -> None:
        self.candidate = candidate
        self.proof = proof

    @property
    def id(self) -> AttemptId:
        """The id of the candidate's attempt."""
        return self.candidate.attempt.id

    @property
    def shown(self) -> LaneProof | None:
        """The proof's result; None while it runs. Raises what the proof raised."""
        return self.proof.result() if self.proof.done() else None

    @property
    def proven_alone(self) -> ProvenAlone:
        """The candidate with its verification; its proof has ended."""
        return ProvenAlone(candidate=self.candidate, verification=self.proof.result().result.verification)


class Line:
    """The lanes of a run's merge queue, in the order in which they land."""

    def __init__(self, context: RunContext, verifier: CandidateVerifier, listed: WriteBack | None = None) -> None:
        """Take the list in which commits mark tasks; None if they mark none."""
        self._context = context
        self._listed = listed
        self._verifier = verifier
        self.lanes: list[Lane] = []
        self.pins_commits = False
        """Whether refs keep the commits of lanes; otherwise a `git gc` of the user may delete them."""

    def end(self, tip: Commit) -> Commit:
        """Return the commit under the next candidate: that of the last lane, or the branch's `tip`."""
        return self.lanes[-1].candidate.commit if self.lanes else tip

    async def candidate(self, action: Action, attempt: Attempt, merged: Integrated, base: Commit) -> Candidate:
        """Return what would land of an attempt on `base`."""
        marked_base = await with_marks_of(self._context.git, self._listed, base, merged.commit)
        return Candidate(
            action=action,
            attempt=attempt,
            base=base,
            commit=merged.commit,
            marked_base=marked_base if marked_base != base else None,
            unmarked=merged.unmarked,
            merged=merged.told,
            needs_all_tests=merged.needs_all_tests,
        )

    async def add(self, candidate: Candidate, *, alone: bool) -> None:
        """Append a candidate and start its proof; with `alone`, including the gates and the facts of others."""
        if self.pins_commits:
            git, own, base = self._context.git, candidate.attempt.id, candidate.base
            await refs.pin(git, refs.lane_ref(own), candidate.commit, known=base)
            if candidate.marked_base is not None:
                await refs.pin(git, refs.lane_base_ref(own), candidate.marked_base, known=base)
        proof = asyncio.create_task(self._prove_candidate(candidate, alone=alone, first=not self.lanes))
        self.lanes.append(Lane(candidate, proof))

    async def _prove_candidate(self, candidate: Candidate, *, alone: bool, first: bool) -> LaneProof:
        # On the branch's tip, the worker may have proven exactly what lands.
        if alone or (first and await self._verifier.is_known(candidate)):
            return LaneProof(result=await self._verifier.whole(candidate), whole=True)
        verification = await self._verifier.own(candidate)
        return LaneProof(result=CandidateResult(verification=verification), whole=False)

    def ids(self) -> tuple[AttemptId, ...]:
        """Return the ids of the candidates' attempts, in order."""
        return tuple(lane.id for lane in self.lanes)

    async def advance(self, count: int) -> None:
        """Remove the first `count` lanes, which have landed, so that the others are on the branch's tip."""
        landed, self.lanes = self.lanes[:count], self.lanes[count:]
        await self._unpin_lanes(landed)

    async def drop_from(self, place: int) -> None:
        """Remove a lane and all after it, which build on it, and end their proofs."""
        dropped, self.lanes = self.lanes[place:], self.lanes[:place]
        await end_tasks([lane.proof for lane in dropped])
        await self._unpin_lanes(dropped)

    async def _unpin_lanes(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes if self.pins_commits else ():
            await refs.delete(self._context.git, refs.lane_ref(lane.id), old=lane.candidate.commit)
            if lane.candidate.marked_base is not None:
                await refs.delete(self._context.git, refs.lane_base_ref(lane.id), old=lane.candidate.marked_base)


async def end_tasks(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, whatever they raise."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio would report the error of a proof that nobody needs
