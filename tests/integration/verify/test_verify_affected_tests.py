"""Which tests the gates of a real repository run for a change, from git alone."""

from msgspec import structs

from integration.verify.builders import write_files
from scaffold.core.proof.gates import Gate, GateRun, TaggedTests
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.regression.selection.affected_tests import analyze_impact

GO = Gate(kind="test", command="go test ./...", runner="go", folder="api")
PYTEST = Gate(kind="test", command="pytest", runner="pytest")


async def committed(harness, files):
    write_files(harness.repo, files)
    await harness.sh("git add --all; git commit -qm change")
    return await refs.resolve(harness.context.git, "HEAD")


async def changed_tree(harness, tmp_path, files, changed):
    """Return a checkout of a change of these files."""
    base = await committed(harness, files)
    head = await committed(harness, changed)
    git = await worktree.add(harness.context.repository, tmp_path / "tree", head)
    return Tree(git=git, base=base, commit=head, environ=harness.context.environ)


async def asked(tree, gate, outcomes, tagged=()):
    """Return the selection of a gate, and which tests it is to run."""
    before = GateRun(
        gate=gate, commit=tree.base, environment="", exit_code=0, outcomes=dict.fromkeys(outcomes, "passed")
    )
    change = await analyze_impact(tree, (before,), (), focused=True, tagged=tagged)
    only = change.selected_files(gate)
    return only, change.expected(gate, only)


SHOP = {
    "api/go.mod": "module example.org/shop\n",
    "api/pay/pay.go": "package pay\n\nfunc inner() int { return 1 }\n",
    "api/pay/pay_test.go": "package pay\n",
    "api/till/till.go": 'package till\n\nimport p "example.org/shop/pay"\n\nvar _ = p.Card\n',
    "api/till/some_test.go": "package till\n",
    "api/payroll/payroll.go": 'package payroll\n\nimport "example.org/shop/payment"\n',
    "api/payroll/payroll_test.go": "package payroll\n",
}


async def test_go_packages_that_import_the_change_are_tested_too(harness, tmp_path):
    """AL-11: although no exported name changed; tests of other packages need not run."""
    names = [f"example.org/shop/{each}.TestIt{number}" for each in ("pay", "till", "payroll") for number in range(3)]
    change = {"api/pay/pay.go": "package pay\n\nfunc inner() int { return 2 }\n"}
    tree = await changed_tree(harness, tmp_path, SHOP, change)
    only, expected = await asked(tree, GO, names)
    assert only == ("pay/pay_test.go", "till/some_test.go")
    assert [name for name in names if not expected(name)] == names[6:]
    named = Gate(kind="test", command="go test ./pay ./till", runner="go", folder="api")
    only, expected = await asked(tree, named, names[:3] * 3)
    assert (only, all(map(expected, names[:3]))) == ((), True), "a command that names its packages runs whole"


async def test_deleted_go_tests_are_missed_even_if_their_package_has_none_left(harness, tmp_path):
    """AL-11, BX-4: whatever else is selected."""
    names = [f"example.org/shop/{each}.TestIt{number}" for each in ("pay", "till") for number in range(9)]
    await committed(harness, SHOP)
    await harness.sh("git rm -q api/pay/pay_test.go")
    tree = await changed_tree(harness, tmp_path, {}, {"api/till/till.go": "package till\n"})
    tree = structs.replace(tree, base=await refs.resolve(harness.context.git, "HEAD~2"))
    only, expected = await asked(tree, GO, names)
    assert only == ("till/some_test.go",)
    assert all(map(expected, names))


MARKED = {
    "src/auth/login.py": "x = 1\n",
    "tests/auth/test_login.py": "def test_a(): pass\n",
    "smoke/test_marker.py": "import pytest\n\n@pytest.mark.auth\ndef test_b(): pass\n",
    "smoke/test_word.py": "# @auth\ndef test_c(): pass\n",
    "smoke/test_other.py": "# @author, me@auth.example, mark.authority\ndef test_d(): pass\n",
    "smoke/auth.py": "# @auth\n",
}


async def test_tests_with_a_tag_of_the_change_are_added(harness, tmp_path):
    """AL-11: by pytest's marker, or the word in the file; a part of a word does not count."""
    names = [f"{test}::test_{number}" for test in MARKED if "test_" in test for number in range(5)]
    tree = await changed_tree(harness, tmp_path, MARKED, {"src/auth/login.py": "x = 2\n"})
    added = {
        "src/auth": ["smoke/test_marker.py", "smoke/test_word.py"],
        "src/**/login.*": ["smoke/test_marker.py", "smoke/test_word.py"],
        "src/au": [],
    }
    found = {path: await asked(tree, PYTEST, names, (TaggedTests(path=path, tags=("auth",)),)) for path in added}
    assert {path: only for path, (only, _) in found.items()} == {
        path: (*files, "tests/auth/test_login.py") for path, files in added.items()
    }
