"""Run a contract's checks on the base: only a check that fails there can show that the work made a difference."""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs
from msgspec.json import encode

from scaffold.core.contract import Check, CheckResult, Contract
from scaffold.core.gates import Gate, GateRun
from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.store.database import Store
from scaffold.verify.contract.checks import (
    DEFAULT_TIMEOUT_S,
    TIMEOUT_FACTOR,
    Tree,
    check_constraints,
    restore_tracked_files,
    run_check,
)
from scaffold.verify.observation.observer import CheckObserver

EXIT_OUTCOME = "exit"
"""The name of the outcome that every check has; others are those of tests that failed."""
MAX_RED_TESTS = 2_000


class BaseCheckResults(Struct, frozen=True, kw_only=True):
    """The results of a contract's checks before the work."""

    failed_on_base: tuple[str, ...] = ()
    """The names of the checks that did not pass, for any reason, including missing files."""
    red_tests: Mapping[str, tuple[str, ...]] = {}
    """The tests that were seen to fail, and the test files that could not be loaded, by command."""
    durations: Mapping[str, float] = {}
    """Seconds that each command took, by command."""


class CheckResultCache(Struct, frozen=True):
    """The stored results of checks in one environment, by commit."""

    store: Store
    environment: str
    """The fingerprint of the environment that checks run in."""

    def recall(self, check: Check, base: Commit) -> GateRun | None:
        """Return the stored run of the check at a commit; None if it has not run there."""
        return self.store.baselines.find(_gate(check), base, self._key(check))

    def keep(self, check: Check, base: Commit, result: CheckResult, red_tests: Sequence[str] = ()) -> GateRun:
        """Store the result of a check, and the tests that failed in it, as a gate run and return that."""
        run = GateRun(
            gate=_gate(check),
            commit=base,
            environment=self._key(check),
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
            self.store.baselines.keep(run)
        return run

    def _key(self, check: Check) -> str:
        """Return a hash of environment and expectation, so that a gate with the same command never matches."""
        return hashlib.sha256(encode(["observed contract", self.environment, check.expect])).hexdigest()


async def run_on_base(contract: Contract, tree: Tree, cache: CheckResultCache) -> BaseCheckResults:
    """Run, on the base commit checked out in `tree`, every check whose result there is unknown.

    Leaves the checkout dirty; the caller resets it.
    """
    runs, dirty = [], False
    for check in contract.commands:
        known = cache.recall(check, tree.commit)
        # A check has no other state on one commit in one environment, so each is run there once for all attempts.
        if known is None:
            if dirty:
                await restore_tracked_files(tree)
            observer = CheckObserver()
            result = await run_check(check, structs.replace(tree, observer=observer))
            known, dirty = cache.keep(check, tree.commit, result, _red_tests(check, observer)), True
        runs.append(known)
    red = [run.gate.command for run in runs if _is_red(run)]
    return BaseCheckResults(
        failed_on_base=(*red, *await _red_constraints(contract, tree)),
        red_tests={run.gate.command: names for run in runs if (names := _recorded_red_tests(run))},
        durations=_durations(runs),
    )


def recall_results(contract: Contract, base: Commit, cache: CheckResultCache) -> BaseCheckResults:
    """Return the stored results of the contract's commands at the base; nothing is run."""
    runs = [run for check in contract.commands if (run := cache.recall(check, base)) is not None]
    return BaseCheckResults(
        failed_on_base=tuple(run.gate.command for run in runs if _is_red(run)), durations=_durations(runs)
    )


def with_timeouts(contract: Contract, base: BaseCheckResults) -> Contract:
    """Return the contract with a timeout of three times the duration on the base for each check without one.

    Where that is less than the default timeout, the check keeps the default.
    """
    return structs.replace(contract, commands=tuple(_timed(check, base.durations) for check in contract.commands))


def _timed(check: Check, durations: Mapping[str, float]) -> Check:
    timeout_s = TIMEOUT_FACTOR * durations.get(check.command, 0.0)
    if check.timeout_s is not None or timeout_s <= DEFAULT_TIMEOUT_S:
        return check
    return structs.replace(check, timeout_s=round(timeout_s, 1))


async def _red_constraints(contract: Contract, tree: Tree) -> tuple[str, ...]:
    asked = contract.must_exist or contract.must_not_exist
    paths = await commits.listed_paths(tree.git, tree.commit) if asked else ()
    return tuple(result.name for result in check_constraints(contract, paths, ()) if result.verdict != "pass")


def _gate(check: Check) -> Gate:
    return Gate(kind="test", command=check.command)


def _red_tests(check: Check, observer: CheckObserver) -> tuple[str, ...]:
    seen = observer.observations.get(check.command)
    return tuple(sorted(test for test, outcome in seen.tests.items() if outcome == "failed")) if seen else ()


def _recorded_red_tests(run: GateRun) -> tuple[str, ...]:
    return tuple(test for test in run.outcomes if test != EXIT_OUTCOME)


def _is_red(run: GateRun) -> bool:
    return run.outcomes.get(EXIT_OUTCOME) != "passed"


def _durations(runs: list[GateRun]) -> dict[str, float]:
    return {run.gate.command: run.duration_s for run in runs}
