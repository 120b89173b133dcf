"""Run a contract's checks. One that is a test gate runs as that gate, so that the same command runs once for both."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from scaffold.core.proof.contract import Check, CheckResult, ExitCode
from scaffold.core.proof.gates import Baseline, Gate, GateRun
from scaffold.host.slots import Slots
from scaffold.verify.contract.check_runs import (
    DEFAULT_TIMEOUT_S,
    CheckRunner,
    Tree,
    check_verdict,
    restore_tracked_files,
    result_detail,
    run_check,
    was_killed,
)
from scaffold.verify.environment.provisioning import is_clean
from scaffold.verify.gates.observed_run import ObservedRun, gate_slot, observe_gate, run_gate, with_observed_failures
from scaffold.verify.observation.observer import MARKER
from scaffold.verify.paths.conventions import is_test_file
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, with_original_runner
from scaffold.verify.regression.selection.affected_tests import SELECTABLE_RUNNERS
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES


def changed_tests_runner(baseline: Baseline | None, tests: Sequence[str], slots: Slots | None) -> CheckRunner:
    """Return a runner of checks on the base with the changed `tests`; it runs only these for a gate that passes there.

    The other tests passed on the base, so these decide whether the whole gate fails.
    """
    passing = {
        run.gate.command: run
        for run in (baseline.runs if baseline else ())
        if run.gate.kind == "test" and not run.gate.folder and run.problem is None and run.exit_code == 0
    }

    async def run_changed(check: Check, tree: Tree) -> CheckResult:
        """Run only `tests` of a check that is a passing gate of the baseline, and other checks whole."""
        before = passing.get(check.command)
        if baseline is None or before is None or check.expect != ExitCode(0) or not _can_select(before.gate, tests):
            return await run_check(check, tree)
        async with gate_slot(slots, tree.during):
            run = await run_gate(
                before.gate,
                tree,
                only=tests,
                environment=baseline.environment.fingerprint,
                timeout_s=check.timeout_s or DEFAULT_TIMEOUT_S,
            )
        # Nothing ran, or the runner ended before any test: only the whole command can tell.
        if run.problem is not None:
            return await run_check(check, tree)
        failed = not FAILING_OUTCOMES.isdisjoint(run.outcomes.values())
        return CheckResult(name=check.command, verdict="fail" if failed else "pass", detail=run.detail, log=run.log)

    return run_changed


def _can_select(gate: Gate, tests: Sequence[str]) -> bool:
    """Return True if the gate's runner can run just these files, and all of them are files of tests."""
    family = SELECTABLE_RUNNERS.get(gate.runner)
    return family is not None and all(
        is_test_file(path) and LANGUAGE_FAMILIES.get(path.rpartition(".")[2]) == family for path in tests
    )


class SharedChecks:
    """The checks of one proof, which begins in a clean checkout."""

    def __init__(self, request: ProofRequest) -> None:
        self._request = request
        # A gate with a problem before the work is judged by other rules than a check.
        shared = (run for run in request.baseline_runs if run.gate.kind == "test" and not run.gate.folder)
        self._gates: Mapping[str, GateRun] = {run.gate.command: run for run in shared if run.problem is None}
        self.gate_runs: dict[str, GateRun] = {}
        """The runs that also serve as gate runs, by command: whole, once, and in a clean checkout."""
        self.ran = False
        """Whether a command ran, so that the checkout may no longer be clean."""

    async def run(self, check: Check, tree: Tree) -> CheckResult:
        """Return the result of one command; the tracked files must be as committed."""
        baseline, before = self._request.baseline, self._gates.get(check.command)
        if baseline is None or before is None or check.expect != ExitCode(0):
            self.ran = True
            return await run_check(check, tree)
        # A gate needs a clean checkout; a check may need files of the previous check.
        clean = not self.ran or await is_clean(baseline.environment, tree)
        self.ran = True
        return await (self._run_as_gate(check, before, baseline, tree) if clean else run_check(check, tree))

    async def _run_as_gate(self, check: Check, before: GateRun, baseline: Baseline, tree: Tree) -> CheckResult:
        observed = await self._run_observed(check, before, baseline, tree)
        if was_killed(observed.finished):
            await restore_tracked_files(tree)
            observed = await self._run_observed(check, before, baseline, tree)
        run, finished = with_original_runner(before, observed.run), observed.finished
        verdict, why = check_verdict(check, finished)
        detail = result_detail(why, run.detail)
        # The runner's report may only be stricter than its exit code.
        if verdict == "pass" and run.problem is not None:
            verdict, detail = run.problem, run.detail
        if verdict != "pass" and not check.required:
            verdict = "warn"
        if run.problem is None:
            self.gate_runs[check.command] = run
        return CheckResult(
            name=check.command,
            verdict=verdict,
            exit_code=finished.exit_code,
            detail=detail,
            log=run.log,
            duration_s=run.duration_s,
            output_hash=finished.stdout_sha256,
        )

    async def _run_observed(self, check: Check, before: GateRun, baseline: Baseline, tree: Tree) -> ObservedRun:
        async def run(watched: Tree) -> ObservedRun:
            return await observe_gate(
                before.gate,
                watched,
                environment=baseline.environment.fingerprint,
                timeout_s=check.timeout_s or DEFAULT_TIMEOUT_S,
            )

        async with gate_slot(self._request.slots, tree.during):
            if tree.observer is None:
                return await run(tree)
            parent = tree.sandbox.confinement.temporary if tree.sandbox else None
            async with tree.observer.watch(check.command, tree.git.cwd, tree.environ, parent) as variables:
                found = await run(structs.replace(tree, environ={**tree.environ, **variables}))
            if MARKER not in found.finished.stdout + found.finished.stderr or found.run.problem is None:
                seen = tree.observer.observations[check.command]
                return structs.replace(found, run=with_observed_failures(found.run, seen))
            # Our observation disturbed the program.
            tree.observer.observations.pop(check.command, None)
            await restore_tracked_files(tree)
            return await run(tree)
