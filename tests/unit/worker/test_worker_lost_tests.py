"""When lost tests are all that blocks work."""

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.worker.human.protected_review import blocking_losses


def gate(verdict="new_failure", *, lost=(), failing=(), unnamed=0, kind="test"):
    """Return a gate's result with these new failures, `unnamed` ones left out of its names."""
    tests = dict.fromkeys((*lost, *failing), "new_failure")
    return GateResult(
        gate=Gate(kind=kind, command="x"),
        verdict=verdict,
        tests=tests,
        base_tests=dict.fromkeys(lost, "lost"),
        counts={"new_failure": len(tests) + unnamed},
    )


def found(*gates, failed=False):
    results = (CheckResult(name="false", verdict="fail"),) if failed else ()
    return Verification(commit=Commit("c" * 40), results=results, gates=gates)


def test_lost_tests_can_be_agreed_to_only_if_nothing_else_blocks():
    """AL-23: and only those that are named."""
    rows = [
        (found(gate(lost=("b", "a"))), ("a", "b")),
        (found(gate("pass"), gate(lost=("a",))), ("a",)),
        (found(gate(lost=("a",)), gate(lost=("b",))), ("a", "b")),
        (found(gate(lost=("a",), failing=("c",))), ()),
        (found(gate(lost=("a",)), gate(failing=("c",))), ()),
        (found(gate(lost=("a",)), gate("timeout", kind="lint")), ()),
        (found(gate(lost=("a",)), failed=True), ()),
        (found(gate(lost=("a",), unnamed=1)), ()),
        (found(gate("pass")), ()),
        (found(), ()),
    ]
    assert [(verification, blocking_losses(verification)) for verification, _ in rows] == rows
