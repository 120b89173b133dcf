"""Tests that the work took out of a file: what is told of them, and what counts."""

import pytest

from scaffold.core.gates import Gate, GateRun
from scaffold.verify.locate_tests import name_in_file, occurs_in, title_in_source
from scaffold.verify.regression.comparison import missing_tests
from scaffold.verify.regression.withdrawal import Withdrawn, namesakes, told_broken, with_kept

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
    assert missing_tests(before, now) == ("a::flaky", "a::out")


def test_nothing_is_gone_where_nothing_was_before_or_nothing_is_shown():
    """AL-10: a run with a problem is judged by that alone."""
    assert missing_tests(None, run({})) == ()
    assert missing_tests(run({"a::out": "passed"}), run({}, problem="error")) == ()


@pytest.mark.parametrize("again", ["failed", "error", "skipped", None])
def test_only_what_passes_again_is_kept(again):
    """AL-10, BX-5: one that fails, cannot be prepared, is skipped or not found there is still lost."""
    told = {"a::kept": "passed"} | ({"a::out": again} if again else {})
    kept = with_kept(run({"a::new": "passed"}), run(told), ["a::kept", "a::out"])
    assert kept.outcomes == {"a::new": "passed", "a::kept": "passed"}


def test_an_unusable_run_keeps_nothing():
    """AL-10, BX-5: whatever such a run told."""
    assert with_kept(run({}), run({"a::out": "passed"}, problem="error"), ["a::out"]) == run({})


def test_only_tests_that_were_asked_for_are_kept():
    """AL-10: what the old file shows of a test that is still there counts for nothing."""
    names = [f"a::{letter}" for letter in "abcde"]
    kept = with_kept(run({"a::still": "failed"}), run(dict.fromkeys([*names, "a::still"], "passed")), names)
    assert kept.outcomes["a::still"] == "failed"
    assert [kept.outcomes[name] for name in names] == ["passed"] * 5


@pytest.mark.parametrize(
    ("runner", "asked"),
    [
        ("pytest", ("tests/a.py::one", "tests/b.py::two")),
        ("vitest", ("tests/a.py", "tests/b.py")),
        ("node", ()),
        ("cargo", ()),
    ],
)
def test_a_runner_is_asked_as_finely_as_it_can_be(runner, asked):
    """AL-10: by test under the name of before, by file, or for everything."""
    taken = Withdrawn(
        before=frozenset(), homes={"tests/b.py::two": "api/tests/b.py", "tests/new.py::one": "api/tests/a.py"}
    )
    gate = Gate(kind="test", command=runner, runner=runner, folder="api")
    assert taken.selection(gate, {"tests/new.py::one": "tests/a.py::one"}) == asked


@pytest.mark.parametrize(
    ("runner", "name", "tail", "title"),
    [
        ("pytest", "tests/a.py::TestIt::test_one[a.b::c]", "TestIt::test_one[a.b::c]", "test_one"),
        ("unittest", "tests.test_a.It.test_one", "It.test_one", "test_one"),
        ("go", "example.org/a.b/calc.TestOne/sub_case", "TestOne/sub_case", "TestOne"),
        ("jest", "src/a.test.js > outer > adds up", "outer > adds up", "adds up"),
        ("node", "outer > adds up (2)", "outer > adds up", "adds up"),
        ("cargo", "src/lib.rs: tests::adds", "tests::adds", "adds"),
        ("exit", "exit", "exit", "exit"),
    ],
)
def test_a_name_of_every_runner_has_a_tail_and_a_title(runner, name, tail, title):
    """AL-10: what is left without the file, and what the file has of it."""
    gate = Gate(kind="test", command=runner, runner=runner)
    assert (name_in_file(gate, name), title_in_source(gate, name)) == (tail, title)
    assert occurs_in(f"def {title}(", gate, name)
    assert not occurs_in(f"def {title}_more(", gate, name)


def test_namesakes_pass_elsewhere():
    """AL-10: a failing one stands for nothing."""
    now = run({"b::test_one": "passed", "b::test_two": "failed"})
    assert namesakes(TEST, ["a::test_one", "a::test_two", "a::test_three"], now) == {"a::test_one"}


def test_what_does_not_pass_is_told_with_what_to_do():
    """AL-10, BX-4: one line for whoever took them out."""
    assert told_broken([]) == ""
    assert told_broken(["a::b", "a::c"]).startswith("Taken out, but failing as they were: a::b, a::c. Put back what")
