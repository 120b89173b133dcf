"""`baseline`: the results of the gates before a run's work, and how to discard them."""

import pytest
from inline_snapshot import snapshot

from builders import begin, make_run
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.states import Cancelled, Failed

TEST = Gate(kind="test", command="python -m pytest -q", runner="pytest")
LINT = Gate(kind="lint", command="ruff check .", runner="findings")
TYPES = Gate(kind="typecheck", command="mypy .", runner="findings")


@pytest.fixture
def run(context, plan):
    """A run with a baseline."""
    run = make_run(context, plan)
    with context.store.transaction():
        context.store.baselines.hold(run.id, baseline(run), "t1")
    return run


def baseline(run):
    outcomes = {"tests/test_a.py::test_good": "passed", "tests/test_a.py::test_bad": "failed"}
    shared = {"commit": run.base_sha, "environment": "env-1"}
    return Baseline(
        environment=CheckEnvironment(fingerprint="env-1"),
        runs=(
            GateRun(gate=TEST, exit_code=1, outcomes=outcomes, duration_s=1.5, **shared),
            GateRun(gate=LINT, exit_code=0, **shared),
            GateRun(
                gate=TYPES,
                exit_code=127,
                problem="error",
                detail="mypy: not found\nmore",
                log="logs/typecheck.log",
                **shared,
            ),
        ),
    )


def test_the_baseline_is_shown_with_failures_before_the_work(context, run, scaffold):
    """AL-10: each gate with its outcomes, each failure by name; a gate that is not detected is not applicable."""
    shown = scaffold("baseline").out.replace(run.id, "RUN").replace(run.base_sha[:8], "BASE")
    assert shown == snapshot("""\
Baseline of run RUN at BASE
  ! test       1 passed, 1 failed
      $ python -m pytest -q
      failed  tests/test_a.py::test_bad
  ✓ lint       0 findings
      $ ruff check .
  ✗ typecheck  not checked: mypy: not found
      $ mypy .
      more
      the whole log: logs/typecheck.log
  - build      not applicable
  - hooks      not applicable
""")
    data = scaffold("baseline", "show", "--run", run.id, "--json").json
    assert (data["run"], data["captured"], data["environment"]) == (run.id, True, "env-1")
    test = data["gates"][0]
    assert test["counts"] == {"failed": 1, "passed": 1}
    assert test["not_passed"] == {"tests/test_a.py::test_bad": "failed"}
    assert data["gates"][2]["trouble"] == "error"


def test_a_baseline_that_is_reset_is_captured_again(context, run, scaffold):
    """AL-10: the run has none, no earlier gate result is reused, and the mirror is gone; never while it is in use."""
    mirror = context.projections.path / "baselines" / f"{run.id}.json"
    mirror.parent.mkdir(parents=True)
    mirror.write_text("{}")
    begin(context, run)
    in_use = scaffold("baseline", "reset")
    assert (in_use.code, in_use.out, f"scaffold stop {run.id}" in in_use.err) == (64, "", True)
    assert context.store.baselines.for_run(run.id) is not None
    with context.store.transaction():
        context.store.runs.move(run.id, Failed("stopped"))
    assert scaffold("baseline", "reset").code == 0
    assert context.store.baselines.for_run(run.id) is None
    assert context.store.baselines.find(TEST, "t1", "env-1") is None
    assert (mirror.exists(), scaffold("baseline", "--json").json["captured"]) == (False, False)
    assert scaffold("baseline", "reset", "--json").json == {"run": run.id, "reset": False}


def test_a_run_without_a_baseline_says_why(context, plan, scaffold):
    """AL-10: one that can still capture it, one that cannot, one that has ended, one that failed before."""
    ids = [make_run(context, plan).id, make_run(context, plan, gates=False).id]
    for state in (Cancelled(), Failed("there is no disk space")):
        ids.append(make_run(context, plan).id)
        with context.store.transaction():
            context.store.runs.move(ids[-1], state)
    said = [scaffold("baseline", "--run", each).out.replace(each, "RUN") for each in ids]
    assert said == snapshot(
        [
            "Run RUN has no baseline: it is captured when the run starts or continues.\n",
            "Run RUN has no baseline: its gates are off.\n",
            "Run RUN has no baseline: the run is cancelled, and none was captured before that.\n",
            "Run RUN has no baseline: there is no disk space\n",
        ]
    )


def test_a_gate_that_cannot_find_a_fault_is_shown_as_such(context, plan, scaffold):
    """AL-10: a custom command that fails before the work would excuse whatever the work breaks."""
    run = make_run(context, plan)
    own = Gate(kind="build", command="make all", runner="exit")
    shown = GateRun(gate=own, exit_code=2, outcomes={"exit": "failed"}, commit=run.base_sha, environment="env-1")
    with context.store.transaction():
        held = Baseline(environment=CheckEnvironment(fingerprint="env-1"), runs=(shown,))
        context.store.baselines.hold(run.id, held, "t1")
    assert scaffold("baseline").out.splitlines()[3].strip().split(", ") == snapshot(
        [
            "`make all` fails before the work with nothing in it that passes",
            "so it cannot tell good work from bad; fix it",
            "or set another command in `quality_gates.build`",
        ]
    )
