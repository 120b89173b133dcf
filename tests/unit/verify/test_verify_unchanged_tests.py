"""Tests that the work did not change, and what became of them."""

from msgspec import structs

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.regression.base_tests import LaidRun
from scaffold.verify.regression.selection.affected_tests import ChangeImpact
from scaffold.verify.regression.selection.test_selection import Selection
from scaffold.verify.regression.unchanged_tests import fates_without_support, new_support_files, replaced_cases

TEST = Gate(kind="test", command="pytest", runner="pytest")
CHANGE = ChangeImpact(
    paths=frozenset({"tests/test_a.py", "calc.py"}),
    changed=("calc.py",),
    deleted=frozenset(),
    added=frozenset(),
    known={},
    changed_since_baseline=frozenset({"calc.py"}),
    selection=Selection(),
)


def run(**outcomes):
    names = {f"tests/test_a.py::{name}": outcome for name, outcome in outcomes.items()}
    return GateRun(gate=TEST, commit="c", environment="e", exit_code=0, detail="", outcomes=names)


def cases(*ids, outcome="passed"):
    return run(**{f"test_it[{each}]": outcome for each in ids})


def test_a_case_that_the_code_took_away_is_known_by_another_in_its_place():
    """BX-5: the number of cases is the same."""
    rows = [
        (cases("add", "sub"), cases("plus", "sub"), ["add"]),
        (cases("add", "sub"), cases("add", "sub", "div"), []),
        (cases("0x1", "0x2"), cases("0x3", "0x4"), []),
        (cases("add", "sub"), cases("sub"), []),  # one less passes, and that blocks anyway
        (cases("add", "sub", outcome="failed"), cases("plus", "sub"), []),
        (run(test_x="passed", test_y="passed"), run(test_y="passed", test_z="passed"), []),
    ]
    assert [
        (before, now, gone)
        for before, now, gone in rows
        if replaced_cases(before, now, CHANGE) != {f"tests/test_a.py::test_it[{each}]": "removed" for each in gone}
    ] == []


def test_cases_of_changed_tests_and_data_are_judged_elsewhere():
    rows = [
        ({"changed": ("calc.py", "tests/test_b.py"), "added": frozenset({"tests/test_b.py"})}, True),
        ({"changed": ("calc.py", "tests/new.json"), "added": frozenset({"tests/new.json"})}, True),
        ({"changed": ("calc.py", "tests/test_a.py")}, False),
        ({"changed": ("calc.py", "tests/cases.json")}, False),
        ({"changed_earlier": frozenset({"calc.py"})}, False),
    ]
    for change, found in rows:
        altered = structs.replace(CHANGE, **change)
        assert bool(replaced_cases(cases("add", "sub"), cases("plus", "sub"), altered)) == found, change


def test_new_files_beside_tests_may_support_them():
    """BX-5: no tests, no packages; a text is data, too."""
    added = ("tests/expected.json", "tests/conftest.py", "conftest.py", "tests/test_b.py", "tests/__init__.py")
    change = structs.replace(CHANGE, added=frozenset({*added, "tests/notes.md", "data/x.json", "web/tests/x.json"}))
    assert new_support_files(TEST, change) == (
        "conftest.py",
        "tests/conftest.py",
        "tests/expected.json",
        "tests/notes.md",
        "web/tests/x.json",
    )
    assert new_support_files(structs.replace(TEST, folder="web"), change) == ("web/tests/x.json",)


def test_a_test_that_passes_only_with_new_files_would_fail_as_it_was():
    before = run(test_a="passed", test_b="passed", test_c="failed", test_d="passed", test_e="passed")
    now = run(test_a="passed", test_b="passed", test_c="passed", test_d="failed", test_e="passed")
    laid = run(test_a="failed", test_b="passed", test_c="failed", test_d="failed")
    assert fates_without_support(before, now, LaidRun(run=laid), CHANGE) == {"tests/test_a.py::test_a": "changed"}
