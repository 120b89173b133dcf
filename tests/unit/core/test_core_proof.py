"""What evidence says, and why a check cannot run."""

from scaffold.core.ids import Commit
from scaffold.core.plan import forced_files
from scaffold.core.proof.contract import (
    CheckResult,
    Contract,
    Doubt,
    Verification,
    evidence_json,
    reasons_of,
    strength_of,
)
from scaffold.core.proof.not_ready import MissingProgram, read_missing_program

OPEN = Doubt("not_executed", "12 changed lines, 0 executed")
ANSWERED = Doubt("no_contract", "no contract", "no executed line changed meaning: comments")


def test_answered_doubts_are_unchanged_behaviour_and_open_ones_are_weak() -> None:
    """BX-1: people and JSON are told only what is open; the answer, if nothing is."""
    assert strength_of((OPEN, ANSWERED), reviewed=False) == "weak"
    assert reasons_of((OPEN, ANSWERED)) == (OPEN.text,)
    assert strength_of((ANSWERED,), reviewed=False) == "unchanged behaviour"
    assert reasons_of((ANSWERED, ANSWERED)) == (ANSWERED.answer,)
    assert strength_of((ANSWERED,), reviewed=True) == "reviewed"
    shown = evidence_json((ANSWERED,), "unchanged behaviour")
    assert shown == {"strength": "unchanged", "weak": False, "doubts": []}
    assert evidence_json((OPEN,), "weak")["doubts"] == [{"code": OPEN.code, "text": OPEN.text}]


def test_only_a_refusal_for_safety_ends_an_attempt_at_once() -> None:
    """AL-9: a check that fails does not."""
    failed = CheckResult(name="pytest", verdict="fail")
    refused = CheckResult(name="protected", verdict="fail", safety_refusal="undeclared")
    assert not Verification(commit=Commit("c"), results=(failed,)).is_safety_refusal
    assert Verification(commit=Commit("c"), results=(failed, refused)).is_safety_refusal


def test_the_reason_of_a_missing_program_can_be_read_again() -> None:
    """AL-10: for JSON, which has its parts."""
    missing = MissingProgram("ruff", "the sandbox of checks (PATH=/bin)", "Install it.")
    assert read_missing_program(f"{missing.what}. {missing.fix}") == missing
    assert read_missing_program("it failed") is None


def test_a_file_is_forced_that_is_declared_and_must_exist() -> None:
    """BX-30."""
    contract = Contract(must_exist=("gen/x.py", "gen/**", "other"))
    assert forced_files(("gen/x.py", "a.py"), contract) == ("gen/x.py",)
    assert forced_files(("gen/x.py",), None) == ()
