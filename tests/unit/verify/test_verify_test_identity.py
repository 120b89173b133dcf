"""A name stands for the same test in two runs: equal names by position, varying names by position and shape."""

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.gates.reports.runner_result import distinct_names
from scaffold.verify.regression.comparison import compare_gate_runs, lost_tests
from scaffold.verify.regression.test_identity import (
    VaryingNames,
    describe_varying,
    has_shape,
    matched_runs,
    may_be_misnamed,
    varying_names,
)

NODE = Gate(kind="test", command="npm test", runner="node")
OUTCOMES = {"P": "passed", "F": "failed", "S": "skipped"}


def run(*tests, problem=None):
    """Return a run of tests like `F works at 1`, in this order."""
    names = distinct_names([test[2:] for test in tests])
    outcomes = {name: OUTCOMES[test[0]] for name, test in zip(names, tests, strict=True)}
    return GateRun(gate=NODE, commit="c0ffee", environment="e", exit_code=0, outcomes=outcomes, problem=problem)


def compared(before, now, again=None):
    """Return the verdict on a run after work, with the counts."""
    names = varying_names(before, again) if again is not None and may_be_misnamed(before, now, bool) else VaryingNames()
    matched = matched_runs(before, now, names)
    return compare_gate_runs(matched.before, matched.now).verdict


def test_names_of_one_title_are_numbered_and_never_taken_from_another_test():
    """BX-4: also if a title looks like a number that was given."""
    assert distinct_names(["a", "a (2)", "a", "a"]) == ["a", "a (2)", "a (3)", "a (4)"]
    assert distinct_names(["a", "a", "a (2)"]) == ["a", "a (3)", "a (2)"]


def test_equal_names_are_matched_by_position_or_else_by_outcome():
    """BX-4, AL-10: of as many tests none stands for another; a new or removed one takes no other's place."""
    rows = [
        ("FP", "PF", "new_failure"),
        ("PF", "FP", "new_failure"),
        ("FP", "FP", "pre_existing"),
        ("FP", "PFP", "pre_existing"),
        ("FP", "FPP", "pre_existing"),
        ("FP", "FFP", "new_failure"),
        ("FP", "P", "pass"),
        ("FP", "F", "new_failure"),
        ("PP", "P", "new_failure"),
        ("F", "PF", "pre_existing"),
        ("P", "PF", "new_failure"),
        ("FP", "", "new_failure"),
    ]
    for before, now, verdict in rows:
        found = compared(*(run("P other", *(f"{end} works" for end in ends)) for ends in (before, now)))
        assert (found if verdict != "pass" else found in {"pass", "fixed"}) == (
            verdict if verdict != "pass" else True
        ), (before, now, found)


def test_names_that_vary_are_matched_by_position_and_shape():
    """BX-4, AL-10: what is mended does not stand for what is broken, and honest work is not missed."""
    rows = [
        ("PP", "PP", "pass"),
        ("FP", "FP", "pre_existing"),
        ("FP", "PF", "new_failure"),
        ("PP", "PPP", "pass"),
        ("PP", "P", "new_failure"),
        ("FP", "PP", "fixed"),
    ]
    titles = [
        "a.test.js > works at {}",
        "a.test.js > suite {} > works",
        "a.test.js > {:x}-4a-{} of 2026-11-29T05:00:{}",
        "tests/test_a.py::test_case[<test_a.Case object at 0x7f{:x}>]",
        "example.com/m.TestF/tmp_{}",
    ]
    for title in titles:
        for before, now, verdict in rows:
            runs = [
                run(*(f"{end} {title.format(number * 10 + at, number, at)}" for at, end in enumerate(ends)))
                for number, ends in ((1_795, before), (1_796, now), (1_797, before))
            ]
            assert compared(*runs) == verdict, (title, before, now)


def test_random_words_are_recognised_by_their_position():
    """BX-4: what two runs have in common before and after them is their shape."""
    before, again = (
        run("P a.js > stable", "F a.js > makes tmpabc here"),
        run("P a.js > stable", "F a.js > makes xyz here"),
    )
    names = varying_names(before, again)
    assert names.shapes == ("a.js > makes …… here",)
    assert compared(before, run("P a.js > stable", "F a.js > makes qqq here"), again) == "pre_existing"
    assert compared(before, run("P a.js > stable", "F a.js > breaks qqq here"), again) == "new_failure"


def test_only_names_that_two_runs_at_the_base_have_not_in_common_vary():
    """AL-10: a test that the work removes or renames is missed, whatever its name looks like."""
    before = run("P a.js > works at 1")
    assert compared(before, run("P a.js > works at 2"), before) == "new_failure"
    assert compared(before, run("P a.js > works at 2"), run(problem="error")) == "new_failure"
    assert not may_be_misnamed(before, run("P a.js > works at 1", "P a.js > new"), bool)
    assert not may_be_misnamed(before, run(), bool)


def test_equal_names_without_a_fixed_order_are_matched_by_outcome():
    """AL-10: two projects of one runner may report a file in any order; that is not the work's doing."""
    before, other = run("F works", "P works"), run("P works", "F works")
    assert compared(before, other, other) == "pre_existing"
    assert compared(before, run("F works", "F works"), other) == "new_failure"


def test_the_tests_of_the_base_have_the_same_names_on_the_code_of_the_work():
    """AL-10: a test that was added before them moves the numbers of the others."""
    matched = matched_runs(run("P works", "F works"), run("P works", "P works", "F works"), VaryingNames())
    laid = matched.same_tests(run("F works", "P works"))
    passed_before = {name for name, outcome in matched.before.outcomes.items() if outcome == "passed"}
    assert {laid.outcomes[name] for name in passed_before} == {"failed"}
    assert not lost_tests(matched.before, matched.now)
    assert compare_gate_runs(matched.before_mended(laid), matched.now).verdict == "new_failure"
    as_before = matched.same_tests(run("P works", "F works"))
    assert compare_gate_runs(matched.before_mended(as_before), matched.now).verdict == "pre_existing"


def test_names_that_vary_are_described():
    assert describe_varying(["a.js > works at …"]) == (
        "1 name of tests changes from run to run; matched by position: a.js > works at …"
    )
    assert describe_varying(list("abcd")).endswith(
        "names of tests change from run to run; matched by position: a, b, c and 1 more"
    )
    assert has_shape("works at 12", "works at …")
    assert not has_shape("works at noon", "works at …")
