"""The doubt that new suppressions leave, on real commits."""

from inline_snapshot import snapshot

from scaffold.core.proof.gates import Gate, GateResult
from scaffold.git import commits
from scaffold.verify.regression.suppressions import doubts_about_suppressions

LINT = Gate(kind="lint", command="ruff check .", runner="findings")
TESTS = Gate(kind="test", command="pytest", runner="pytest")
TYPES = Gate(kind="typecheck", command="mypy .", runner="findings")


async def test_a_doubt_counts_the_new_suppressions_of_each_file(candidates):
    """BX-5: only those that a gate which ran obeys."""
    tree, changes = await candidates.worked(
        {"old.py": "import a  # noqa\n", "b.py": ""},
        {"old.py": None, "new.py": "import a  # noqa\nimport b  # noqa\nimport c  # noqa: F401\n",
         "b.py": "x = f()  # type: ignore\n"}
    )  # fmt: skip
    (doubt,) = await doubts_about_suppressions(tree, changes, passed(LINT, TYPES))
    assert (doubt.code, doubt.text) == snapshot(
        ("suppressions", "3 new suppressions: b.py (1 type: ignore), new.py (2 noqa)")
    )
    assert await doubts_about_suppressions(tree, changes, [GateResult(gate=LINT, verdict="not_applicable")]) == ()
    assert await doubts_about_suppressions(tree, changes, []) == ()


def passed(*gates):
    return [GateResult(gate=gate, verdict="pass") for gate in gates]


async def test_suppressions_behind_a_link_count(candidates):
    """BX-5: a link that was there before hides none either, and its unchanged lines are not new."""
    base = await candidates.commit({"old.txt": "import a  # noqa\n", "other.py": "import a  # noqa\n"})
    (candidates.harness.repo / "new.py").symlink_to("old.txt")
    (candidates.harness.repo / "alias.py").symlink_to("other.py")
    linked = await candidates.commit({})
    later = await candidates.commit({"old.txt": "import a  # noqa\nimport b  # noqa\n"})
    for before, after in ((base, linked), (linked, later)):
        tree = await candidates.tree(before, after)
        changes = await commits.path_changes(tree.git, before, after)
        (doubt,) = await doubts_about_suppressions(tree, changes, passed(LINT))
        assert doubt.text.endswith("new.py (1 noqa)")


async def test_a_stub_beside_a_module_counts_and_one_of_a_compiled_module_does_not(candidates):
    """BX-5: mypy reads the stub and not the module."""
    stubs = {"calc/basic.pyi": "x: int\n", "calc/fast.pyi": "x: int\n", "calc/fast.c": "x"}
    tree, changes = await candidates.worked({"calc/basic.py": "x = 1\n"}, stubs)
    (doubt,) = await doubts_about_suppressions(tree, changes, passed(TYPES))
    assert doubt.text.endswith("calc/basic.pyi (1 stub)")
    assert await doubts_about_suppressions(tree, changes, passed(LINT)) == ()


async def test_lines_left_out_of_coverage_count_where_it_has_a_threshold(candidates):
    """BX-5: without one they decide nothing."""
    thresholds = {
        ("setup.cfg", "[coverage:report]\nfail_under = 90\n"): ["no cover"],
        ("Makefile", "test:\n\tpytest --cov-fail-under=90\n"): ["no cover"],
        ("web/.nycrc.json", '{"check-coverage": true}'): ["no cover"],
        ("setup.cfg", "[coverage:run]\nbranch = true\n"): [],
        (".pylintrc", "[MASTER]\nfail-under=9\n"): [],
        ("calc.py", "fail_under = 90\n"): [],
    }
    found, gone = {}, {}
    for name, text in thresholds:
        work = {"new.py": "def f():  # pragma: no cover\n    pass\n"}
        tree, changes = await candidates.worked({**gone, name: text}, work)
        gone = {name: None, "new.py": None}
        doubts = await doubts_about_suppressions(tree, changes, passed(TESTS))
        found[name, text] = [doubt.text.partition("new.py (1 ")[2].rstrip(")") for doubt in doubts]
        assert await doubts_about_suppressions(tree, changes, passed(LINT)) == ()
    assert found == thresholds
