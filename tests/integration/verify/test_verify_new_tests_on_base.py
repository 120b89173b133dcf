"""New tests of the work, run on the base."""

import pytest

from builders import commit_all
from scaffold.core.proof.contract import Check, Contract
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.contract.new_tests_on_base import changed_tests, red_with_new_tests
from support.harness import AUTHOR, COMMITTER

RUNS = "sh tests/test_four.sh"


@pytest.fixture
async def work(harness, tmp_path):
    """Return a function that creates files and returns the tree with them, and its differences from the base."""
    base = await refs.resolve(harness.context.git, "HEAD")
    git = await worktree.add(harness.context.repository, tmp_path / "tree", base)

    async def made(**files):
        for name, text in files.items():
            path = git.cwd / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        head = await commit_all(git, "work", author=AUTHOR, committer=COMMITTER)
        tree = Tree(git=git, base=base, commit=head, environ=dict(harness.context.environ))
        return tree, await commits.path_changes(git, base, head)

    return made


async def test_a_new_test_that_passes_without_the_work_proves_nothing(work):
    """BX-5: it was red on the base only because it did not exist."""
    contract = Contract(commands=(Check(command=RUNS),))
    still_red = {"grep -q four list": (RUNS,), "true": (), "exit 1": (RUNS,), "grep -q one list": ()}
    found = {}
    for test in still_red:
        tree, changes = await work(list="one\ntwo\nthree\nfour\n", **{"tests__test_four.sh": test})
        found[test] = await red_with_new_tests(contract, (RUNS, "must_exist: x"), changed_tests(changes), tree)
    assert found == {test: (*red, "must_exist: x") for test, red in still_red.items()}


async def test_a_check_that_passes_before_shows_the_work_with_its_changed_tests(work):
    """BX-5, AL-8: such as the whole suite; only if nothing else shows it."""
    whole, other = Check(command="sh tests/test_one.sh"), Check(command="true")
    optional = Check(command="sh tests/test_one.sh || false", required=False)
    enough = Contract(commands=(Check(command="grep -q four list"), whole))
    shows = "! grep -q four list || exit 0; grep -q four list"
    for test, red in ((shows, ("sh tests/test_one.sh",)), ("grep -q one list", ())):
        tree, changes = await work(list="one\ntwo\nthree\nfour\n", **{"tests__test_one.sh": test})
        contract = Contract(commands=(other, optional, whole))
        assert await red_with_new_tests(contract, (), changed_tests(changes), tree) == red
        shown = await red_with_new_tests(enough, ("grep -q four list",), changed_tests(changes), tree)
        assert shown == ("grep -q four list",)


async def test_the_work_is_restored_afterwards(work):
    """BX-5: the next check judges the work, not the base."""
    tree, changes = await work(list="four\n", **{"tests__test_four.sh": "echo x > list; touch left; grep -q four list"})
    await red_with_new_tests(Contract(commands=(Check(command=RUNS),)), (RUNS,), changed_tests(changes), tree)
    assert (tree.git.cwd / "list").read_text() == "four\n"
    assert (await tree.git("status", "--porcelain")).out == b""
    assert (await tree.git("rev-parse", "HEAD")).line == tree.commit


async def test_work_without_new_tests_is_not_checked_on_the_base_again(work):
    """BX-5: nothing in it could have turned a check green."""
    tree, changes = await work(list="four\n")
    contract = Contract(commands=(Check(command="true"),))
    assert await red_with_new_tests(contract, ("true",), changed_tests(changes), tree) == ("true",)


async def test_a_file_in_which_a_runner_found_tests_is_a_test_whatever_it_is_called(work):
    """BX-5: `test.py` at the top may be a program by its name, and all the tests there are."""
    _, changes = await work(**{"test.py": "def test_it():\n    assert False\n"})
    assert (changed_tests(changes), changed_tests(changes, ["test.py"])) == ((), ("test.py",))
