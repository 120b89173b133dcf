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
