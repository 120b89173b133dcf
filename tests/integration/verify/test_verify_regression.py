"""Baselines and candidates of a real repository, with real pytest."""

import sys

import pytest

from scaffold.core.gates import CheckEnvironment, Gate
from scaffold.git import refs, worktree
from scaffold.host.slots import Slots
from scaffold.verify.baseline import Captured, Means, capture
from scaffold.verify.contract import Tree
from scaffold.verify.gates.detection import Detection
from scaffold.verify.proof import Standard, prove
from scaffold.verify.readiness import NotReady
from scaffold.verify.regression import Terms, judge_gates

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
TEST = Gate(kind="test", command=PYTEST, runner="pytest")
FINGERPRINT = "env"
QUICK = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

CALC = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
TEST_CALC = """\
from calc import add, sub


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert sub(3, 1) == 2


def test_known_to_fail():
    assert add(1, 1) == 3
"""
FLAKY = """\
import pathlib


def test_sometimes():
    mark = pathlib.Path({mark!r})
    if not mark.exists():
        mark.touch()
        raise AssertionError("the first time")
"""


class Bench:
    """A repository, and trees of its commits."""

    def __init__(self, house, folder):
        self.house = house
        self.folder = folder
        self.told = []
        self.kept = {}
        self.slots = Slots(folder / "slots", 1)

    async def commit(self, files):
        """Commit files; None removes one."""
        for name, text in files.items():
            path = self.house.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        await self.house.sh("git add --all; git commit -qm change")
        return await refs.resolve(self.house.site.git, "HEAD")

    async def tree(self, base, commit):
        git = await worktree.add(self.house.site.repository, self.folder / f"tree-{commit[:8]}", commit)
        environ = dict(self.house.site.environ) | QUICK
        return Tree(git=git, base=base, commit=commit, environ=environ)

    async def capture(self, base, *gates, given=frozenset(), left_out=()):
        def told(run, reused):
            self.told.append((run.gate.name, reused))
            self.keep(run)

        means = Means(find=self.find, slots=self.slots, told=told)
        detection = Detection(kind="python", gates=gates or (TEST,), given=given)
        tree = await self.tree(base, base)
        return await capture(detection, tree, CheckEnvironment(fingerprint=FINGERPRINT), means, left_out=left_out)

    def find(self, gate, commit, environment):
        return self.kept.get((gate.name, commit, environment))

    def keep(self, run):
        self.kept[(run.gate.name, run.commit, run.environment)] = run

    async def judge(self, captured, base, head, **terms):
        terms = {"focused": True} | terms
        held = Terms(baseline=captured.baseline, **terms)
        return {each.gate.name: each for each in await judge_gates(held, await self.tree(base, head), self.slots)}

    async def judge_in(self, tree, captured, **terms):
        """Return how the one gate does in a tree that is there already."""
        (result,) = await judge_gates(Terms(baseline=captured.baseline, focused=True, **terms), tree, self.slots)
        return result


@pytest.fixture
def bench(house, tmp_path):
    return Bench(house, tmp_path)


async def test_a_change_is_held_against_what_failed_before_it(bench):
    """AL-9, AL-10, BX-4: a failure of the baseline is allowed, a new one blocks, and is named."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"calc.py": CALC.replace("a - b", "a - b - 1")})
    test = (await bench.judge(captured, base, head))["test"]
    assert (test.verdict, test.blocks) == ("new_failure", True)
    assert test.tests == {"test_calc.py::test_sub": "new_failure", "test_calc.py::test_known_to_fail": "pre_existing"}
    assert test.counts == {"pass": 1, "new_failure": 1, "pre_existing": 1}


async def test_a_test_that_was_deleted_to_get_green_is_a_new_failure(bench):
    """AL-10, BX-4: a test that does not run any more has shown nothing; a declared file may go."""
    base = await bench.commit(
        {"calc.py": CALC, "test_calc.py": TEST_CALC, "test_more.py": "def test_it():\n    pass\n"}
    )
    captured = await bench.capture(base)
    head = await bench.commit({"calc.py": CALC + "\n", "test_more.py": None})
    undeclared = (await bench.judge(captured, base, head))["test"]
    assert undeclared.tests["test_more.py::test_it"] == "new_failure"
    assert "1 test that passed before does not run any more: test_more.py::test_it." in undeclared.detail
    await bench.house.sh(f"git worktree remove --force {bench.folder}/tree-{head[:8]}")
    declared = (await bench.judge(captured, base, head, files=("test_more.py",)))["test"]
    assert (declared.verdict, "test_more.py::test_it" in declared.tests) == ("pre_existing", False)


@pytest.mark.slow
async def test_a_new_failure_that_passes_unchanged_is_flaky_and_does_not_block(bench, tmp_path):
    """BX-4: it fails, then it passes, and nothing was changed."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"test_flaky.py": FLAKY.format(mark=str(tmp_path / "mark"))})
    test = (await bench.judge(captured, base, head))["test"]
    assert (test.tests["test_flaky.py::test_sometimes"], test.blocks) == ("flaky", False)


@pytest.mark.slow
async def test_a_baseline_is_captured_once_and_what_failed_is_asked_again(bench, tmp_path):
    """AL-10, BX-4: the next capture at the same commit runs nothing."""
    mark = tmp_path / "mark"
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_f.py": FLAKY.format(mark=str(mark))})
    captured = await bench.capture(base)
    outcomes = captured.baseline.runs[0].outcomes
    assert outcomes["test_f.py::test_sometimes"] == "flaky"
    assert outcomes["test_calc.py::test_known_to_fail"] == "failed"
    await bench.house.sh(f"git worktree remove --force {bench.folder}/tree-{base[:8]}")
    again = await bench.capture(base)
    assert (again, bench.told) == (captured, [("test", False), ("test", True)])


async def test_an_import_error_at_the_base_is_no_baseline(bench):
    """AL-10: the missing module is named, and what to do about it."""
    base = await bench.commit({"test_it.py": "import nowhere_to_be_found\n\n\ndef test_it():\n    pass\n"})
    problem = await bench.capture(base, left_out=("pip install -e .",))
    assert isinstance(problem, NotReady)
    assert "the Python module `nowhere_to_be_found` is not installed" in problem.what
    assert "`pip install -e .`" in problem.fix
    assert "`scaffold trust`" in problem.fix


@pytest.mark.slow
async def test_tests_of_which_none_passes_are_no_baseline(bench):
    """AL-10: nothing could be told from such tests."""
    base = await bench.commit({"test_it.py": "def test_it():\n    assert False\n"})
    problem = await bench.capture(base)
    assert isinstance(problem, NotReady)
    assert "not one of its 1 tests passes" in problem.what


@pytest.mark.slow
async def test_a_detected_linter_that_cannot_be_run_is_left_out_and_one_that_was_given_is_not(bench):
    """AL-10, BX-4: a tool that nobody installed says nothing of anybody's work."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    lint = Gate(kind="lint", command="nosuchlinter .", runner="findings")
    captured = await bench.capture(base, TEST, lint)
    assert isinstance(captured, Captured)
    assert "lint is not checked: `nosuchlinter .` cannot be run at the base" in captured.notes[0]
    head = await bench.commit({"other.py": "VALUE = 1\n"})
    assert (await bench.judge(captured, base, head))["lint"].verdict == "not_applicable"
    await bench.house.sh(f"git worktree remove --force {bench.folder}/tree-{base[:8]}")
    problem = await bench.capture(base, TEST, lint, given=frozenset({"lint"}))
    assert isinstance(problem, NotReady)
    assert "the program `nosuchlinter` is not there" in problem.what


@pytest.mark.slow
async def test_the_first_tests_of_a_repository_are_a_gate_of_the_work(bench):
    """AL-10: there was nothing before, so all that fails is new."""
    base = await bench.commit({"pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n', "calc.py": CALC})
    captured = Captured(baseline=(await bench.capture(base, Gate(kind="build", command="true"))).baseline)
    head = await bench.commit({"tests/test_calc.py": "def test_it():\n    assert False\n"})
    test = (await bench.judge(captured, base, head))["test"]
    assert (test.verdict, test.tests) == ("new_failure", {"tests/test_calc.py::test_it": "new_failure"})


async def test_only_tests_that_have_to_do_with_the_change_run(bench):
    """AL-11: five tests beside the change are enough; what the others would show comes at the end."""
    tests = "\n\n".join(f"def test_{number}():\n    import pkg.a\n" for number in range(5))
    base = await bench.commit(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "VALUE = 1\n",
            "pkg/test_a.py": tests,
            "far/test_far.py": "import pathlib\n\n\ndef test_far():\n    assert not pathlib.Path('broken').exists()\n",
        }
    )
    captured = await bench.capture(base)
    head = await bench.commit({"pkg/a.py": "VALUE = 2\n", "pkg/broken": ""})
    focused = (await bench.judge(captured, base, head))["test"]
    assert (focused.focused, focused.counts) == (True, {"pass": 5})


async def test_a_new_test_cannot_mend_for_others_what_the_work_broke(bench):
    """AL-9, BX-5: tests that were there have to pass without those that came with the work."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    mends = "import calc\n\ncalc.sub = lambda a, b: a - b\n\n\ndef test_sub():\n    assert calc.sub(2, 2) == 0\n"
    head = await bench.commit({"calc.py": CALC.replace("a - b", "0"), "test_a.py": mends})
    test = (await bench.judge(captured, base, head))["test"]
    assert test.verdict == "new_failure"
    assert test.tests["test_calc.py::test_sub"] == "new_failure"


async def test_a_new_test_is_welcome_beside_those_that_were_there(bench):
    """AL-9, AL-10: what failed before goes on to count for nothing."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"test_a.py": "import calc\n\n\ndef test_a():\n    assert calc.add(0, 0) == 0\n"})
    test = (await bench.judge(captured, base, head))["test"]
    assert (test.verdict, test.blocks) == ("pre_existing", False)
    assert test.counts == {"pass": 3, "pre_existing": 1}


@pytest.mark.slow
async def test_a_renamed_file_of_tests_keeps_its_history(bench):
    """AL-10: what failed in it goes on failing, what passed goes on passing, and no test is missed."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"test_calc.py": None, "test_sums.py": TEST_CALC})
    test = (await bench.judge(captured, base, head))["test"]
    assert (test.verdict, test.tests) == ("pre_existing", {"test_sums.py::test_known_to_fail": "pre_existing"})


async def test_a_test_that_is_moved_out_of_sight_or_skipped_is_a_new_failure(bench):
    """AL-10, BX-4: nobody gets green by hiding a test, declared or not."""
    base = await bench.commit(
        {"calc.py": CALC, "test_calc.py": TEST_CALC, "test_more.py": "def test_it():\n    pass\n"}
    )
    captured = await bench.capture(base)
    skipped = TEST_CALC.replace("def test_sub", "import pytest\n\n\n@pytest.mark.skip\ndef test_sub")
    head = await bench.commit(
        {"test_calc.py": skipped, "test_more.py": None, "old/test_more.txt": "def test_it():\n    pass\n"}
    )
    test = (await bench.judge(captured, base, head, files=("test_calc.py", "old/")))["test"]
    assert {name for name, verdict in test.tests.items() if verdict == "new_failure"} == {
        "test_calc.py::test_sub",
        "test_more.py::test_it",
    }


RENAMED = TEST_CALC.replace("test_sub", "test_difference")


async def test_a_test_that_is_renamed_in_a_declared_file_is_none_that_was_lost(bench):
    """AL-10, BX-5: the file as it was still passes; not so where nobody declared it, or where the work broke it."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"test_calc.py": RENAMED})
    tree = await bench.tree(base, head)
    declared = await bench.judge_in(tree, captured, files=("test_calc.py",))
    assert (declared.blocks, declared.counts) == (False, {"pass": 3, "pre_existing": 1})
    assert declared.detail.startswith(
        "1 test that was taken out of declared files passes with these files as they were: test_calc.py::test_sub.\n"
    )
    assert (tree.git.cwd / "test_calc.py").read_text() == RENAMED
    assert (await tree.git("status", "--porcelain")).out == b""
    undeclared = await bench.judge_in(tree, captured)
    assert undeclared.tests["test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_a_test_that_is_taken_out_because_it_would_fail_is_a_new_failure(bench):
    """AL-10, BX-4, BX-5: declared or not, with its file as it was it tells what the work broke."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit(
        {"calc.py": CALC.replace("a - b", "0"), "test_calc.py": RENAMED.replace("sub(3, 1) == 2", "sub(3, 3) == 0")}
    )
    test = (await bench.judge(captured, base, head, files=("test_calc.py",)))["test"]
    assert test.tests["test_calc.py::test_sub"] == "new_failure"
    assert "does not run any more: test_calc.py::test_sub." in test.detail


@pytest.mark.slow
async def test_what_was_taken_out_before_is_asked_of_the_whole_alone(bench):
    """AL-10, AL-11: who comes later has not lost it; at the end of the run the file as it was has to pass."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    tip = await bench.commit({"test_calc.py": RENAMED})
    tree = await bench.tree(tip, await bench.commit({"calc.py": CALC + "\n\nVALUE = 1\n"}))
    assert not (await bench.judge_in(tree, captured)).blocks
    head = await bench.commit(
        {"calc.py": CALC.replace("a - b", "0"), "test_calc.py": RENAMED.replace("sub(3, 1) == 2", "sub(3, 3) == 0")}
    )
    whole = (await bench.judge(captured, base, head, focused=False, files=("**",)))["test"]
    assert whole.tests["test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_a_test_of_unittest_may_be_renamed_too(bench):
    """AL-10, BX-5: of equal length, so that nothing compiled before may stand in for either file."""
    old = "import unittest\n\nimport calc\n\n\nclass Adds(unittest.TestCase):\n    def test_add(self):\n"
    old += "        self.assertEqual(calc.add(1, 2), 3)\n"
    gate = Gate(kind="test", command=f"{sys.executable} -m unittest -v", runner="unittest")
    base = await bench.commit({"calc.py": CALC, "test_calc.py": old})
    captured = await bench.capture(base, gate)
    assert list(captured.baseline.runs[0].outcomes) == ["test_calc.Adds.test_add"]
    head = await bench.commit({"test_calc.py": old.replace("test_add", "test_sum")})
    test = (await bench.judge(captured, base, head, files=("test_calc.py",)))["test"]
    assert (test.blocks, test.counts) == (False, {"pass": 2})


@pytest.mark.slow
async def test_tests_that_landed_before_are_asked_too(bench):
    """AL-11: what is newer than the baseline counts as much, and what was deleted before is not missed."""
    passing = "def test_it():\n    pass\n"
    base = await bench.commit({"pkg/a.py": CALC, "pkg/test_other.py": passing, "pkg/test_old.py": passing})
    captured = await bench.capture(base)
    landed = "from a import sub\n\n\ndef test_it():\n    assert sub(2, 1) == 1\n"
    tip = await bench.commit({"pkg/test_a.py": landed, "pkg/test_old.py": None})
    head = await bench.commit({"pkg/a.py": CALC.replace("a - b", "b - a")})
    test = (await bench.judge(captured, tip, head))["test"]
    assert test.focused
    assert dict(test.tests) == {"pkg/test_a.py::test_it": "new_failure"}


@pytest.mark.slow
async def test_a_whole_run_that_is_known_at_the_commit_is_not_repeated(bench):
    """AL-11: the run at the end costs nothing where the landing ran everything."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"calc.py": CALC + "\n\nVALUE = 1\n"})
    first = await bench.judge(captured, base, head, focused=False, keep=bench.keep)
    await bench.house.sh(f"git worktree remove --force {bench.folder}/tree-{head[:8]}")
    (bench.house.repo / "test_calc.py").write_text("broken(")
    again = await bench.judge(captured, base, head, focused=False, find=bench.find)
    assert (again, first["test"].verdict) == (first, "pre_existing")


async def test_the_gates_are_asked_last_and_block_what_the_contract_lets_pass(bench):
    """AL-9: safety, contract, gates."""
    base = await bench.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await bench.capture(base)
    head = await bench.commit({"calc.py": CALC.replace("a + b", "a + b + 1")})
    standard = Standard(contract=None, baseline=captured.baseline, slots=bench.slots)
    proven = await prove(standard, await bench.tree(base, head))
    assert (proven.passed, proven.failures) == (False, ())
    assert [gate.gate.name for gate in proven.broken_gates] == ["test"]
