"""Verify one candidate on the tree that it would land on: its own contract, and the facts that it might break."""

from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import Action, Activity, Attempt
from scaffold.core.proof.contract import DoubtCode, Verification
from scaffold.core.states import AttemptOutcome
from scaffold.landing.facts.stale_facts import ProvenFacts, RecheckResult, affected_facts
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.proving.proof_setup import ProofSetup, agreed_verification, with_agreement
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.failures.refused_work import RefusalReason, describe_refusals, refusals_by_others
from scaffold.run.task_list import own_changed_paths
from scaffold.verify.contract.check_runs import During
from scaffold.verify.proof import proof_key, prove_candidate
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.unchanged_behaviour import with_unchanged_behaviour

CHECKING = Activity(label="checks what would land", is_whole=False, surrounds=True)
WORKER_DOUBTS: frozenset[DoubtCode] = frozenset(
    {
        *("not_executed", "vacuous_tests", "tests_not_passed", "flaky_tests", "ended_early"),
        *("settings_changed", "checks_changed", "criteria_not_cited"),
    }
)
"""Doubts from checks that only the worker runs."""


class Candidate(Struct, frozen=True, kw_only=True):
    """An attempt that waits to land, and what would land of it: one commit on `base`."""

    action: Action
    attempt: Attempt
    base: Commit
    """The branch's tip, or the commit of the candidate that lands before it."""
    commit: Commit
    marked_base: Commit | None = None
    """`base` with the tasks marked that `commit` marks in their list; None if it marks none."""
    unmarked: str = ""
    """Why its task is not marked as done, as the predicate of a sentence about the list; empty if it is marked."""
    merged: tuple[FileMerge, ...] = ()
    """The outcome of each file that it and landed work both changed, if one was in conflict."""
    needs_all_tests: bool = False
    """Whether every gate has to pass completely, because an agent or a lock tool combined both sides."""

    @property
    def own_base(self) -> Commit:
        """The commit that its own change is relative to; marks of tasks are not part of the change."""
        return self.marked_base or self.base


class CandidateResult(Struct, frozen=True, kw_only=True):
    """The verification of what would land, and its effect on the facts of other actions."""

    verification: Verification
    rechecked: tuple[RecheckResult, ...] = ()
    """Facts of other actions that depend on the changed paths and still hold."""
    broken: tuple[RecheckResult, ...] = ()
    """Facts of other actions that no longer hold."""

    @property
    def passed(self) -> bool:
        """Return whether it may land."""
        return self.verification.passed and not self.broken

    @property
    def broken_summary(self) -> str:
        """Return what the candidate breaks, with the failed checks, as text for its agent."""
        found: list[RefusalReason] = []
        for each in self.broken:
            facts = ", ".join(fact.assertion for fact in each.group.facts)
            found += refusals_by_others(facts, each.group.action.key, each.failures)
        return describe_refusals(found)


class CandidateVerifier:
    """Verifies candidates in the clean checkouts of a run's merge queue, several at once."""

    def __init__(self, setup: ProofSetup, refresher: FactRefresher, *, front: Checkouts, lanes: Checkouts) -> None:
        """Prove what lands alone in a checkout of `front`, and what is proven beside others in one of `lanes`."""
        self._context = setup.context
        self._run = setup.run
        self._setup = setup
        self._refresher = refresher
        self._front = front
        self._lanes = lanes

    async def whole(self, candidate: Candidate) -> CandidateResult:
        """Verify a candidate that lands alone: its contract, the gates, and the facts that it affects."""
        activities = ActivityRecorder(self._context, self._run, attempt_id=candidate.attempt.id)
        async with activities.during(CHECKING):
            verification = await self._verify_candidate(candidate, activities.during, with_gates=True)
            # Only for work that passes by itself: the checks of each other fact need a checkout.
            if not verification.passed:
                return CandidateResult(verification=verification)
            return await with_facts_of_others(
                self._setup, self._refresher, [candidate], verification, during=activities.during
            )

    async def own(self, candidate: Candidate) -> Verification:
        """Verify a candidate by its contract alone; gates and facts of others follow once for the batch."""
        activities = ActivityRecorder(self._context, self._run, attempt_id=candidate.attempt.id)
        async with activities.during(CHECKING):
            return await self._verify_candidate(candidate, activities.during, with_gates=False)

    async def is_known(self, candidate: Candidate) -> bool:
        """Return whether the worker has proven exactly this change in a clean checkout, so that nothing has to run."""
        proven = candidate.attempt.verification
        return proven is not None and bool(proven.proof_key) and await self._proof_key(candidate) == proven.proof_key

    async def _proof_key(self, candidate: Candidate) -> str:
        agreed = await agreed_verification(self._setup, candidate.attempt, candidate.commit, candidate.own_base)
        request = await self._proof_request(candidate, agreed.accepted if agreed else ())
        return await proof_key(request, self._context.git, candidate.own_base, candidate.commit)

    async def _proof_request(self, candidate: Candidate, accepted: Collection[str]) -> ProofRequest:
        setup = self._setup
        request = await setup.request(candidate.action, candidate.attempt, setup.gate_baseline, accepted)
        return msgspec.structs.replace(request, focused=not candidate.needs_all_tests)

    async def _verify_candidate(self, candidate: Candidate, during: During, *, with_gates: bool) -> Verification:
        agreed = await agreed_verification(self._setup, candidate.attempt, candidate.commit, candidate.own_base)
        accepted = agreed.accepted if agreed else ()
        proven = await self._prove_or_reuse(candidate, accepted, during, with_gates=with_gates)
        verification = msgspec.structs.replace(proven, merged=candidate.merged)
        if (before := candidate.attempt.verification) is not None:
            # Only the worker can find these doubts.
            known = {each.code for each in proven.doubts}
            kept = tuple(each for each in before.doubts if each.code in WORKER_DOUBTS - known)
            verification = msgspec.structs.replace(
                verification, doubts=(*proven.doubts, *kept), executed_lines=before.executed_lines, reach=before.reach
            )
            # On this tip, other modules may read what nothing read on the worker's base.
            verification = await with_unchanged_behaviour(
                verification, self._context.git, candidate.own_base, verification.gates or before.gates
            )
        return verification if agreed is None else with_agreement(verification, agreed)

    async def _prove_or_reuse(
        self, candidate: Candidate, accepted: Collection[str], during: During, *, with_gates: bool
    ) -> Verification:
        setup, git = self._setup, self._context.git
        request = await self._proof_request(candidate, accepted)
        proven = candidate.attempt.verification
        # If the worker has proven exactly this change in a clean checkout, its result stands.
        if proven and proven.proof_key == await proof_key(request, git, candidate.own_base, candidate.commit):
            return msgspec.structs.replace(proven, commit=candidate.commit)
        baseline = await setup.gates_at(candidate.commit)
        request, marks = msgspec.structs.replace(request, baseline=baseline), {"SCAFFOLD_ACTION": candidate.action.key}
        # Paths and globs are read from git, so a contract without commands needs no worktree.
        gates_run = baseline is not None and with_gates
        if not gates_run and (request.contract is None or not request.contract.commands):
            bare = self._front.tree_without_checkout(candidate.own_base, candidate.commit, marks)
            return await prove_candidate(request, bare, with_gates=False)
        async with (self._front if with_gates else self._lanes).taken(during) as checkout:
            bare = checkout.tree_without_checkout(candidate.own_base, candidate.commit, marks)
            request, environment = await setup.with_environment(request, bare)
            async with checkout.tree(
                environment, base=candidate.own_base, commit=candidate.commit, marks=marks
            ) as tree:
                return await prove_candidate(request, tree, with_gates=with_gates)


async def with_facts_of_others(
    setup: ProofSetup,
    refresher: FactRefresher,
    candidates: Sequence[Candidate],
    verification: Verification,
    *,
    during: During,
) -> CandidateResult:
    """Recheck, on the last candidate's commit, the facts of other actions that the batch affects.

    A fact that also fails without the batch is refuted, and does not count against it.
    """
    context, run = setup.context, setup.run
    tip, head = candidates[0].base, candidates[-1].commit
    changed = await own_changed_paths(context.git, run.settings.landing.tracked_list, tip, head)
    own = [candidate.action.id for candidate in candidates]
    groups = affected_facts(context.store, run, changed, besides=own)
    tested = await refresher.test(groups, head, during=during)
    # A check that already fails at the tip must not refuse the candidates.
    broken = [each for each in tested if each.failures and await refresher.held_at(each.group, tip, during=during)]
    rechecked = tuple(_still_proven(groups, tested, verification))
    return CandidateResult(verification=verification, rechecked=rechecked, broken=tuple(broken))


def outcome_of(verification: Verification) -> AttemptOutcome:
    """Return the attempt's outcome: a timeout, a failed contract, or a failed gate, in this order."""
    failed = [*(each.verdict for each in verification.failures), *(each.verdict for each in verification.broken_gates)]
    if "timeout" in failed:
        return "timeout"
    return "contract_failed" if verification.failures else "gate_failed"


def _still_proven(
    groups: Sequence[ProvenFacts], tested: Sequence[RecheckResult], verification: Verification
) -> Iterator[RecheckResult]:
    applied = tuple(gate for gate in verification.gates if gate.counts_for_work)
    yield from (msgspec.structs.replace(each, gates=applied) for each in tested if not each.failures)
    # Facts without checks hold by the gates alone.
    for group in groups:
        if group.recheck == "nothing" and applied:
            yield RecheckResult(group=group, commit=verification.commit, gates=applied)
