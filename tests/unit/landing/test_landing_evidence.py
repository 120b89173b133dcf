"""Which results become evidence: passed checks, gates that allow the change, human approvals."""

from datetime import UTC, datetime

from inline_snapshot import snapshot

from builders import an_action, an_attempt
from scaffold.core.model import InboxItem
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.landing.facts.effect_evidence import approvals_of, describe_gate, evidence_of

THEN = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 2, tzinfo=UTC)
TESTS = Gate(kind="test", command="pytest", runner="pytest")


def gate(verdict, **fields):
    return GateResult(gate=TESTS, verdict=verdict, exit_code=0, output_hash="h", **fields)


def agreed(base="b", **detail):
    return InboxItem(
        id="i1",
        run_id=ATTEMPT.run_id,
        action_id=ATTEMPT.action_id,
        kind="approval",
        text="a changes protected paths: auth.py",
        detail={"base": base, "protected": ["auth.py"], **detail},
        state="approved",
        answer="I looked",
        created_at=THEN,
        decided_at=LATER,
    )


ATTEMPT = an_attempt(an_action("a"), base_sha="b")


def test_only_passed_checks_are_evidence():
    """BX-2: a fact's evidence names the command, how it ended, and the commit that landed."""
    results = (
        CheckResult(name="make test", verdict="pass", exit_code=0, detail="3 passed", output_hash="h"),
        CheckResult(name="lint", verdict="warn", exit_code=1),
        CheckResult(name="change", verdict="pass", detail="2 paths changed"),
    )
    tested, changed = evidence_of(Verification(commit="m", results=results), "attempt-1", "c" * 40, THEN)
    assert (tested.kind, tested.command, tested.exit_code, tested.commit) == ("contract", "make test", 0, "c" * 40)
    assert (tested.attempt_id, tested.at, tested.output_hash, tested.detail) == ("attempt-1", THEN, "h", "3 passed")
    assert (changed.kind, changed.exit_code) == ("change", None)


def test_an_allowing_gate_is_evidence_with_its_test_counts():
    """BX-1, AL-9: the command, its exit code, and the test results."""
    for verdict in ("pass", "pre_existing", "fixed", "flaky"):
        result = gate(verdict, counts={"pass": 12, "flaky": 1}, focused=True)
        found = Verification(commit="m", results=(), gates=(result,))
        (evidence,) = evidence_of(found, "attempt-1", "c" * 40, THEN)
        assert (evidence.kind, evidence.command, evidence.exit_code) == ("gate", "pytest", 0)
        assert evidence.detail == f"test: {verdict}, 12 pass, 1 flaky, focused"
        assert (evidence.commit, evidence.output_hash, evidence.attempt_id) == ("c" * 40, "h", "attempt-1")


def test_a_gate_that_does_not_support_the_change_is_no_evidence():
    """BX-1: a gate that does not apply, or is vacuous, supports nothing."""
    verdicts = ["not_applicable", "new_failure", "vacuous", "error", "timeout"]
    gates = tuple(map(gate, verdicts))
    assert evidence_of(Verification(commit="m", results=(), gates=gates), "attempt-1", "c", THEN) == ()


def test_gate_evidence_counts_tests_removed_with_the_code_they_tested():
    """AL-10, BX-5: the evidence of a fact shows that something is no longer tested."""
    description = describe_gate(
        gate("pass", counts={"pass": 3}, base_tests={"a": "removed", "b": "moved", "c": "removed"})
    )
    assert description == "test: pass, 2 removed, 3 pass"
    assert describe_gate(gate("pass", counts={"pass": 0})) == "test: pass"


def test_a_humans_approval_is_evidence_with_time_and_reason():
    """BX-1: a human's decision is a kind of its own."""
    (evidence,) = evidence_of(Verification(commit="m", results=()), "attempt-1", "c", THEN, [agreed()])
    assert (evidence.kind, evidence.command, evidence.at) == ("human", None, LATER)
    assert evidence.detail == snapshot("approved as i1: I looked\na changes protected paths: auth.py")


def test_only_approvals_of_protected_changes_on_the_same_base_count():
    """BX-1: an approval of another change, or of an earlier attempt, does not count here."""
    others = [agreed(base="other"), agreed(protected=[]), agreed(protected=None)]
    assert list(approvals_of(ATTEMPT, [*others, agreed()])) == [agreed()]
