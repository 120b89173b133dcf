"""Find tests that fail in a command that is judged by its exit code alone.

A process that exits with 0 before its tests end, or in spite of them, would make such a gate pass. So tests that fail
become outcomes of their own, beside that of the exit code. What failed unnoticed before the work does not count.
"""

from collections.abc import Collection

from msgspec import structs

from scaffold.core.proof.gates import EXIT_OUTCOME, GateRun, TestOutcome
from scaffold.verify.observation.observer import Observation

RUN_CUT_OFF = "end of the test run"
"""The outcome that fails if a run of tests began and did not end."""


def with_observed_failures(run: GateRun, seen: Observation | None, *, only: Collection[str] = ()) -> GateRun:
    """Return the run of a gate with the tests that were seen to fail in it; of those in `only`, any outcome."""
    if seen is None or run.problem is not None or run.gate.runner != "exit" or run.gate.kind != "test":
        return run
    found: dict[str, TestOutcome] = {
        test: "failed" if outcome == "failed" else "passed"
        for test, outcome in seen.tests.items()
        if outcome == "failed" or test in only
    }
    if seen.unfinished or RUN_CUT_OFF in only:
        found[RUN_CUT_OFF] = "failed" if seen.unfinished else "passed"
    return structs.replace(run, outcomes={**run.outcomes, **found}) if found else run


def unnoticed_only(run: GateRun, added: Collection[str]) -> GateRun:
    """Return the run without the failures that its exit code tells, and without those in files that were `added`.

    A command may end at its first failure, so on the base it may not have come to the others.
    """
    if run.gate.runner != "exit" or EXIT_OUTCOME not in run.outcomes:
        return run
    kept = {
        name: outcome
        for name, outcome in run.outcomes.items()
        if name == EXIT_OUTCOME or (run.exit_code == 0 and name.partition("::")[0] not in added)
    }
    return structs.replace(run, outcomes=kept)


def without_names(run: GateRun) -> GateRun:
    """Return the run of a gate that is judged by its exit code with this outcome alone.

    It names tests only when they fail, so on other tests or code none of the names can be missed.
    """
    if run.gate.runner != "exit":
        return run
    return structs.replace(run, outcomes={name: run.outcomes[name] for name in run.outcomes if name == EXIT_OUTCOME})
