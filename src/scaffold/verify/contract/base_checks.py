"""Run a contract's checks on the base: only a check that fails there can show that the work made a difference."""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs
from msgspec.json import encode

from scaffold.core.ids import Commit, TreeId
from scaffold.core.proof.contract import Check, CheckResult, Contract, ExitCode
from scaffold.core.proof.gates import EXIT_OUTCOME, Baseline, Gate, GateRun
from scaffold.git import commits
from scaffold.store.database import Store
from scaffold.verify.contract.check_runs import (
    DEFAULT_TIMEOUT_S,
    TIMEOUT_FACTOR,
    CheckRunner,
    Tree,
    check_constraints,
    restore_tracked_files,
    run_check,
)
from scaffold.verify.contract.tamper_detection import runs_tests
from scaffold.verify.observation.observer import CheckObserver

MAX_RED_TESTS = 2_000


class BaseCheckResults(Struct, frozen=True, kw_only=True):
    """The results of a contract's checks before the work."""

    failed_on_base: tuple[str, ...] = ()
    """The names of the checks that did not pass, for whatever reason, such as missing files."""
    red_tests: Mapping[str, tuple[str, ...]] = {}
    """The failing tests, and the test files that could not be loaded, by command."""
    red_runs: Mapping[str, GateRun] = {}
    """The runs of the commands that did not pass, by command."""
    durations: Mapping[str, float] = {}
    """Seconds that each command took, by command."""


class CheckResultCache(Struct, frozen=True):
    """The stored results of checks in one environment, by tree."""

    store: Store
    baseline: Baseline | None = None
    """The run's baseline with the environment of checks; None if it was not captured."""

    def recall(self, check: Check, tree: TreeId) -> GateRun | None:
        """Return the known run of the check on a tree; None if it has to run there.

        A check that is also a gate is known from that gate if it passed. If it failed, it has to run as a check, which
        names the failed tests.
        """
        gate = self.recall_gate(check, tree)
        passed = gate if gate is not None and not _is_red(gate) else None
        return self.store.baselines.find(_gate_of_check(check), tree, self._cache_key(check)) or passed

    def recall_gate(self, check: Check, tree: TreeId) -> GateRun | None:
        """Return the known run of the gate with the check's command, in a clean checkout of a tree; None if unknown."""
        before = self._gate_before(check)
        return _as_check(self.store.baselines.find(before.gate, tree, self._environment_id)) if before else None

    def recall_at_base(self, check: Check, base: TreeId) -> GateRun | None:
        """Return the known run of the check on the base's tree; None if it has to run there.

        A check that is also a gate, and passed before the run's work, counts as passing on what landed since: nothing
        lands that breaks a gate, and a check that passes without the work proves nothing.
        """
        before, gate = self._gate_before(check), self.recall_gate(check, base)
        assumed = before if before is not None and before.exit_code == 0 and gate is None else None
        return self.recall(check, base) or _as_check(assumed)

    def _gate_before(self, check: Check) -> GateRun | None:
        runs = self.baseline.runs if self.baseline and check.expect == ExitCode(0) else ()
        return next((run for run in runs if run.gate.command == check.command and not run.gate.folder), None)

    def keep(
        self, check: Check, base: Commit, tree: TreeId, result: CheckResult, red_tests: Sequence[str] = ()
    ) -> GateRun:
        """Store the result of a check on the base's tree, with the tests that failed in it, and return it."""
        run = GateRun(
            gate=_gate_of_check(check),
            commit=base,
            environment=self._cache_key(check),
            exit_code=result.exit_code,
            outcomes={
                **dict.fromkeys(red_tests[:MAX_RED_TESTS], "failed"),
                EXIT_OUTCOME: "passed" if result.verdict == "pass" else "failed",
            },
            detail=result.detail,
            duration_s=result.duration_s,
            output_hash=result.output_hash,
        )
        with self.store.transaction():
            self.store.baselines.keep(run, tree)
        return run

    @property
    def _environment_id(self) -> str:
        return self.baseline.environment.fingerprint if self.baseline else ""

    def _cache_key(self, check: Check) -> str:
        # With the expectation, so that a gate with the same command never matches.
        return hashlib.sha256(encode(["observed contract", self._environment_id, check.expect])).hexdigest()


async def run_on_base(contract: Contract, tree: Tree, cache: CheckResultCache) -> BaseCheckResults:
    """Run, on the base commit checked out in `tree`, every check whose result there is unknown.

    Leaves the checkout dirty; the caller resets it.
    """
    runs, dirty = [], False
    tree_id = await commits.tree_of(tree.git, tree.commit)
    for check in contract.commands:
        known = cache.recall_at_base(check, tree_id)
        # A result depends on tree and environment alone, so each check runs there once for all attempts.
        if known is None:
            if dirty:
                await restore_tracked_files(tree)
            observer = CheckObserver()
            result = await run_check(check, structs.replace(tree, observer=observer))
            seen = observer.observations.get(check.command)
            red_tests = sorted(test for test, outcome in seen.tests.items() if outcome == "failed") if seen else ()
            known, dirty = cache.keep(check, tree.commit, tree_id, result, tuple(red_tests)), True
        runs.append(known)
    red = {run.gate.command: run for run in runs if _is_red(run)}
    asked = contract.must_exist or contract.must_not_exist
    paths = await commits.listed_paths(tree.git, tree.commit) if asked else ()
    return BaseCheckResults(
        failed_on_base=(
            *red,
            *(result.name for result in check_constraints(contract, paths, ()) if result.verdict != "pass"),
        ),
        red_tests={
            run.gate.command: names
            for run in runs
            if (names := tuple(test for test in run.outcomes if test != EXIT_OUTCOME))
        },
        red_runs=red,
        durations=_durations_by_command(runs),
    )


def recall_passed(contract: Contract, tree: TreeId, cache: CheckResultCache) -> CheckRunner | None:
    """Return a runner that recalls the contract's results if all its commands are gates known to pass; else None."""
    found = {check.command: cache.recall_gate(check, tree) for check in contract.commands}
    # An exit code does not tell whether any test ran, and a check that ran no tests must not pass.
    known = {
        command: run
        for command, run in found.items()
        if run is not None and not _is_red(run) and not (run.gate.runner == "exit" and runs_tests(command))
    }
    if len(known) < len(found):
        return None

    async def answer(check: Check, _: Tree) -> CheckResult:
        run = known[check.command]
        return CheckResult(
            name=check.command,
            verdict="pass",
            exit_code=run.exit_code,
            detail=run.detail,
            duration_s=run.duration_s,
            output_hash=run.output_hash,
        )

    return answer


def recall_results(contract: Contract, base: TreeId, cache: CheckResultCache) -> BaseCheckResults:
    """Return the stored results of the contract's commands on the base's tree, without running anything."""
    runs = [run for check in contract.commands if (run := cache.recall_at_base(check, base)) is not None]
    return BaseCheckResults(
        failed_on_base=tuple(run.gate.command for run in runs if _is_red(run)), durations=_durations_by_command(runs)
    )


def with_timeouts(contract: Contract, base: BaseCheckResults) -> Contract:
    """Return the contract with a timeout of three times the duration on the base for each check without one.

    Where that is less than the default timeout, the check keeps the default.
    """
    commands = []
    for check in contract.commands:
        timeout_s = TIMEOUT_FACTOR * base.durations.get(check.command, 0.0)
        is_longer = check.timeout_s is None and timeout_s > DEFAULT_TIMEOUT_S
        commands.append(structs.replace(check, timeout_s=round(timeout_s, 1)) if is_longer else check)
    return structs.replace(contract, commands=tuple(commands))


def _gate_of_check(check: Check) -> Gate:
    return Gate(kind="test", command=check.command)


def _as_check(run: GateRun | None) -> GateRun | None:
    """Return a gate's run as the run of a check, with one outcome; None without a valid result."""
    if run is None or run.problem is not None:
        return None
    return structs.replace(run, outcomes={EXIT_OUTCOME: "passed" if run.exit_code == 0 else "failed"})


def _is_red(run: GateRun) -> bool:
    return run.outcomes.get(EXIT_OUTCOME) != "passed"


def _durations_by_command(runs: list[GateRun]) -> dict[str, float]:
    return {run.gate.command: run.duration_s for run in runs}
