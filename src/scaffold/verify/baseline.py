"""The baseline of a run: how each gate does at its base, before any work; what is known from before is not run."""

from collections.abc import Callable, Sequence

from msgspec import Struct, json

from scaffold.core.events import BaselineCaptured
from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.ids import Commit, RunId
from scaffold.host.slots import Slots
from scaffold.verify.comparison import BROKEN
from scaffold.verify.contract import Tree, undo_changes
from scaffold.verify.diagnosis import unready
from scaffold.verify.gates.detection import Detection
from scaffold.verify.gates.run import run_gate
from scaffold.verify.readiness import NotReady
from scaffold.verify.repetition import settled

BLIND = "fails before the work and has no tests by name: it cannot tell good work from bad"

Find = Callable[[Gate, Commit, str], GateRun | None]
"""Returns what a gate showed at a commit on an environment; None where nobody has run it."""


class Means(Struct, frozen=True, kw_only=True):
    """What it takes to capture a baseline."""

    find: Find
    slots: Slots
    told: Callable[[GateRun, bool], None]
    """Takes what each gate showed, as soon as that is known, and whether it was known before. Whoever listens keeps
    it: who is interrupted then goes on where he was."""
    timeout_s: float = 600.0
    """What a gate may take that does not say so itself."""


class Captured(Struct, frozen=True, kw_only=True):
    """A baseline, and what somebody should know of it."""

    baseline: Baseline
    notes: tuple[str, ...] = ()
    """What is not checked although it could be, and why."""


async def capture(
    detection: Detection, tree: Tree, environment: CheckEnvironment, means: Means, *, left_out: Sequence[str] = ()
) -> Captured | NotReady:
    """Find out how the gates do at the commit of `tree`, a checkout of the base; one after another.

    Set-up commands that were `left_out` as nobody trusts the folder may be what is missing. A gate that was
    detected, judges no tests and cannot be run is a part of the baseline with its trouble: it is not asked again.
    What commands leave behind stays, tracked files are put back.
    """
    runs = []
    for gate in detection.gates:
        found = means.find(gate, tree.commit, environment.fingerprint)
        known = found if found is not None and found.trouble is None else None  # trouble may be over by now
        run = known or await _first(gate, tree, environment.fingerprint, means)
        problem = unready(run, given=gate.name in detection.given, setup=left_out)
        if problem:
            return problem
        means.told(run, known is not None)
        runs.append(run)
    left_out_gates = (_left_out(run) for run in runs if run.trouble)
    notes = (*detection.notes, *left_out_gates, *(f"{run.gate.name}: {why}" for run in runs if (why := blind(run))))
    return Captured(baseline=Baseline(environment=environment, runs=tuple(runs)), notes=notes)


def captured(run: GateRun, *, reused: bool) -> BaselineCaptured:
    """Return the event that tells how a gate does at the base."""
    broken = sum(outcome in BROKEN for outcome in run.outcomes.values())
    passed = sum(outcome in {"passed", "flaky"} for outcome in run.outcomes.values())
    return BaselineCaptured(run.gate.name, run.commit, passed=passed, failed=broken, reused=reused)


def blind(run: GateRun) -> str:
    """Return why a gate can find no fault with any work, and what to do; empty if it can."""
    if run.trouble or run.gate.runner != "exit" or not BROKEN.intersection(run.outcomes.values()):
        return ""
    return f"`{run.gate.command}` {BLIND}; mend it, or name another command in `quality_gates.{run.gate.kind}`"


def document(baseline: Baseline, run_id: RunId) -> bytes:
    """Return the baseline of a run for people and scripts, as JSON."""
    shape = {
        "run": run_id,
        "environment": baseline.environment.fingerprint,
        "gates": [gate_document(run) for run in baseline.runs],
    }
    return json.format(json.encode(shape), indent=2) + b"\n"


def gate_document(run: GateRun) -> dict[str, object]:
    """Return what a gate showed: how many tests had which outcome, and by name those that did not pass."""
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


async def _first(gate: Gate, tree: Tree, environment: str, means: Means) -> GateRun:
    """Run a gate, and its tests that fail once more; each time with a slot of its own, from the files as committed."""
    timeout_s = gate.timeout_s or means.timeout_s

    async def rerun(names: Sequence[str]) -> GateRun:
        await undo_changes(tree)
        async with means.slots.taken():
            return await run_gate(gate, tree, only=names, environment=environment, timeout_s=timeout_s)

    run = await rerun(())
    failed = sorted(name for name, outcome in run.outcomes.items() if outcome in BROKEN)
    if gate.kind != "test" or run.trouble:
        return run
    return await settled(run, failed, rerun)


def _left_out(run: GateRun) -> str:
    why = run.detail.partition("\n")[0].rstrip(".")
    return f"{run.gate.name} is not checked: `{run.gate.command}` cannot be run at the base ({why})"
