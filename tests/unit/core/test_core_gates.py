"""Gates as values."""

import pytest

from scaffold.core.gates import Gate, GateResult

TEST = Gate(kind="test", command="pytest")


@pytest.mark.parametrize(("folder", "name"), [("", "test"), ("packages/api", "test (packages/api)")])
def test_a_gate_of_a_package_is_named_after_it(folder, name):
    assert Gate(kind="test", command="pytest", folder=folder).name == name


@pytest.mark.parametrize(
    ("verdict", "blocks"),
    [
        *((verdict, True) for verdict in ("new_failure", "vacuous", "error", "timeout")),
        *((verdict, False) for verdict in ("pass", "pre_existing", "fixed", "flaky", "not_applicable")),
    ],
)
def test_a_worse_or_vacuous_result_blocks(verdict, blocks):
    """BX-4: an old failure, a fixed or flaky test and a missing gate do not."""
    assert GateResult(gate=TEST, verdict=verdict).blocks is blocks


def test_a_gate_that_only_warns_blocks_nothing_and_is_no_evidence_once_it_would():
    """BX-4: the project's own set-up never runs it."""
    advisory = Gate(kind="lint", command="ruff check .", advisory=True)
    broken, clean = GateResult(gate=advisory, verdict="new_failure"), GateResult(gate=advisory, verdict="pass")
    assert (broken.blocks, broken.warns, broken.counts_for_work) == (False, True, False)
    assert (clean.blocks, clean.warns, clean.counts_for_work) == (False, False, True)
    assert not GateResult(gate=TEST, verdict="not_applicable").counts_for_work
