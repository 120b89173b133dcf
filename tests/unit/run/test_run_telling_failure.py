"""Which of an action's failed attempts tells best why it failed."""

from builders import an_action, an_attempt
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.run.failures.ladder import failure_kind, most_telling

GATE = Gate(kind="test", command="pytest")
REGRESSION = Verification(
    commit="c",
    results=(),
    gates=(GateResult(gate=GATE, verdict="new_failure", tests={"test_a.py::test_x": "new_failure"}),),
)
TAMPERED = Verification(commit="c", results=(CheckResult(name="checks", verdict="fail", detail="- test_a.py"),))
RED = Verification(commit="c", results=(CheckResult(name="make test", verdict="fail", exit_code=1),))
BROKEN_GATE = Verification(commit="c", results=(), gates=(GateResult(gate=GATE, verdict="error"),))
GREEN = Verification(commit="c", results=(CheckResult(name="make test", verdict="pass", exit_code=0),))


def ended(number, outcome, verification=None, phase="verifying"):
    """Return an attempt that ended in `phase`."""
    ends = {"status": "ended", "phase": phase, "outcome": outcome, "verification": verification}
    return an_attempt(an_action("a"), number, **ends)


def test_a_failure_is_known_by_its_records_not_by_its_text():
    """AL-6."""
    rows = [
        (ended(1, "gate_failed", REGRESSION), "named"),
        (ended(1, "contract_failed", TAMPERED), "named"),
        (ended(1, "contract_failed", GREEN, "candidate"), "named"),
        (ended(1, "contract_failed", RED), "refused"),
        (ended(1, "gate_failed", BROKEN_GATE), "refused"),
        (ended(1, "gate_failed", REGRESSION, "executing"), "unimproved"),
        (ended(1, "contract_failed", None, "executing"), "unchanged"),
        (ended(1, "timeout", RED), "timeout"),
        (ended(1, "executor_failed"), "error"),
        (ended(1, "lost"), "error"),
    ]
    assert [(attempt, failure_kind(attempt)) for attempt, _ in rows] == rows


def test_the_most_telling_attempt_gives_the_reason():
    """AL-6, BX-12: a refusal with names over an unchanged tree, over a timeout, over trouble of a provider."""
    rows = [
        # The last attempt says the least, as when a provider fails after two refusals.
        ([ended(1, "gate_failed", REGRESSION), ended(2, "contract_failed", RED), ended(3, "executor_failed")], 1),
        ([ended(1, "gate_failed", REGRESSION), ended(2, "contract_failed", None, "executing")], 1),
        ([ended(1, "gate_failed", REGRESSION), ended(2, "gate_failed", REGRESSION, "executing")], 1),
        ([ended(1, "contract_failed", RED), ended(2, "contract_failed", RED, "executing")], 1),
        ([ended(1, "contract_failed", RED, "executing"), ended(2, "contract_failed", None, "executing")], 1),
        ([ended(1, "contract_failed", None, "executing"), ended(2, "timeout"), ended(3, "executor_failed")], 1),
        ([ended(1, "executor_failed"), ended(2, "timeout")], 2),
        # Of two that say the same, the later one is about the newer work.
        ([ended(1, "contract_failed", RED), ended(2, "contract_failed", RED), ended(3, "timeout")], 2),
        ([ended(4, "executor_failed")], 4),
    ]
    assert [(attempts, most_telling(attempts).number) for attempts, _ in rows] == rows
