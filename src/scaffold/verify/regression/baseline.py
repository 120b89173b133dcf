"""Capture a run's baseline: the result of each gate at the base, before any work. Stored results are reused."""

from collections.abc import Callable, Sequence

from msgspec import Struct, json

from scaffold.core.events import BaselineCaptured
from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.ids import RunId
from scaffold.host.slots import Slots
from scaffold.verify.contract.checks import Tree, restore_tracked_files
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.gates.run import run_gate
from scaffold.verify.readiness import NotReady
from scaffold.verify.regression.comparison import FAILING_OUTCOMES
from scaffold.verify.regression.diagnosis import unready_reason
from scaffold.verify.regression.flaky_retry import retry_new_failures
from scaffold.verify.request import GateRunLookup

UNINFORMATIVE = "fails before the work and reports no single tests, so it cannot tell good work from bad"


class BaselineInputs(Struct, frozen=True, kw_only=True):
    """The collaborators and options for capturing a baseline."""

    find: GateRunLookup
    slots: Slots
    on_gate_run: Callable[[GateRun, bool], None]
    """Called with each run as soon as it is known, and whether it was reused. The callee stores it, so that an
    interrupted capture can resume."""
    timeout_s: float = 600.0
    """The timeout of a gate that does not set one."""


class BaselineResult(Struct, frozen=True, kw_only=True):
    """A baseline, and notes for the user."""

    baseline: Baseline
    notes: tuple[str, ...] = ()
    """The gates that are not checked, each with its reason."""


async def capture_baseline(
    detection: DetectedGates,
    tree: Tree,
    environment: CheckEnvironment,
    inputs: BaselineInputs,
    *,
    left_out: Sequence[str] = (),
) -> BaselineResult | NotReady:
    """Return the results of the gates at the commit of `tree`, a checkout of the base; NotReady if one cannot judge.

    `left_out` are the set-up commands that were skipped because the folder is not trusted; they are named as a
    possible cause. A detected gate that is no test gate and cannot run stays in the baseline with its trouble and is
    not run again later. Tracked files are restored between runs, untracked files stay. Gates run one after another.
    """
    runs = []
    for gate in detection.gates:
        stored = inputs.find(gate, tree.commit, environment.fingerprint)
        known = stored if stored is not None and stored.trouble is None else None  # trouble may be over by now
        run = known or await _run_baseline_gate(gate, tree, environment.fingerprint, inputs)
        problem = unready_reason(run, given=gate.name in detection.given, setup=left_out)
        if problem:
            return problem
        inputs.on_gate_run(run, known is not None)
        runs.append(run)
    unavailable = (_unavailable_gate_note(run) for run in runs if run.trouble)
    notes = (
        *detection.notes,
        *unavailable,
        *(f"{run.gate.name}: {why}" for run in runs if (why := uninformative_reason(run))),
    )
    return BaselineResult(baseline=Baseline(environment=environment, runs=tuple(runs)), notes=notes)


def baseline_event(run: GateRun, *, reused: bool) -> BaselineCaptured:
    """Return the event for a gate's result at the base."""
    failed = sum(outcome in FAILING_OUTCOMES for outcome in run.outcomes.values())
    passed = sum(outcome in {"passed", "flaky"} for outcome in run.outcomes.values())
    return BaselineCaptured(run.gate.name, run.commit, passed=passed, failed=failed, reused=reused)


def uninformative_reason(run: GateRun) -> str:
    """Return why a gate can never reject any work, and what to do; empty if it can."""
    if run.trouble or run.gate.runner != "exit" or not FAILING_OUTCOMES.intersection(run.outcomes.values()):
        return ""
    return f"`{run.gate.command}` {UNINFORMATIVE}; fix it, or set another command in `quality_gates.{run.gate.kind}`"


def encode_baseline(baseline: Baseline, run_id: RunId) -> bytes:
    """Return the baseline of a run as indented JSON."""
    summary = {
        "run": run_id,
        "environment": baseline.environment.fingerprint,
        "gates": [gate_summary(run) for run in baseline.runs],
    }
    return json.format(json.encode(summary), indent=2) + b"\n"


def gate_summary(run: GateRun) -> dict[str, object]:
    """Return a gate run as JSON values: the number of tests by outcome, and the tests that did not pass by name."""
    outcomes = tuple(run.outcomes.values())
    return {
        "gate": run.gate.name,
        "command": run.gate.command,
        "runner": run.gate.runner,
        "commit": run.commit,
        "exit_code": run.exit_code,
        "trouble": run.trouble,
        "counts": {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "not_passed": {name: outcome for name, outcome in sorted(run.outcomes.items()) if outcome != "passed"},
        "duration_s": run.duration_s,
    }


async def _run_baseline_gate(gate: Gate, tree: Tree, environment: str, inputs: BaselineInputs) -> GateRun:
    """Run a gate, and its failed tests again; each run takes a slot and starts with the tracked files as committed."""
    timeout_s = gate.timeout_s or inputs.timeout_s

    async def rerun(names: Sequence[str]) -> GateRun:
        await restore_tracked_files(tree)
        async with inputs.slots.taken():
            return await run_gate(gate, tree, only=names, environment=environment, timeout_s=timeout_s)

    run = await rerun(())
    failed = sorted(name for name, outcome in run.outcomes.items() if outcome in FAILING_OUTCOMES)
    if gate.kind != "test" or run.trouble:
        return run
    return await retry_new_failures(run, failed, rerun)


def _unavailable_gate_note(run: GateRun) -> str:
    why = run.detail.partition("\n")[0].rstrip(".")
    return f"{run.gate.name} is not checked: `{run.gate.command}` cannot be run at the base ({why})"
