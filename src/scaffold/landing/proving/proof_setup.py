"""What the proofs of a run's landings share: its baseline, its gates, and the request for one candidate."""

from collections.abc import Collection, Iterable
from functools import partial

import msgspec

from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import Baseline, CheckEnvironment, GateRun
from scaffold.git import commits
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.attempts.assignment import read_declaration
from scaffold.run.attempts.contracts import contract_with_timings
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.resources.candidate_environment import environment_at
from scaffold.run.task_list import own_fingerprint
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.detection import apply_gate_settings, detect_at_commit
from scaffold.verify.proof import may_run
from scaffold.verify.proof_request import ProofRequest, with_environment


class ProofSetup:
    """Reads what proofs need from the store, for the run's owner."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self.context = context
        self.run = run
        self._baseline: Baseline | None = None
        self._settled: frozenset[str] | None = None

    @property
    def baseline(self) -> Baseline | None:
        """The run's baseline; cached, since it does not change during the run."""
        if self._baseline is None:
            self._baseline = self.context.store.baselines.for_run(self.run.id)
        return self._baseline

    @property
    def settled(self) -> frozenset[str]:
        """The tests whose change was decided by landed work; cached, so that a long run's landings stay cheap."""
        if self._settled is None:
            self._settled = self.context.store.baselines.settled_tests(self.run.id)
        return self._settled

    def settle(self, landed: Iterable[Verification]) -> None:
        """Add the tests whose change was decided by work that has just landed."""
        self._settled = self.settled.union(*(each.settled_tests for each in landed))

    def forget(self) -> None:
        """Read the settled tests again, because another process may have recorded landings."""
        self._settled = None

    @property
    def gate_baseline(self) -> Baseline | None:
        """The baseline, if gates are on."""
        return self.baseline if self.run.settings.gates.enabled else None

    async def gates_at(self, commit: Commit) -> Baseline | None:
        """Return the baseline if any gates apply at a commit, from the baseline or added by the work; else None."""
        baseline, gates = self.gate_baseline, self.run.settings.gates
        # A repository without gates may get its first one from this candidate.
        if baseline is None or baseline.runs:
            return baseline
        found = apply_gate_settings(await detect_at_commit(self.context.git, commit), gates.given, gates.off)
        return baseline if found.gates else None

    async def request(
        self, action: Action, attempt: Attempt, baseline: Baseline | None, accepted: Collection[str]
    ) -> ProofRequest:
        """Return the request for one candidate; the tests named in `accepted` may be lost."""
        settings, store = self.run.settings, self.context.store
        installed = self.baseline.environment.installed if self.baseline else ()
        declaration, listed = read_declaration(store, action), settings.landing.tracked_list
        return ProofRequest(
            contract=await contract_with_timings(self.context, attempt, self.baseline),
            files=declaration.files,
            task=declaration.task,
            granted=declaration.by_rule,
            areas=ProtectedAreas.with_added(settings.permissions.areas),
            installed=installed,
            accepted_losses=frozenset(accepted),
            settled=self.settled,
            failed_on_base=attempt.verification.failed_on_base if attempt.verification else (),
            baseline=baseline,
            marked_list=listed.path if listed else "",
            tagged=settings.gates.tagged,
            gates_given=settings.gates.given,
            gates_off=settings.gates.off,
            gate_timeout_s=settings.gates.timeout_s,
            slots=self.context.slots(settings.gates.slots),
            find_gate_run=store.baselines.find,
            store_gate_run=self.keep,
        )

    async def with_environment(self, request: ProofRequest, tree: Tree) -> tuple[ProofRequest, CheckEnvironment | None]:
        """Return the request in the environment of the tree's commit, and that environment; None without a baseline."""
        baseline = self.baseline
        if baseline is None:
            return request, None
        found = await environment_at(
            self.context,
            self.run,
            baseline.environment,
            tree.commit,
            during=tree.during,
            may_run=partial(may_run, request, tree),
        )
        return with_environment(request, found.environment, lacks=found.lacks), found.environment

    def keep(self, run: GateRun, tree: TreeId) -> None:
        """Store a run of a gate for other commits with the same tree."""
        with owner_transaction(self.context.store, self.run):
            self.context.store.baselines.keep(run, tree)


async def agreed_verification(setup: ProofSetup, attempt: Attempt, merged: Commit, tip: Commit) -> Verification | None:
    """Return the verification that a reviewer or a human agreed to if it is about what would land; None otherwise."""
    # A change is the same on any tip if its blobs are the same before and after.
    found, git = attempt.verification, setup.context.git
    if found is None or attempt.head_sha is None or not (found.reviewed or found.review):
        return None
    listed = setup.run.settings.landing.tracked_list
    handed_in = await own_fingerprint(git, listed, attempt.base_sha, attempt.head_sha)
    return found if handed_in == await commits.patch_fingerprint(git, tip, merged) else None


def with_agreement(proven: Verification, handed_in: Verification) -> Verification:
    """Return the proof with the agreement that the same change got when it was handed in."""
    # The agreement covers the doubts that were known then; a new one leaves the work weak.
    known = {doubt.code for doubt in handed_in.doubts}
    reviewed = handed_in.reviewed and all(doubt.code in known for doubt in proven.doubts)
    return msgspec.structs.replace(proven, reviewed=reviewed, review=handed_in.review, accepted=handed_in.accepted)
