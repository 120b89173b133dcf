"""Gate results are found again by commit, command and environment, all of them equal."""

import pytest

from builders import a_run
from scaffold.core.gates import Baseline, CheckEnvironment, CopiedFolder, Gate, GateRun

TEST = Gate(kind="test", command="pytest -q", runner="pytest", timeout_s=30.0)


def shown(gate=TEST, **fields):
    given = {"commit": "c1", "environment": "e1", "exit_code": 1, "outcomes": {"t.py::a": "failed"}, "duration_s": 2.5}
    return GateRun(gate=gate, **(given | fields))


def keep(store, *runs):
    with store.transaction():
        for each in runs:
            store.baselines.keep(each)


def test_a_gate_run_is_found_with_all_its_results(store):
    """AL-10: reused only if nothing is different."""
    keep(store, shown())
    assert store.baselines.find(TEST, "c1", "e1") == shown()


@pytest.fixture
def run(store):
    with store.transaction():
        store.runs.add(a_run())
    return a_run()


@pytest.mark.parametrize(
    ("gate", "commit", "environment"),
    [
        (TEST, "c2", "e1"),
        (TEST, "c1", "e2"),
        (Gate(kind="test", command="pytest -x"), "c1", "e1"),
        (Gate(kind="test", command="pytest -q", folder="api"), "c1", "e1"),
    ],
)
def test_a_gate_run_with_another_commit_command_folder_or_environment_is_not_found(store, gate, commit, environment):
    """AL-10: what was shown elsewhere says nothing here."""
    keep(store, shown())
    assert store.baselines.find(gate, commit, environment) is None


def test_the_newest_gate_run_counts(store):
    keep(store, shown(), shown(outcomes={"t.py::a": "passed"}))
    assert store.baselines.find(TEST, "c1", "e1").outcomes == {"t.py::a": "passed"}


def test_a_run_keeps_its_baseline_until_it_is_dropped(store, run):
    """AL-10: for a resume; two runs at one base share the gate results."""
    environment = CheckEnvironment(
        fingerprint="e1", path=("/v/bin",), copies=(CopiedFolder(source="/g", target="v", made_for="/m"),)
    )
    baseline = Baseline(environment=environment, runs=(shown(commit=run.base_sha),))
    assert store.baselines.of_run(run.id) is None
    with store.transaction():
        store.baselines.hold(run.id, baseline)
    assert store.baselines.of_run(run.id) == baseline
    with store.transaction():
        store.baselines.drop(run.id, baseline.runs)
    assert store.baselines.of_run(run.id) is None
    assert store.baselines.find(TEST, run.base_sha, "e1") is None


def test_a_repository_without_gates_has_a_baseline_too(store, run):
    empty = Baseline(environment=CheckEnvironment(fingerprint="e1"), runs=())
    with store.transaction():
        store.baselines.hold(run.id, empty)
    assert store.baselines.of_run(run.id) == empty
