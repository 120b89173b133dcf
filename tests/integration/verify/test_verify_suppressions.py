"""The doubt that new suppressions leave, on real commits."""

import pytest

from integration.verify.builders import CandidateRepository
from scaffold.core.gates import Gate, GateResult
from scaffold.git import commits
from scaffold.verify.regression.suppressions import doubts_about_suppressions

LINT = Gate(kind="lint", command="ruff check .", runner="findings")
TESTS = Gate(kind="test", command="pytest", runner="pytest")
TYPES = Gate(kind="typecheck", command="mypy .", runner="findings")


@pytest.fixture
def repository(harness, tmp_path):
    return CandidateRepository(harness, tmp_path)


async def test_a_doubt_counts_the_new_suppressions_of_each_file(repository):
    """BX-5: only those that a gate which ran obeys."""
    base = await repository.commit({"old.py": "import a  # noqa\n", "b.py": ""})
    work = await repository.commit(
        {"old.py": None, "new.py": "import a  # noqa\nimport b  # noqa\nimport c  # noqa: F401\n",
         "b.py": "x = f()  # type: ignore\n"}
    )  # fmt: skip
    tree = await repository.tree(base, work)
    changes = await commits.path_changes(tree.git, base, work)
    passed = [GateResult(gate=gate, verdict="pass") for gate in (LINT, TYPES)]
    (doubt,) = await doubts_about_suppressions(tree, changes, passed)
    assert (doubt.code, doubt.text) == (
        "suppressions",
        "3 new suppressions: b.py (1 type: ignore), new.py (2 noqa)",
    )
    assert await doubts_about_suppressions(tree, changes, [GateResult(gate=LINT, verdict="not_applicable")]) == ()
    assert await doubts_about_suppressions(tree, changes, []) == ()


async def test_suppressions_behind_a_link_count(repository):
    """BX-5: a link that was there before hides none either, and its unchanged lines are not new."""
    base = await repository.commit({"old.txt": "import a  # noqa\n", "other.py": "import a  # noqa\n"})
    (repository.harness.repo / "new.py").symlink_to("old.txt")
    (repository.harness.repo / "alias.py").symlink_to("other.py")
    linked = await repository.commit({})
    later = await repository.commit({"old.txt": "import a  # noqa\nimport b  # noqa\n"})
    for before, after in ((base, linked), (linked, later)):
        tree = await repository.tree(before, after)
        changes = await commits.path_changes(tree.git, before, after)
        (doubt,) = await doubts_about_suppressions(tree, changes, [GateResult(gate=LINT, verdict="pass")])
        assert doubt.text == "1 new suppression: new.py (1 noqa)"


async def test_a_stub_beside_a_module_counts_and_one_of_a_compiled_module_does_not(repository):
    """BX-5: mypy reads the stub and not the module."""
    base = await repository.commit({"calc/basic.py": "x = 1\n"})
    work = await repository.commit({"calc/basic.pyi": "x: int\n", "calc/fast.pyi": "x: int\n", "calc/fast.c": "x"})
    tree = await repository.tree(base, work)
    changes = await commits.path_changes(tree.git, base, work)
    (doubt,) = await doubts_about_suppressions(tree, changes, [GateResult(gate=TYPES, verdict="pass")])
    assert doubt.text == "1 new suppression: calc/basic.pyi (1 stub)"
    assert await doubts_about_suppressions(tree, changes, [GateResult(gate=LINT, verdict="pass")]) == ()


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("setup.cfg", "[coverage:report]\nfail_under = 90\n", True),
        ("Makefile", "test:\n\tpytest --cov-fail-under=90\n", True),
        ("web/.nycrc.json", '{"check-coverage": true}', True),
        ("setup.cfg", "[coverage:run]\nbranch = true\n", False),
        (".pylintrc", "[MASTER]\nfail-under=9\n", False),
        ("calc.py", "fail_under = 90\n", False),
    ],
)
async def test_lines_left_out_of_coverage_count_where_it_has_a_threshold(repository, name, text, counts):
    """BX-5: without one they decide nothing."""
    base = await repository.commit({name: text})
    work = await repository.commit({"new.py": "def f():  # pragma: no cover\n    pass\n"})
    tree = await repository.tree(base, work)
    changes = await commits.path_changes(tree.git, base, work)
    found = await doubts_about_suppressions(tree, changes, [GateResult(gate=TESTS, verdict="pass")])
    assert [each.text for each in found] == (["1 new suppression: new.py (1 no cover)"] if counts else [])
    assert await doubts_about_suppressions(tree, changes, [GateResult(gate=LINT, verdict="pass")]) == ()
