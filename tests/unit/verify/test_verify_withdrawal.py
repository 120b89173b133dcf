"""Tests that the work took out of a file: what is told of them, and what counts."""

import pytest

from scaffold.core.gates import Gate, GateRun
from scaffold.verify.comparison import gone
from scaffold.verify.withdrawal import with_kept

TEST = Gate(kind="test", command="pytest", runner="pytest")


def run(outcomes, **fields):
    fields = {"commit": "c0ffee", "environment": "env", "exit_code": 0, "detail": "as printed"} | fields
    return GateRun(gate=TEST, outcomes=outcomes, **fields)


def test_gone_is_what_passed_and_is_not_told_of_at_all():
    """AL-10, BX-4: who skips a test has not taken it out, and what failed before is nobody's loss."""
    before = run(
        {"a::stays": "passed", "a::skipped": "passed", "a::flaky": "flaky", "a::out": "passed", "a::f": "failed"}
    )
    now = run({"a::stays": "passed", "a::skipped": "skipped"})
    assert gone(before, now) == ("a::flaky", "a::out")


def test_nothing_is_gone_where_nothing_was_before_or_nothing_is_shown():
    """AL-10: a run in trouble is judged by that alone."""
    assert gone(None, run({})) == ()
    assert gone(run({"a::out": "passed"}), run({}, trouble="error")) == ()


@pytest.mark.parametrize("again", ["failed", "error", "skipped", None])
def test_only_what_passes_again_is_kept(again):
    """AL-10, BX-5: one that fails, cannot be prepared, is skipped or not found there is still lost."""
    told = {"a::kept": "passed"} | ({"a::out": again} if again else {})
    kept = with_kept(run({"a::new": "passed"}), run(told), ["a::kept", "a::out"])
    assert kept.outcomes == {"a::new": "passed", "a::kept": "passed"}
    assert kept.detail == (
        "1 test that was taken out of declared files passes with these files as they were: a::kept.\nas printed"
    )


def test_a_run_in_trouble_keeps_nothing():
    """AL-10, BX-5: whatever such a run told."""
    assert with_kept(run({}), run({"a::out": "passed"}, trouble="error"), ["a::out"]) == run({})


def test_only_tests_that_were_asked_for_are_kept_and_a_few_of_them_are_named():
    """AL-10: what the old file shows of a test that is still there counts for nothing."""
    names = [f"a::{letter}" for letter in "abcde"]
    kept = with_kept(run({"a::still": "failed"}), run(dict.fromkeys([*names, "a::still"], "passed")), names)
    assert kept.outcomes["a::still"] == "failed"
    assert kept.detail.startswith(
        "5 tests that were taken out of declared files pass with these files as they were: a::a, a::b, a::c and 2 more."
    )
