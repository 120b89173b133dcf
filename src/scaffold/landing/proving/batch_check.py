"""Verify candidates that land together: the gates and the facts of others, once, on the last one's tree."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import GateResult
from scaffold.landing.facts.landing_record import record_final_gates
from scaffold.landing.proving.candidate_check import Candidate, CandidateResult, with_facts_of_others
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.proving.proof_setup import ProofSetup, with_agreement
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.context import RunContext
from scaffold.run.resources.candidate_environment import environment_at
from scaffold.run.task_list import with_marks_of
from scaffold.verify.contract.check_runs import During
from scaffold.verify.proof import GateProof, prove_gates
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.gate_results import judge_gates

BATCH_GATES, FINAL_GATES = "landing", "final"
"""The stages of the run in which its owner proves a batch | runs all gates at the end."""


class ProvenAlone(Struct, frozen=True, kw_only=True):
    """A candidate whose own contract passed on its commit."""

    candidate: Candidate
    verification: Verification


class BatchVerifier:
    """Verifies batches in a clean checkout of a run's merge queue."""

    def __init__(
        self, context: RunContext, run: Run, setup: ProofSetup, checkouts: Checkouts, refresher: FactRefresher
    ) -> None:
        self._context = context
        self._run = run
        self._setup = setup
        self._checkouts = checkouts
        self._refresher = refresher

    async def together(self, batch: Sequence[ProvenAlone]) -> CandidateResult:
        """Run the gates, and recheck the facts of others, on the tree of the batch's last candidate.

        The verification has the gates and their doubts only, not the results of the candidates' own contracts.
        """
        during = ActivityRecorder(self._context, self._run, stage=BATCH_GATES).during
        shown = await self._run_gates(batch, during)
        head = batch[-1].candidate.commit
        verification = Verification(commit=head, results=(), gates=shown.gates, doubts=shown.doubts)
        if not verification.passed:
            return CandidateResult(verification=verification)
        candidates = [each.candidate for each in batch]
        return await with_facts_of_others(self._setup, self._refresher, candidates, verification, during=during)

    async def run_final_gates(self, tip: Commit) -> tuple[GateResult, ...]:
        """Run all gates at the branch's tip as steps of the run.

        If they pass, they are evidence for facts that were carried over to the tip and that no check shows.
        """
        during = ActivityRecorder(self._context, self._run, stage=FINAL_GATES).during
        gates = await self.run_all_gates(tip, during=during)
        if not any(gate.blocks for gate in gates):
            record_final_gates(self._context, self._run, gates, tip)
        return gates

    async def run_all_gates(self, tip: Commit, *, during: During) -> tuple[GateResult, ...]:
        """Run all gates completely at the tip and compare them with the baseline; reuse known results."""
        baseline = await self._setup.gates_at(tip)
        if baseline is None:
            return ()
        base, gates = self._run.base_sha, self._run.settings.gates
        found = await environment_at(self._context, self._run, baseline.environment, tip, during=during)
        # The tip may need packages that the base did not.
        baseline = msgspec.structs.replace(baseline, environment=found.environment)
        # In the order of the landings.
        attempts = [each for each in self._context.store.attempts.for_run(self._run.id) if each.outcome == "landed"]
        ordered = sorted(attempts, key=lambda each: each.ended_at or each.queued_at)
        request = ProofRequest(
            baseline=baseline,
            focused=False,
            files=("**",),
            landed_gates=tuple(gate for each in ordered if each.verification for gate in each.verification.gates),
            gates_off=gates.off,
            find_gate_run=self._context.store.baselines.find,
            store_gate_run=self._setup.keep,
            gate_timeout_s=gates.timeout_s,
            slots=self._context.slots(gates.slots),
        )
        async with (
            self._checkouts.taken(during) as checkout,
            checkout.tree(found.environment, base=base, commit=tip) as tree,
        ):
            return await judge_gates(request, baseline, tree)

    async def _run_gates(self, batch: Sequence[ProvenAlone], during: During) -> GateProof:
        head = batch[-1].candidate.commit
        baseline = await self._setup.gates_at(head)
        if baseline is None:
            return GateProof(())
        async with self._checkouts.taken(during) as checkout:
            request = msgspec.structs.replace(await self._batch_request(batch), baseline=baseline)
            base = await with_marks_of(
                self._context.git, self._run.settings.landing.tracked_list, batch[0].candidate.base, head
            )
            bare = checkout.tree_without_checkout(base, head)
            request, environment = await self._setup.with_environment(request, bare)
            async with checkout.tree(environment, base=base, commit=head) as tree:
                return await prove_gates(request, request.baseline or baseline, tree)

    async def _batch_request(self, batch: Sequence[ProvenAlone]) -> ProofRequest:
        # What a candidate declared, or was agreed to, counts for its part of the change. That it changes only what it
        # may is part of its own proof.
        requests = [
            await self._setup.request(
                each.candidate.action, each.candidate.attempt, self._setup.gate_baseline, each.verification.accepted
            )
            for each in batch
        ]
        return msgspec.structs.replace(
            requests[0],
            contract=None,
            focused=not any(each.candidate.needs_all_tests for each in batch),
            files=tuple(dict.fromkeys(path for each in requests for path in each.files)),
            granted=tuple(dict.fromkeys(path for each in requests for path in each.granted)),
            accepted_losses=frozenset().union(*(each.accepted_losses for each in requests)),
        )


def lands_with(first: ProvenAlone, each: ProvenAlone) -> bool:
    """Return whether gates raised no doubt, or the same about blind gates: a batch could not tell other ones apart."""
    ours, theirs = (
        {*(before.doubts if before else ())} - {*one.verification.doubts}
        for one in (first, each)
        for before in (one.candidate.attempt.verification,)
    )
    return ours == theirs and all(doubt.code == "gates_blind" and not doubt.answer for doubt in ours)


def with_gates_of_batch(batch: Sequence[ProvenAlone], shown: Verification) -> tuple[Verification, ...]:
    """Return the verification of each candidate with the batch's gates."""
    # Each candidate `lands_with` the first, so a doubt that gates raise now was raised about all, or comes from the
    # combination: then it belongs to all, and no reviewer has agreed to it.
    proven = list[Verification]()
    for each in batch:
        doubts = (*each.verification.doubts, *(one for one in shown.doubts if one not in each.verification.doubts))
        verification = msgspec.structs.replace(each.verification, gates=shown.gates, doubts=doubts)
        handed_in = each.candidate.attempt.verification
        if handed_in is not None and each.verification.reviewed:
            verification = with_agreement(verification, handed_in)
        proven.append(verification)
    return tuple(proven)
