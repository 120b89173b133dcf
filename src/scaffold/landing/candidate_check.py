"""Verification of a candidate on the exact tree that would land: its own contract, and the facts it might break."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from scaffold.core.contract import DoubtCode, Verification
from scaffold.core.gates import Baseline, CheckEnvironment, GateResult, GateRun
from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.step import Work
from scaffold.git import commits
from scaffold.landing.checkout import Checkout
from scaffold.landing.fact_refresh import FactRefresher
from scaffold.landing.stale_facts import RecheckResult, affected_facts
from scaffold.landing.staleness import ProvenFacts
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.candidate_environment import environment_at
from scaffold.run.context import RunContext
from scaffold.run.contracts import contract_with_timings
from scaffold.run.declaration import read_declaration
from scaffold.run.failure_summary import RefusalReason, describe_refusals, refusals_by_others
from scaffold.run.lease import owner_transaction
from scaffold.run.settled_tests import settled_tests
from scaffold.run.steps import StepRecorder
from scaffold.verify.contract.checks import Tree
from scaffold.verify.gates.detection import apply_gate_settings, detect_at_commit
from scaffold.verify.proof import may_run, proof_key, prove_candidate
from scaffold.verify.regression.gate_results import judge_gates
from scaffold.verify.request import ProofRequest, with_environment

CHECKING = Work(label="checks what would land", is_whole=False, surrounds=True)
RECHECKING, FINAL_GATES = "recheck", "final"
"""What the owner does for the run as a whole: recheck facts | run all gates at the end."""
WORKER_DOUBTS: frozenset[DoubtCode] = frozenset(
    {
        *("not_executed", "vacuous_tests", "tests_not_passed", "flaky_tests", "ended_early"),
        *("settings_changed", "checks_changed"),
    }
)
"""Doubts from checks that are run again only where the work was done."""


class CandidateResult(Struct, frozen=True, kw_only=True):
    """The verification of a candidate, and its effect on the facts of other actions."""

    verification: Verification
    changed: tuple[str, ...] = ()
    """The paths it changes on the tip."""
    rechecked: tuple[RecheckResult, ...] = ()
    """Facts of other actions that depend on these paths and still hold."""
    broken: tuple[RecheckResult, ...] = ()
    """Facts of other actions that no longer hold."""

    @property
    def broken_summary(self) -> str:
        """Return what the candidate breaks, with the failed checks, as text for its agent."""
        return describe_refusals([refusal for each in self.broken for refusal in _refusals(each)])


class CandidateVerifier:
    """Verifies candidates and the session branch in the run's clean checkout; one call at a time."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._baseline: Baseline | None = None
        self._checkout = Checkout(context, run, during=StepRecorder(context, run, stage=RECHECKING).during)
        self.fact_refresher = FactRefresher(context, run, self._checkout, self._known_baseline)

    async def candidate(self, action: Action, attempt: Attempt, merged: Commit, tip: Commit) -> CandidateResult:
        """Verify the commit `merged` that would land on the tip, and recheck the facts it affects.

        A fact that also fails without the candidate is refuted and does not count against it.
        """
        steps = StepRecorder(self._context, self._run, attempt_id=attempt.id)
        with self._showing(steps):
            async with steps.during(CHECKING):
                return await self._verified(action, attempt, merged, tip)

    async def _verified(self, action: Action, attempt: Attempt, merged: Commit, tip: Commit) -> CandidateResult:
        agreed = await self._agreed(attempt, merged, tip)
        proven = await self._prove(action, attempt, merged, tip, agreed.accepted if agreed else ())
        verification = _with_worker_findings(proven, attempt.verification)
        if agreed is not None:
            verification = with_agreement(verification, agreed)
        # The other facts are rechecked only for work that passes by itself: their checks cost a checkout each.
        if not verification.passed:
            return CandidateResult(verification=verification)
        changed = await commits.changed_paths(self._context.git, tip, merged)
        groups = affected_facts(self._context.store, self._run, changed, besides=action.id)
        tested = await self.fact_refresher.test(groups, merged)
        # A check that already fails at the tip is not the candidate's fault, so it must not refuse the candidate.
        broken = [each for each in tested if each.failures and await self._held_before(each.group, tip)]
        rechecked = tuple(_still_proven(groups, tested, verification))
        return CandidateResult(verification=verification, changed=changed, rechecked=rechecked, broken=tuple(broken))

    async def run_all_gates(self, tip: Commit) -> tuple[GateResult, ...]:
        """Run all gates completely at the tip and compare them with the baseline; reuse known results."""
        with self._showing(StepRecorder(self._context, self._run, stage=FINAL_GATES)):
            return await self._final_gates(tip)

    @contextmanager
    def _showing(self, steps: StepRecorder) -> Iterator[None]:
        """Record what is checked in the block as `steps`."""
        before, self._checkout.during = self._checkout.during, steps.during
        try:
            yield
        finally:
            self._checkout.during = before

    async def _final_gates(self, tip: Commit) -> tuple[GateResult, ...]:
        baseline = self._known_baseline()
        if baseline is None or not await self._gates_at(baseline, tip):
            return ()
        base, gates = self._run.base_sha, self._run.settings.gates
        found = await environment_at(self._context, self._run, baseline.environment, tip, during=self._checkout.during)
        # The tip may need packages that the base did not.
        baseline = msgspec.structs.replace(baseline, environment=found.environment)
        async with self._checkout.tree(found.environment, base=base, commit=tip) as tree:
            request = ProofRequest(
                baseline=baseline,
                focused=False,
                files=("**",),
                landed_gates=self._landed_gates(),
                gates_off=gates.off,
                find_gate_run=self._context.store.baselines.find,
                store_gate_run=self._keep,
                gate_timeout_s=gates.timeout_s,
                slots=self._context.slots(gates.slots),
            )
            return await judge_gates(request, baseline, tree)

    def _landed_gates(self) -> tuple[GateResult, ...]:
        """Return the gate results of all attempts that landed, in the order in which they did."""
        attempts = [each for each in self._context.store.attempts.of_run(self._run.id) if each.outcome == "landed"]
        ordered = sorted(attempts, key=_ended_at)
        return tuple(gate for each in ordered if each.verification for gate in each.verification.gates)

    async def close(self) -> None:
        """Remove the checkout."""
        await self._checkout.close()

    async def _held_before(self, group: ProvenFacts, tip: Commit) -> bool:
        """Return whether the facts hold at the tip without the candidate; refute them if not."""
        (before,) = await self.fact_refresher.test([group], tip)
        if before.failures:
            self.fact_refresher.record_result(before)
        return not before.failures

    async def _prove(
        self, action: Action, attempt: Attempt, merged: Commit, tip: Commit, accepted: Collection[str]
    ) -> Verification:
        """Verify a candidate alone; check it out only if a command or a gate has to run.

        The tests named in `accepted` may be lost. If the worker has proven exactly this change in a clean checkout, its
        result stands.
        """
        baseline = self._known_baseline() if self._run.settings.gates.enabled else None
        request = await self._proof_request(action, attempt, baseline, accepted)
        proven = attempt.verification
        if proven and proven.proof_key == await proof_key(request, self._context.git, tip, merged):
            return msgspec.structs.replace(proven, commit=merged)
        applicable = baseline if baseline is not None and await self._gates_at(baseline, merged) else None
        request, marks = msgspec.structs.replace(request, baseline=applicable), {"SCAFFOLD_ACTION": action.key}
        # Paths and globs are read from git, so work without a command to run needs no worktree.
        if applicable is None and (request.contract is None or not request.contract.commands):
            return await prove_candidate(request, self._checkout.tree_without_checkout(tip, merged, marks))
        bare = self._checkout.tree_without_checkout(tip, merged, marks)
        request, environment = await self._with_environment(request, bare)
        async with self._checkout.tree(environment, base=tip, commit=merged, marks=marks) as tree:
            return await prove_candidate(request, tree)

    async def _with_environment(
        self, request: ProofRequest, tree: Tree
    ) -> tuple[ProofRequest, CheckEnvironment | None]:
        """Return the request in the environment of the tree's commit, and that environment; None without a baseline."""
        baseline = self._known_baseline()
        if baseline is None:
            return request, None
        found = await environment_at(
            self._context,
            self._run,
            baseline.environment,
            tree.commit,
            during=tree.during,
            may_run=partial(may_run, request, tree),
        )
        return with_environment(request, found.environment, lacks=found.lacks), found.environment

    async def _agreed(self, attempt: Attempt, merged: Commit, tip: Commit) -> Verification | None:
        """Return the verification that a reviewer or a human agreed to, if what would land is what they agreed to.

        A change is the same on any tip if its blobs are the same before and after. None if neither was asked.
        """
        found = attempt.verification
        if found is None or attempt.head_sha is None or not (found.reviewed or found.review):
            return None
        git = self._context.git
        handed_in = await commits.patch_fingerprint(git, attempt.base_sha, attempt.head_sha)
        return found if handed_in == await commits.patch_fingerprint(git, tip, merged) else None

    async def _gates_at(self, baseline: Baseline, at: Commit) -> bool:
        """Return whether any gates apply at a commit: from the baseline, or added by the work."""
        gates = self._run.settings.gates
        # A repository without gates may get its first one from this very candidate.
        if baseline.runs or not gates.enabled:
            return bool(baseline.runs)
        found = apply_gate_settings(await detect_at_commit(self._context.git, at), gates.given, gates.off)
        return bool(found.gates)

    async def _proof_request(
        self, action: Action, attempt: Attempt, baseline: Baseline | None, accepted: Collection[str]
    ) -> ProofRequest:
        settings, environment = self._run.settings, self._environment()
        declaration = read_declaration(self._context.store, action)
        return ProofRequest(
            contract=await contract_with_timings(self._context, attempt, self._known_baseline()),
            files=declaration.files,
            granted=declaration.by_rule,
            areas=ProtectedAreas.with_added(settings.permissions.areas),
            installed=environment.installed if environment else (),
            accepted_losses=frozenset(accepted),
            settled=settled_tests(self._context.store, self._run.id),
            failed_on_base=_failed_before(attempt.verification),
            baseline=baseline,
            tagged=settings.gates.tagged,
            gates_given=settings.gates.given,
            gates_off=settings.gates.off,
            gate_timeout_s=settings.gates.timeout_s,
            slots=self._context.slots(self._run.settings.gates.slots),
            find_gate_run=self._context.store.baselines.find,
            store_gate_run=self._keep,
        )

    def _known_baseline(self) -> Baseline | None:
        """Return the run's baseline; cached, since it does not change during the run."""
        if self._baseline is None:
            self._baseline = self._context.store.baselines.of_run(self._run.id)
        return self._baseline

    def _environment(self) -> CheckEnvironment | None:
        baseline = self._known_baseline()
        return baseline.environment if baseline else None

    def _keep(self, run: GateRun, tree: TreeId) -> None:
        with owner_transaction(self._context.store, self._run):
            self._context.store.baselines.keep(run, tree)


def _with_worker_findings(found: Verification, before: Verification | None) -> Verification:
    """Return the verification with what only the worker's looks for."""
    if before is None:
        return found
    kept = tuple(each for each in before.doubts if each.code in WORKER_DOUBTS and each not in found.doubts)
    return msgspec.structs.replace(found, doubts=(*found.doubts, *kept), executed_lines=before.executed_lines)


def _ended_at(attempt: Attempt) -> datetime:
    return attempt.ended_at or attempt.queued_at


def with_agreement(proven: Verification, handed_in: Verification) -> Verification:
    """Return the proof with what a reviewer or a human agreed to when the same change was handed in.

    They agreed in spite of the doubts that there were then, so a new one leaves the work weak.
    """
    known = {doubt.code for doubt in handed_in.doubts}
    reviewed = handed_in.reviewed and all(doubt.code in known for doubt in proven.doubts)
    return msgspec.structs.replace(proven, reviewed=reviewed, review=handed_in.review, accepted=handed_in.accepted)


def _failed_before(verification: Verification | None) -> tuple[str, ...] | None:
    """Return the checks that failed on the base; None if the worker did not run them there."""
    if verification is None:
        return None
    # Empty: nothing failed on the base, so the facts are weak. None: nothing is known about the base.
    passes_without_work = any(doubt.code == "passes_without_work" for doubt in verification.doubts)
    return verification.failed_on_base or (() if passes_without_work else None)


def _still_proven(
    groups: Sequence[ProvenFacts], tested: Sequence[RecheckResult], verification: Verification
) -> Iterator[RecheckResult]:
    """Yield the facts that still hold, with the gates that ran; facts without checks hold by these gates alone."""
    applied = tuple(gate for gate in verification.gates if gate.counts_for_work)
    yield from (msgspec.structs.replace(each, gates=applied) for each in tested if not each.failures)
    for group in groups:
        if group.recheck == "nothing" and applied:
            yield RecheckResult(group=group, commit=verification.commit, gates=applied)


def _refusals(tested: RecheckResult) -> tuple[RefusalReason, ...]:
    facts = ", ".join(fact.assertion for fact in tested.group.facts)
    return refusals_by_others(facts, tested.group.action.key, tested.failures)
