"""Verification of an attempt's work: its contract and the gates, in its cleaned worktree."""

import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import msgspec

from scaffold.core.errors import BudgetExceeded
from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Activity
from scaffold.core.proof.contract import Contract, Verification
from scaffold.core.proof.gates import CheckEnvironment, Gate, GateRun, RunnerKind
from scaffold.core.proof.not_ready import MissingProgram
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.fresh_checkout import recycle_worktree
from scaffold.git.checkouts.submodule import check_out_submodules
from scaffold.git.commits import PathChange
from scaffold.host.slots import Slots
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.attempts.assignment import TESTING_ROLE
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.run.resources.candidate_environment import environment_at
from scaffold.verify.contract.base_checks import BaseCheckResults, with_timeouts
from scaffold.verify.contract.check_runs import PASSES_WITHOUT_WORK, Tree, required_names
from scaffold.verify.contract.exercised import with_executed_lines
from scaffold.verify.contract.new_tests_on_base import changed_tests, red_with_new_tests
from scaffold.verify.contract.point_of_contract import PointOfContract, check_point
from scaffold.verify.contract.vacuous_tests import doubts_about_new_tests
from scaffold.verify.environment.check_programs import is_named_in, names_program
from scaffold.verify.environment.provisioning import reprovision
from scaffold.verify.gates.runner_detection import detect_runner
from scaffold.verify.locate_tests import files_with_tests
from scaffold.verify.observation.changed_code import changed_code
from scaffold.verify.observation.observer import CheckObserver
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.proof import may_run, proof_key, prove_candidate
from scaffold.verify.proof_request import ProofRequest, with_environment
from scaffold.verify.regression.base_check_files import with_check_file_findings
from scaffold.verify.regression.flaky_tests import doubts_about_flaky_tests
from scaffold.verify.regression.shared_checks import changed_tests_runner
from scaffold.verify.regression.stability import unstable_result
from scaffold.verify.regression.unchanged_behaviour import with_unchanged_behaviour
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.contract.drafting import check_on_base, draft_contract, refine_contract, try_write_contract_files
from scaffold.worker.workspace.workplace import Workplace

PROVING = Activity(label="proves the work", is_whole=False, surrounds=True)
OBSERVED_RUNNERS: frozenset[RunnerKind] = frozenset({"pytest", "unittest"})
"""The runners whose tests are seen in the checks of a contract."""


class AttemptVerifier:
    """Verifies one attempt's work; reads the contract from the store each time, out of the agent's reach."""

    def __init__(
        self,
        place: Workplace,
        capabilities: AgentCapabilities,
        records: AttemptRecords,
        base_results: BaseCheckResults | None,
    ) -> None:
        """`base_results` are the contract's results on the base; None without a contract."""
        self._place = place
        self._capabilities = capabilities
        self._records = records
        self._base_results = base_results
        self._missing: MissingProgram | None = None
        """What the checks could not start on the base, and the work may bring."""
        self._clean = False
        """Whether the checkout of the latest proof is certainly what a new one would be."""
        self.known: dict[str, Verification] = {}
        """The verifications of the present work, by proof key, also from before a crash: agents know no others."""
        self._runs: dict[tuple[str, str, TreeId, str], GateRun] = {}

    @classmethod
    async def prepare(
        cls, place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
    ) -> "AttemptVerifier":
        """Return the verifier before the work begins: draft a contract if there is none, and run it on the base."""
        try_write_contract_files(records)  # an earlier attempt may have died between sealing and writing
        contract = contract_in_force(records.store, records.task.action.id)
        if contract is None and records.task.run.settings.planning.drafter:
            contract = await draft_contract(place, capabilities, records)
        if contract is None or contract.empty:
            return cls(place, capabilities, records, None)
        # Now, while the worktree still shows the base: afterwards it has to be swapped out and back.
        verifier = cls(place, capabilities, records, found := await check_on_base(place, contract))
        verifier._missing = await place.require_started(contract, found.red_runs, records.declaration.files)
        return verifier

    async def require_programs(self, failed: Verification | None) -> None:
        """Raise EnvironmentNotReady if failed work, or none that changed anything, lacks what its base asks for."""
        base, contract, place = self._base_results, self.contract, self._place
        ran = {each.name: each for each in failed.failures} if failed else base.red_runs if base else {}
        missing = await place.program_not_started(contract, ran) if base and contract else None
        if contract is None or missing is None:
            return
        git, start = place.workspace.git, place.workspace.base
        commit = failed.commit if failed else start
        paths = await commits.listed_paths(git, commit)
        is_own = is_named_in(missing, (*self._records.declaration.files, *paths))
        # What stopped an earlier part of a check on the base may have hidden it there.
        changed = await commits.changed_paths(git, start, commit) if missing != self._missing else ()
        asked = missing == self._missing or await names_program(missing, contract, place.tree(start), changed)
        if asked and not is_own:
            raise place.not_ready(missing)

    @property
    def contract(self) -> Contract | None:
        """The contract in force; None if there is none."""
        return contract_in_force(self._records.store, self._records.task.action.id)

    async def verify(self, head: Commit, *, accepted: Collection[str] = ()) -> Verification:
        """Verify the commit in a clean, provisioned worktree; tests named in `accepted` may be lost.

        Afterwards the worktree keeps what the checks left behind if the work passes, and is restored if it fails.
        """
        terms, place = self._proof_request(accepted), self._place.workspace
        key = await proof_key(terms, place.git, place.base, head)
        known = self.known.get(key)
        # Work that passed without a sandbox may fail by now: the key covers nothing outside of the worktree.
        if known is None or (known.passed and not known.proof_key):
            async with self._place.activities.during(PROVING):
                found = await self._verify_commit(head, terms, key)
            if known is None or not found.passed:
                self.known[key] = found
        return msgspec.structs.replace(self.known[key], commit=head)

    async def _verify_commit(self, head: Commit, terms: ProofRequest, key: str) -> Verification:
        request, environment = await self._with_environment(terms, head)

        async def clean_tree(commit: Commit) -> Tree:
            of_commit = environment if commit == head else self._place.environment
            # Ignored files are deleted, since a candidate lands without them and must pass without them, too.
            async with reprovision(of_commit, self._place.workspace.path):
                self._clean = await self._check_out(commit)
            return self._place.tree(commit, of_commit)

        tree = await clean_tree(head)
        clean = self._clean
        verification = await self._prove_tree(request, tree)
        verification = msgspec.structs.replace(verification, accepted=tuple(sorted(terms.accepted_losses)))
        # Without commands there is nothing to repeat.
        if verification.passed and (verification.gates or (request.contract and request.contract.commands)):
            unstable = await unstable_result(request, verification, tree, clean_tree)
            found = () if unstable else await doubts_about_flaky_tests(request, verification, tree, clean_tree)
            results = (*verification.results, unstable) if unstable else verification.results
            doubts = (*verification.doubts, *found)
            verification = msgspec.structs.replace(verification, results=results, doubts=doubts)
            if not unstable:
                verification = await with_check_file_findings(request, verification, tree, clean_tree)
        # The agent continues in this worktree and must find its files as it left them, not as the checks left them.
        if not verification.passed:
            await worktree.restore(tree.git, head)
        elif clean:
            verification = msgspec.structs.replace(verification, proof_key=key)
        compared = await self._compared_with_new_tests(verification, terms.contract, clean_tree)
        return await with_unchanged_behaviour(compared, tree.git, tree.base, compared.gates)

    async def _with_environment(
        self, request: ProofRequest, head: Commit
    ) -> tuple[ProofRequest, CheckEnvironment | None]:
        place = self._place
        if place.baseline is None:
            return request, None
        allowed = partial(may_run, request, place.tree(head))
        base = place.baseline.environment
        found = await environment_at(
            place.run_context,
            place.task.run,
            base,
            head,
            during=place.activities.during,
            may_run=allowed,
            ask=self._capabilities.human.request_approval,
        )
        return with_environment(request, found.environment, lacks=found.lacks), found.environment

    async def _prove_tree(self, request: ProofRequest, tree: Tree) -> Verification:
        observer = CheckObserver(await changed_code(tree.git, tree.base, tree.commit))
        tree = msgspec.structs.replace(tree, observer=observer)
        found = await prove_candidate(request, tree)
        if request.contract is None or not found.passed:
            return found
        point = await self._contract_point(request.contract, tree, found.failed_on_base)
        if point.missed is not None:
            return msgspec.structs.replace(found, results=(*found.results, point.missed))
        found = msgspec.structs.replace(found, doubts=(*found.doubts, *point.doubts))
        return with_executed_lines(found, request.contract, observer)

    async def _contract_point(self, contract: Contract, tree: Tree, failed_on_base: Collection[str]) -> PointOfContract:
        red = self._base_results.red_tests if self._base_results else {}
        if not red:
            return PointOfContract()
        changes = await commits.path_changes(tree.git, tree.base, tree.commit)
        if self._is_tests_alone(changes):
            return PointOfContract()
        direct = [command for command in red if detect_runner("test", command, {}) in OBSERVED_RUNNERS]
        return await check_point(contract, red, changes, tree, failed_on_base=failed_on_base, direct=direct)

    def _is_tests_alone(self, changes: Sequence[PathChange]) -> bool:
        # Then nothing in the change can make the tests fail on the base: the code they test existed before.
        return self._place.task.action.role == TESTING_ROLE and all(is_test(change.path) for change in changes)

    async def _check_out(self, commit: Commit) -> bool:
        """Check the commit out and return whether the checkout is certainly what a new one would be.

        Without a sandbox, an agent's command could have made git overlook a changed file, or stopped being found.
        """
        git = self._place.workspace.git
        confined = self._place.sandbox is not None and sys.platform == "linux"
        if confined and await recycle_worktree(git, commit):
            await check_out_submodules(git)
            return True
        await worktree.reset_and_clean(git, commit)
        return False

    async def _compared_with_new_tests(
        self, found: Verification, contract: Contract | None, clean_tree: Callable[[Commit], Awaitable[Tree]]
    ) -> Verification:
        """Return the verification with `failed_on_base` being the checks that fail there with the change's tests.

        A check that passes there proves nothing about the change itself.
        """
        place = self._place
        if not found.passed or contract is None or self._base_results is None:
            return found
        changes = await commits.path_changes(place.workspace.git, place.workspace.base, found.commit)
        if self._is_tests_alone(changes):
            return found
        baseline = self._place.baseline
        tests = changed_tests(
            changes, files_with_tests(baseline.runs if baseline else (), [each.path for each in changes])
        )
        if not tests:
            return found
        tree, run = place.tree(found.commit), changed_tests_runner(baseline, tests, self._gate_slots)
        red = await red_with_new_tests(contract, found.failed_on_base, tests, tree, run=run)
        others = tuple(doubt for doubt in found.doubts if doubt != PASSES_WITHOUT_WORK)
        doubts = (PASSES_WITHOUT_WORK, *others) if required_names(contract).isdisjoint(red) else others
        found = msgspec.structs.replace(found, failed_on_base=red, doubts=doubts)
        code = [change for change in changes if change.path not in tests]
        vacuous = await doubts_about_new_tests(contract, found, code, clean_tree)
        return msgspec.structs.replace(found, doubts=(*found.doubts, *vacuous))

    async def strengthened(self, passed: Verification) -> Verification:
        """Have the drafter strengthen the contract that the work passed; verify again if it changed."""
        before = self.contract
        try:
            after = await refine_contract(self._place, self._capabilities, self._records, passed.commit)
        # The work has passed its draft; a budget that ends now must not lose it.
        except BudgetExceeded as error:
            key = self._place.task.action.key
            self._records.warn(f"The contract of {key} stays as drafted: {error.what}")
            return passed
        if after is None or after == before:
            return passed
        workspace = self._place.workspace
        async with reprovision(self._place.environment, workspace.path):
            await worktree.reset_and_clean(workspace.git, workspace.base)
        self._base_results = await check_on_base(self._place, after)
        # All checks: only those that run are observed from inside.
        return await self.verify(passed.commit, accepted=passed.accepted)

    @property
    def _gate_slots(self) -> Slots:
        return self._place.run_context.slots(self._place.task.run.settings.gates.slots)

    def _proof_request(self, accepted: Collection[str]) -> ProofRequest:
        settings, base_results = self._place.task.run.settings, self._base_results
        gates, declaration, contract = settings.gates, self._records.declaration, self.contract
        return ProofRequest(
            contract=with_timeouts(contract, base_results) if contract and base_results else contract,
            files=declaration.files,
            task=declaration.task,
            granted=declaration.by_rule,
            areas=ProtectedAreas.with_added(settings.permissions.areas),
            installed=self._place.environment.installed if self._place.environment else (),
            accepted_losses=frozenset(accepted),
            settled=self._records.store.baselines.settled_tests(self._place.task.run.id),
            failed_on_base=base_results.failed_on_base if base_results else (),
            baseline=self._place.baseline if gates.enabled else None,
            tagged=gates.tagged,
            gates_given=gates.given,
            gates_off=gates.off,
            gate_timeout_s=gates.timeout_s,
            slots=self._gate_slots,
            find_gate_run=self._find_run,
            store_gate_run=self._keep_run,
        )

    def _find_run(self, gate: Gate, tree: TreeId, environment: str) -> GateRun | None:
        own = self._runs.get((gate.folder, gate.command, tree, environment))
        return own or self._records.store.baselines.find(gate, tree, environment)

    def keep_hook_run(self, run: GateRun, tree: TreeId) -> None:
        """Keep a run of the commit hooks, which have a checkout of their own, for this attempt and its landing."""
        self._runs[run.gate.folder, run.gate.command, tree, run.environment] = run
        self._store_run(run, tree)

    def _keep_run(self, run: GateRun, tree: TreeId) -> None:
        self._runs[run.gate.folder, run.gate.command, tree, run.environment] = run
        if self._clean:
            self._store_run(run, tree)

    def _store_run(self, run: GateRun, tree: TreeId) -> None:
        # Results that are kept serve other runs as well, so a worker that was replaced must not add any.
        with self._records.transaction():
            self._records.store.baselines.keep(run, tree)
