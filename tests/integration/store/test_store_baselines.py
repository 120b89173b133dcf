"""Gate results are found again by tree, command and environment, all of them equal."""

import pytest

from builders import a_run
from scaffold.core.proof.gates import Baseline, CheckEnvironment, CopiedFolder, Gate, GateRun

TEST = Gate(kind="test", command="pytest -q", runner="pytest", timeout_s=30.0)


def shown(gate=TEST, **fields):
    given = {"commit": "c1", "environment": "e1", "exit_code": 1, "outcomes": {"t.py::a": "failed"}, "duration_s": 2.5}
    return GateRun(gate=gate, **(given | fields))


def keep(store, *runs):
    with store.transaction():
        for each in runs:
            store.baselines.keep(each, "t1")


def test_a_gate_run_is_found_with_all_its_results(store):
    """AL-10: reused only if nothing is different; what was shown elsewhere says nothing here."""
    keep(store, shown())
    assert store.baselines.find(TEST, "t1", "e1") == shown()
    others = [
        (TEST, "t2", "e1"),
        (TEST, "t1", "e2"),
        (Gate(kind="test", command="pytest -x"), "t1", "e1"),
        (Gate(kind="test", command="pytest -q", folder="api"), "t1", "e1"),
    ]
    assert [each for each in others if store.baselines.find(*each) is not None] == []


@pytest.fixture
def run(store):
    with store.transaction():
        store.runs.add(a_run())
    return a_run()


def test_the_newest_gate_run_counts(store):
    keep(store, shown(), shown(outcomes={"t.py::a": "passed"}))
    assert store.baselines.find(TEST, "t1", "e1").outcomes == {"t.py::a": "passed"}


def test_a_run_keeps_its_baseline_until_it_is_dropped(store, run):
    """AL-10: for a resume; two runs at one base share the gate results."""
    environment = CheckEnvironment(
        fingerprint="e1", path=("/v/bin",), copies=(CopiedFolder(source="/g", target="v", made_for="/m"),)
    )
    baseline = Baseline(environment=environment, runs=(shown(commit=run.base_sha),))
    assert store.baselines.for_run(run.id) is None
    with store.transaction():
        store.baselines.hold(run.id, baseline, "t1")
    assert store.baselines.for_run(run.id) == baseline
    with store.transaction():
        store.baselines.drop(run.id, results=True)
    assert store.baselines.for_run(run.id) is None
    assert store.baselines.find(TEST, "t1", "e1") is None


def test_a_baseline_that_was_found_at_another_commit_of_the_same_tree_is_the_runs_own(store, run):
    """AL-10: that commit may have been removed with the branch of another run."""
    with store.transaction():
        store.baselines.hold(run.id, Baseline(environment=CheckEnvironment(fingerprint="e1"), runs=(shown(),)), "t1")
    assert [each.commit for each in store.baselines.for_run(run.id).runs] == [run.base_sha]


def test_results_stay_when_only_the_baseline_is_dropped(store, run):
    """AL-10: in another sandbox it is captured again, and other runs keep theirs."""
    with store.transaction():
        store.baselines.hold(run.id, Baseline(environment=CheckEnvironment(fingerprint="e1"), runs=(shown(),)), "t1")
        store.baselines.drop(run.id, results=False)
    assert store.baselines.for_run(run.id) is None
    assert store.baselines.find(TEST, "t1", "e1") == shown()


def test_a_repository_without_gates_has_a_baseline_too(store, run):
    empty = Baseline(environment=CheckEnvironment(fingerprint="e1"), runs=())
    with store.transaction():
        store.baselines.hold(run.id, empty, "t1")
    assert store.baselines.for_run(run.id) == empty
