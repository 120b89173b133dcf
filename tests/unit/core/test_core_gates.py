"""Gates as values."""

from typing import get_args

from scaffold.core.proof.gates import Gate, GateResult, GateVerdict

TEST = Gate(kind="test", command="pytest")


def test_a_gate_of_a_package_is_named_after_it():
    assert TEST.name == "test"
    assert Gate(kind="test", command="pytest", folder="packages/api").name == "test (packages/api)"


def test_a_worse_or_vacuous_result_blocks():
    """BX-4: an old failure, a fixed or flaky test and a missing gate do not."""
    verdicts = get_args(GateVerdict)
    blocking = {verdict for verdict in verdicts if GateResult(gate=TEST, verdict=verdict).blocks}
    assert blocking == {"new_failure", "vacuous", "error", "timeout"}


def test_a_gate_that_only_warns_blocks_nothing_and_is_no_evidence_once_it_would():
    """BX-4: the project's own set-up never runs it."""
    advisory = Gate(kind="lint", command="ruff check .", advisory=True)
    broken, clean = GateResult(gate=advisory, verdict="new_failure"), GateResult(gate=advisory, verdict="pass")
    assert (broken.blocks, broken.warns, broken.counts_for_work) == (False, True, False)
    assert (clean.blocks, clean.warns, clean.counts_for_work) == (False, False, True)
    assert not GateResult(gate=TEST, verdict="not_applicable").counts_for_work
