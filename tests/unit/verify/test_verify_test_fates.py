"""What became of the base's tests in files that a change altered."""

from msgspec import structs

from scaffold.core.proof.gates import Gate, GateResult, GateRun
from scaffold.verify.gates.reports.jest import unresolved_name
from scaffold.verify.gates.reports.runner_result import UnresolvedName
from scaffold.verify.locate_tests import name_in_file, occurs_in, title_in_source
from scaffold.verify.regression.base_tests import (
    LaidRun,
    bound_names,
    changed_base_tests,
    class_attributes,
    describe_lost,
    fates_of_tests,
    judged_by_landings,
    module_names,
    namesakes,
    removed_earlier,
    selection,
)
from scaffold.verify.regression.comparison import lost_tests
from scaffold.verify.regression.selection.affected_tests import ChangeImpact
from scaffold.verify.regression.selection.test_selection import Selection

TEST = Gate(kind="test", command="pytest", runner="pytest")


def run(outcomes, **fields):
    fields = {"commit": "c0ffee", "environment": "env", "exit_code": 0, "detail": "as printed"} | fields
    return GateRun(gate=TEST, outcomes=outcomes, **fields)


CHANGE = ChangeImpact(
    paths=frozenset({"tests/a.py", "tests/b.py", "calc.py"}),
    changed=("calc.py", "tests/a.py"),
    deleted=frozenset(),
    added=frozenset(),
    known={},
    changed_since_baseline=frozenset({"tests/a.py"}),
    selection=Selection(),
)
BEFORE = run({"tests/a.py::test_x": "passed"})


def fate(now, laid, *, unresolved=(), change=CHANGE, problem=None):
    """Return the fate of `tests/a.py::test_x`, from its outcome now and in its base version."""
    now = {} if now is None else {"tests/a.py::test_x": now}
    older = LaidRun(
        run=run({} if laid is None else {"tests/a.py::test_x": laid}, problem=problem),
        unresolved={name: UnresolvedName("calc.sub") for name in unresolved},
    )
    other = {"tests/b.py::test_other": "passed"}
    found = fates_of_tests(BEFORE, run(now | other), older, altered=["tests/a.py"], change=change)
    return found.get("tests/a.py::test_x")


def test_the_base_version_of_a_test_decides_what_became_of_it():
    """AL-10, BX-4, BX-5: no guess from names; a skipped test stands for nothing."""
    expected = {
        ("passed", "passed"): None,
        ("passed", "failed"): "changed",
        ("passed", "skipped"): "changed",
        ("passed", None): "changed",
        ("failed", "failed"): "changed",  # the failure itself blocks
        (None, "passed"): "moved",
        (None, "failed"): "lost",
        (None, "error"): "lost",
        (None, "skipped"): "lost",
        (None, None): "lost",
        ("skipped", "passed"): "lost",
        ("skipped", "failed"): "lost",
    }
    assert {(new, laid): fate(new, laid) for new, laid in expected} == expected


def test_a_test_that_its_task_only_named_is_lost_if_it_expects_something_else():
    """AL-9, AL-10: without files, a task lets work add to the tests that it names; one that fails now is no loss."""
    laid = LaidRun(run=run({"tests/a.py::test_x": "failed"}))
    for ending, then in (("passed", "lost"), ("skipped", "lost"), ("failed", "changed")):
        after = run({"tests/a.py::test_x": ending, "tests/a.py::test_new": "passed"})
        terms = {"altered": ["tests/a.py"], "change": CHANGE}
        assert fates_of_tests(BEFORE, after, laid, named=["tests/a.py"], **terms) == {"tests/a.py::test_x": then}
        declared = fates_of_tests(BEFORE, after, laid, **terms)["tests/a.py::test_x"]
        assert declared == ("lost" if ending == "skipped" else "changed")


def test_a_test_that_cannot_resolve_a_removed_name_went_with_it():
    """AL-10, BX-5: a single test, or a whole file that cannot be loaded."""
    for where in ["tests/a.py::test_x", "tests/a.py"]:
        found = [fate(outcome, "failed", unresolved=[where]) for outcome in (None, "passed", "skipped")]
        assert found == ["removed", "changed", "removed"], where


def test_a_file_that_cannot_be_loaded_stands_for_its_tests():
    """AL-10: its tests are not reported one by one."""
    now, older = run({"tests/b.py::test_other": "passed"}), LaidRun(run=run({"tests/a.py": "error"}))
    assert fates_of_tests(BEFORE, now, older, altered=["tests/a.py"], change=CHANGE) == {"tests/a.py::test_x": "lost"}


def test_a_version_elsewhere_counts_only_if_it_is_new():
    """AL-10, BX-5: an old test of the same name in another file is no version of it."""
    older = LaidRun(run=run({"tests/a.py::test_x": "failed"}))
    now = run({"tests/b.py::test_x": "passed"})
    assert fates_of_tests(BEFORE, now, older, altered=["tests/a.py"], change=CHANGE) == {
        "tests/a.py::test_x": "changed"
    }
    old = run({"tests/a.py::test_x": "passed", "tests/b.py::test_x": "passed"})
    assert fates_of_tests(old, now, older, altered=["tests/a.py"], change=CHANGE) == {"tests/a.py::test_x": "lost"}


def test_a_test_that_landed_earlier_in_the_run_is_missed_as_well():
    """AL-10, BX-1: the baseline does not know it; it had to pass to land."""
    older = LaidRun(run=run({"tests/a.py::test_new": "failed", "tests/a.py::test_x": "passed"}))
    now = run({"tests/a.py::test_x": "passed"})
    assert fates_of_tests(BEFORE, now, older, altered=["tests/a.py"], change=CHANGE) == {"tests/a.py::test_new": "lost"}


def test_a_test_that_landed_work_removed_is_not_missed_again():
    """AL-10: it was judged when that work landed; without such work it is a loss."""
    earlier = structs.replace(CHANGE, changed_earlier=frozenset({"tests/a.py"}))
    assert fate(None, None, change=earlier) is None
    assert fate(None, "failed", change=earlier) == "lost"
    now = run({"tests/b.py::test_other": "passed"})
    assert removed_earlier(BEFORE, now, altered=[], change=earlier) == {"tests/a.py::test_x"}
    assert removed_earlier(BEFORE, now, altered=[], change=CHANGE) == frozenset()


def test_only_what_passed_before_can_be_lost():
    """AL-10, BX-4: a run with a problem is judged by that alone."""
    before = run(
        {"a::stays": "passed", "a::skipped": "passed", "a::flaky": "flaky", "a::out": "passed", "a::f": "failed"}
    )
    now = run({"a::stays": "passed", "a::skipped": "skipped"})
    assert lost_tests(before, now) == {"a::flaky", "a::out", "a::skipped"}
    assert lost_tests(None, now) == lost_tests(before, run({}, problem="error")) == frozenset()


def test_of_a_change_the_tests_of_the_base_are_run_again():
    """AL-10: not those that it adds, nor those that it may not change, which have shown nothing."""
    paths = ("calc.py", "tests/a.py", "tests/b.py", "tests/new_test.py", "tests/data.json")
    change = structs.replace(CHANGE, changed=paths, added=frozenset({"tests/new_test.py"}))
    assert changed_base_tests(TEST, change, lambda path: path != "tests/b.py") == ("tests/a.py", "tests/data.json")


def test_a_runner_runs_as_few_files_as_it_can():
    """AL-10: helpers and data may matter to any of the selected tests."""
    rows = [
        ("pytest", ["api/tests/test_a.py"], ("tests/test_a.py",)),
        ("vitest", ["api/a.test.js"], ("a.test.js",)),
        ("pytest", ["api/tests/test_a.py", "api/tests/conftest.py"], ("tests/test_a.py", "tests/test_b.py")),
        ("node", ["api/a.test.js"], ()),
        ("cargo", ["api/tests/a.rs"], ()),
    ]
    for runner, altered, asked in rows:
        gate = Gate(kind="test", command=runner, runner=runner, folder="api")
        assert selection(gate, altered, ["tests/test_b.py"], CHANGE) == asked, (runner, altered)


def test_a_removed_module_may_have_been_imported_under_several_names():
    """AL-10: with and without the folders that are on the path."""
    assert list(module_names("src/shop/till.py")) == ["src.shop.till", "shop.till", "till"]
    assert list(module_names("shop/__init__.py")) == ["shop"]
    assert list(module_names("shop/data.json")) == []


CLASSES = b"""
class Outer:
    rate: float = 1.0
    class Inner:
        def __init__(self):
            self.size = 1
        def close(self): ...
"""


def test_what_a_class_had_at_the_base_is_read_from_its_definition():
    """AL-10, BX-5: an object of another class that lacks the attribute shows no removal."""
    assert class_attributes(CLASSES, "Outer.Inner") >= {"__init__", "size", "close"}
    assert "rate" not in class_attributes(CLASSES, "Outer.Inner")
    assert "rate" in class_attributes(CLASSES, "Outer")
    assert class_attributes(CLASSES, "Other") == class_attributes(b"class (", "Other") == frozenset()
    assert {"Outer", "Inner", "size"} <= bound_names(CLASSES)


def test_the_name_that_javascript_cannot_resolve_is_read_from_its_error():
    """AL-10: not the name of an installed package, nor of what a call returned."""
    expected = {
        "TypeError: calc.sub is not a function\n    at Object.<anonymous>": "sub",
        "TypeError: (0 , _calc.sub) is not a function": "sub",
        "TypeError: calc.Thing is not a constructor": "Thing",
        "TypeError: require(...).sub is not a function": "sub",
        "ReferenceError: sub is not defined": "sub",
        "SyntaxError: The requested module './calc.mjs' does not provide an export named 'sub'": "sub",
        "Cannot find module '../lib/legacy.js' from 'test/legacy.test.js'": "legacy",
        "Error: Failed to load url ../src/legacy (resolved id: ../src/legacy). Does the file exist?": "legacy",
        "TypeError: add(...).foo is not a function": None,
        "AssertionError: expected 3 to be 4": None,
        "Cannot find module 'left-pad'": None,
    }
    assert {message: unresolved_name(message) for message in expected} == expected


def test_a_name_of_every_runner_has_a_tail_and_a_title():
    """AL-10: what is left without the file, and what the file has of it."""
    rows = [
        ("pytest", "tests/a.py::TestIt::test_one[a.b::c]", "TestIt::test_one[a.b::c]", "test_one"),
        ("unittest", "tests.test_a.It.test_one", "It.test_one", "test_one"),
        ("go", "example.org/a.b/calc.TestOne/sub_case", "TestOne/sub_case", "TestOne"),
        ("jest", "src/a.test.js > outer > adds up", "outer > adds up", "adds up"),
        ("node", "test/a.test.js > outer > adds up (2)", "outer > adds up", "adds up"),
        ("unittest", "tests.test_a.It.test_one > [m] (i=1.5)", "It.test_one > [m] (i=1.5)", "test_one"),
        ("pytest", "tests/a.py::test_one > [m] (i=1)", "test_one > [m] (i=1)", "test_one"),
        ("cargo", "src/lib.rs: tests::adds", "tests::adds", "adds"),
        ("exit", "exit", "exit", "exit"),
    ]
    for runner, name, tail, title in rows:
        gate = Gate(kind="test", command=runner, runner=runner)
        assert (name_in_file(gate, name), title_in_source(gate, name)) == (tail, title), runner
        assert occurs_in(f"def {title}(", gate, name), runner
        assert not occurs_in(f"def {title}_more(", gate, name), runner


def test_namesakes_pass_elsewhere():
    """AL-10: a failing one stands for nothing."""
    now = run({"b::test_one": "passed", "b::test_two": "failed"})
    assert namesakes(TEST, ["a::test_one", "a::test_two", "a::test_three"], now) == {"a::test_one"}


def landing(base_tests, *new):
    return GateResult(gate=TEST, verdict="pass", base_tests=base_tests, new_tests=new)


def test_at_the_end_of_a_run_its_landings_say_what_became_of_a_moved_test():
    """AL-10, AL-11: one action renames a test, a later one changes what it expects; nothing of it was lost."""
    moved, unrelated = landing({"a::x": "moved"}, "a::y"), landing({"a::z": "changed"})
    again = landing({"a::y": "moved"}, "b::y2")
    names = ["a::x"]
    assert judged_by_landings(names, TEST, [moved, landing({"a::y": "changed"})]) == {"a::x"}
    assert judged_by_landings(names, TEST, [moved, again, landing({"b::y2": "removed"})]) == {"a::x"}
    assert judged_by_landings(names, TEST, [landing({"a::x": "lost"})]) == {"a::x"}  # a reviewer agreed
    assert judged_by_landings(names, TEST, [moved, unrelated]) == frozenset()
    assert judged_by_landings(names, TEST, [landing({"a::y": "changed"}), moved]) == frozenset()
    other = Gate(kind="test", command="pytest", runner="pytest", folder="api")
    assert judged_by_landings(names, other, [landing({"a::x": "removed"})]) == frozenset()


def test_lost_tests_are_named_with_what_to_do():
    """AL-10, BX-4: one line for the agent that took them out."""
    assert describe_lost([]) == ""
    assert describe_lost(["a::b", "a::c"]).startswith(
        "Gone, skipped or changed, but failing on this code as they were: a::b, a::c."
    )
