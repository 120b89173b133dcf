"""Tests that the work took out, of a real repository with real runners: what is a loss, and what is none."""

import sys

import pytest
from inline_snapshot import snapshot

from builders import needs
from integration.verify.builders import CALC, TEST_CALC
from scaffold.core.proof.gates import Gate, Regression


@pytest.mark.slow
async def test_a_test_that_was_deleted_to_get_green_is_a_new_failure(candidates):
    """AL-9, AL-10, BX-4: nobody gets green by hiding or skipping a test, declared or not: it has shown nothing."""
    more = "def test_it():\n    pass\n"
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_more.py": more})
    undeclared = await candidates.after({"calc.py": CALC + "\n", "test_more.py": None})
    assert undeclared.tests["test_more.py::test_it"] == "new_failure"
    assert undeclared.detail.partition("\n")[0] == snapshot(
        "1 test that passed before no longer runs: test_more.py::test_it."
    )
    skipped = TEST_CALC.replace("def test_sub", "import pytest\n\n\n@pytest.mark.skip\ndef test_sub")
    hidden = {"test_calc.py": skipped, "test_more.py": None, "old/test_more.txt": more}
    await candidates.commit({"test_more.py": more})
    test = await candidates.after(hidden, files=("test_calc.py", "old/"))
    lost = {"test_calc.py::test_sub": "skipped", "test_more.py::test_it": "missing"}
    assert {name for name, verdict in test.tests.items() if verdict == "new_failure"} == {*lost}
    assert {each.name: each.kind for each in test.regressions} == lost


RENAMED = TEST_CALC.replace("test_sub", "test_difference")


@pytest.mark.slow
async def test_a_test_that_is_renamed_in_a_declared_file_is_none_that_was_lost(candidates):
    """AL-10, BX-5: the file as it was still passes; not so where nobody declared it, or where the work broke it."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    head = await candidates.commit({"test_calc.py": RENAMED})
    tree = await candidates.tree(candidates.base, head)
    declared = await candidates.judge_in(tree, candidates.captured, files=("test_calc.py",))
    assert (declared.blocks, declared.counts) == (False, {"pass": 3, "pre_existing": 1})
    assert declared.base_tests == {"test_calc.py::test_sub": "moved"}
    assert (tree.git.cwd / "test_calc.py").read_text() == RENAMED
    assert (await tree.git("status", "--porcelain")).out == b""
    undeclared = await candidates.judge_in(tree, candidates.captured)
    assert undeclared.tests["test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_a_test_that_is_taken_out_because_it_would_fail_is_a_new_failure(candidates):
    """AL-9, AL-10, BX-4, BX-5: declared or not, with its file as it was it tells what the work broke, and why."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    tests = RENAMED.replace("sub(3, 1) == 2", "sub(3, 3) == 0")
    broken = {"calc.py": CALC.replace("a - b", "0"), "test_calc.py": tests}
    test = await candidates.after(broken, files=("test_calc.py",))
    assert test.tests["test_calc.py::test_sub"] == "new_failure"
    said = "assert 0 == 2\n +  where 0 = sub(3, 1)"
    assert test.regressions == (Regression(name="test_calc.py::test_sub", kind="missing", message=said),)


@pytest.mark.slow
async def test_what_was_taken_out_before_is_asked_of_the_whole_alone(candidates):
    """AL-10, AL-11: who comes later has not lost it; at the end of the run the file as it was has to pass."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    tip = await candidates.commit({"test_calc.py": RENAMED})
    tree = await candidates.tree(tip, await candidates.commit({"calc.py": CALC + "\n\nVALUE = 1\n"}))
    assert not (await candidates.judge_in(tree, candidates.captured)).blocks
    whole = await candidates.after(
        {"calc.py": CALC.replace("a - b", "0"), "test_calc.py": RENAMED.replace("sub(3, 1) == 2", "sub(3, 3) == 0")},
        focused=False,
        files=("**",),
    )
    assert whole.tests["test_calc.py::test_sub"] == "new_failure"


OLD_CASE = """\
import unittest

import calc


class Old(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)
"""


@pytest.mark.slow
async def test_a_test_of_unittest_may_be_renamed_too(candidates):
    """AL-10, BX-5: of equal length, so that nothing compiled before may stand in for either file."""
    gate = Gate(kind="test", command=f"{sys.executable} -m unittest -v", runner="unittest")
    await candidates.begin({"calc.py": CALC, "test_calc.py": OLD_CASE}, gate)
    assert list(candidates.captured.baseline.runs[0].outcomes) == ["test_calc.Old.test_add"]
    renamed = {"test_calc.py": OLD_CASE.replace("test_add", "test_sum")}
    test = await candidates.after(renamed, files=("test_calc.py",))
    assert (test.blocks, test.counts) == (False, {"pass": 2})


OLD = "def test_it():\n    assert True\n"
CALC_OF_ADD = CALC[: CALC.index("\n\n\ndef sub")] + "\n"


@pytest.mark.slow
async def test_a_declared_file_of_tests_may_go_if_they_still_pass_or_what_they_tested_went_too(candidates):
    """AL-10, BX-4, BX-5: put back beside the work they tell what it broke, whoever declared their file."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_always.py": OLD})
    tree = await candidates.tree(candidates.base, await candidates.commit({"test_calc.py": None}))
    harmless = await candidates.judge_in(tree, candidates.captured, files=("test_calc.py",))
    assert (harmless.blocks, harmless.counts) == (False, {"pass": 3})
    assert harmless.base_tests == {"test_calc.py::test_add": "moved", "test_calc.py::test_sub": "moved"}
    assert (await tree.git("status", "--porcelain")).out == b""
    tree = await candidates.tree(
        candidates.base, await candidates.commit({"calc.py": CALC_OF_ADD.replace("a + b", "0")})
    )
    broken = await candidates.judge_in(tree, candidates.captured, files=("test_calc.py", "calc.py"))
    assert broken.tests == {"test_calc.py::test_add": "new_failure"}
    assert broken.base_tests == {"test_calc.py::test_add": "lost", "test_calc.py::test_sub": "removed"}
    assert "test_calc.py::test_add" in broken.detail.partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["new.py", "calc/__init__.py", "src/calc.py"])
async def test_what_came_in_place_of_a_deleted_module_answers_for_it(candidates, place):
    """AL-10, BX-5: the module is not put back where it could hide what the work made of it."""
    code = {"calc.py": CALC, "test_calc.py": TEST_CALC, "test_always.py": OLD}
    await candidates.begin(code)
    test = await candidates.after(
        {"calc.py": None, "test_calc.py": None, place: CALC.replace("a - b", "0")}, files=("test_calc.py",)
    )
    assert test.tests["test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("more.py", "from operator import sub\n"),
        ("more.py", "import operator\n\nsub = operator.add\n"),
        ("src/more.py", "class Other:\n    def sub(self, a, b):\n        return 0\n"),
    ],
)
async def test_a_name_that_the_work_defines_elsewhere_was_not_removed(candidates, path, text):
    """AL-10, BX-5: its tests have to follow it, so that they fail is a loss."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_always.py": OLD})
    test = await candidates.after({"calc.py": CALC_OF_ADD, "test_calc.py": None, path: text}, files=("test_calc.py",))
    assert test.base_tests["test_calc.py::test_sub"] == "lost"
    assert test.tests["test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_old_tests_run_with_the_helpers_and_without_the_conftest_that_came_with_the_work(candidates):
    """AL-10, BX-5: all tests are as they were: a helper that changed with them counts for them, a new one does not."""
    imports = "from tests.helper import wanted\n\nfrom calc import sub\n\n\n"
    helped = imports + "def test_sub():\n    assert sub(3, 1) == wanted()\n"
    files = {"calc.py": CALC, "tests/__init__.py": "", "tests/helper.py": "def wanted():\n    return 2\n"}
    await candidates.begin({**files, "tests/test_calc.py": helped})
    moved = {"tests/test_calc.py": "from calc import sub\n\n\ndef test_less():\n    assert sub(3, 1) == 2\n"}
    head = await candidates.commit({**moved, "tests/helper.py": None})
    assert not (await candidates.judge(candidates.captured, candidates.base, head, files=("tests/",)))["test"].blocks
    mends = "import calc\n\ncalc.sub = lambda a, b: a - b\n"
    test = await candidates.after(
        {"tests/conftest.py": mends, "calc.py": CALC.replace("a - b", "0")}, files=("tests/",)
    )
    assert test.tests["tests/test_calc.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_at_the_end_a_test_that_was_moved_counts_where_it_is_now(candidates):
    """AL-10, AL-11: one action moved it, a later one changed there what it expects; nothing of it was lost."""
    sound = TEST_CALC[: TEST_CALC.index("\n\n\ndef test_known_to_fail")] + "\n"
    await candidates.begin({"calc.py": CALC, "test_calc.py": sound, "test_always.py": OLD})
    now = sound.replace("sub(3, 1) == 2", "sub(3, 1) == -2") + "\n\ndef test_more():\n    assert add(2, 2) == 4\n"
    head = await candidates.commit(
        {"calc.py": CALC.replace("a - b", "b - a"), "test_calc.py": None, "pkg/test_sums.py": "# moved\n" * 60 + now}
    )
    tree = await candidates.tree(candidates.base, head)
    alone = await candidates.judge_in(tree, candidates.captured, files=("**",))
    assert (alone.blocks, alone.base_tests["test_calc.py::test_sub"]) == (False, "changed")
    over = await candidates.judge_in(tree, candidates.captured, files=("**",), landed_gates=())
    assert (over.blocks, over.base_tests["test_calc.py::test_sub"]) == (False, "changed")


@pytest.mark.slow
async def test_a_file_of_tests_and_a_test_in_it_may_get_other_names_at_once(candidates):
    """AL-10, BX-5: the old test is asked by its old name; one that fails there is a loss."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC})
    test = await candidates.after({"test_calc.py": None, "test_sums.py": RENAMED}, files=("test_calc.py",))
    assert (test.blocks, test.counts) == (False, {"pass": 3, "pre_existing": 1})
    test = await candidates.after(
        {"calc.py": CALC.replace("a - b", "0"), "test_sums.py": RENAMED.replace("== 2", "== 0")},
        files=("test_calc.py",),
    )
    assert test.tests["test_sums.py::test_sub"] == "new_failure"


@pytest.mark.slow
async def test_tests_of_unittest_that_landed_work_deleted_are_missed_by_nobody_who_runs_everything(candidates):
    """AL-11: their module is told by its name alone, though no file has it any more."""
    case = "import unittest\n\n\nclass It(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    gate = Gate(kind="test", command=f"{sys.executable} -m unittest -v", runner="unittest")
    await candidates.begin({"calc.py": CALC, "test_old.py": case, "test_new.py": case}, gate)
    tip = await candidates.commit({"test_old.py": None})
    head = await candidates.commit({"calc.py": CALC + "\n"})
    test = (await candidates.judge(candidates.captured, tip, head, focused=False))["test"]
    assert (test.blocks, test.counts) == (False, {"pass": 1})


@pytest.mark.slow
async def test_a_test_that_landed_work_removed_is_not_missed_when_its_file_changes_again(candidates):
    """AL-10, BX-22: it was judged when it went; a test that is still there has to be accounted for."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TEST_CALC, "test_always.py": OLD})
    only_add = TEST_CALC[: TEST_CALC.index("\n\ndef test_sub")].replace(", sub", "")
    tip = await candidates.commit({"calc.py": CALC_OF_ADD, "test_calc.py": only_add})
    head = await candidates.commit({"test_calc.py": f"{only_add}\n\ndef test_more():\n    assert add(1, 1) == 2\n"})
    settled, terms = frozenset({"test_calc.py::test_sub"}), {"files": ("test_calc.py",)}
    again = (await candidates.judge(candidates.captured, tip, head, settled=settled, **terms))["test"]
    assert again.tests.get("test_calc.py::test_sub") is None
    unknown = (await candidates.judge(candidates.captured, tip, head, **terms))["test"]
    assert unknown.tests["test_calc.py::test_sub"] == "new_failure"
    worse = await candidates.commit({"calc.py": CALC_OF_ADD.replace("a + b", "0"), "test_calc.py": ""})
    taken = (
        await candidates.judge(candidates.captured, tip, worse, settled=settled | {"test_calc.py::test_add"}, **terms)
    )["test"]
    assert taken.tests["test_calc.py::test_add"] == "new_failure"


@pytest.mark.slow
async def test_a_doctest_that_went_with_its_function_is_counted_as_removed(candidates):
    """AL-10, BX-22: it is part of the source, so that nothing can show what it would say now."""
    example = '    """Return less.\n\n    >>> sub(3, 1)\n    2\n    """\n'
    with_example = CALC.replace("def sub(a, b):\n", f"def sub(a, b):\n{example}")
    gate = Gate(kind="test", command=f"{sys.executable} -m pytest -q --doctest-modules", runner="pytest")
    await candidates.begin({"calc.py": with_example, "test_always.py": OLD}, gate)
    head = await candidates.commit({"calc.py": CALC_OF_ADD})
    test = (await candidates.judge(candidates.captured, candidates.base, head, files=("calc.py",)))["test"]
    assert (test.blocks, test.base_tests) == (False, {"calc.py::calc.sub": "removed"})
    undeclared = (await candidates.judge(candidates.captured, candidates.base, head))["test"]
    assert undeclared.tests == {"calc.py::calc.sub": "new_failure"}


@pytest.mark.slow
async def test_other_tests_of_a_file_run_although_it_imports_what_is_gone(candidates):
    """AL-10, BX-5: each use of a removed name is told apart from a failure of what is still there."""
    code = CALC + "\n\nclass Wrong(Exception):\n    pass\n\n\nclass Box:\n    def open(self):\n        return 1\n"
    tests = """\
import pytest
from calc import Wrong, add, sub
import calc
from legacy import helper
import old.part as part


def by_helper():
    return sub(3, 1)


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert by_helper() == 2


def test_raises():
    with pytest.raises(Wrong):
        raise Wrong


def test_attribute():
    assert calc.sub(3, 1) == 2


def test_method():
    assert calc.Box().open() == 1


def test_module():
    assert helper() and part.value


def test_local():
    from calc import sub as minus
    assert minus(3, 1) == 2
"""
    files = {"legacy.py": "def helper():\n    return True\n", "old/__init__.py": "", "old/part.py": "value = 1\n"}
    await candidates.begin({"calc.py": code, "test_calc.py": tests, "test_always.py": OLD, **files})
    gone = {"legacy.py": None, "old/part.py": None, "old/__init__.py": None, "test_calc.py": None}
    test = await candidates.after(
        {"calc.py": CALC_OF_ADD + "\n\nclass Box:\n    pass\n", **gone}, files=("test_calc.py", "calc.py")
    )
    names = ("sub", "raises", "attribute", "method", "module", "local")
    removed = {f"test_calc.py::test_{name}": "removed" for name in names}
    assert (test.blocks, test.base_tests) == (False, {"test_calc.py::test_add": "moved", **removed})
    test = await candidates.after({"calc.py": CALC_OF_ADD.replace("a + b", "0")}, files=("test_calc.py", "calc.py"))
    assert test.tests == {"test_calc.py::test_add": "new_failure"}


@pytest.mark.slow
async def test_a_file_of_tests_with_an_unusual_name_runs_in_its_base_version_too(candidates):
    """AL-10, BX-22: the baseline's runner found tests in it; here all there are, in a class that gets another name."""
    gate = Gate(kind="test", command=f"{sys.executable} -m unittest", runner="unittest")
    await candidates.begin({"calc.py": CALC, "test.py": OLD_CASE}, gate)
    renamed = OLD_CASE.replace("class Old", "class New")
    test = await candidates.after({"test.py": renamed}, files=("test.py",))
    assert (test.blocks, test.base_tests) == (False, {"test.Old.test_add": "moved"})
    broken = {"calc.py": CALC.replace("a + b", "0"), "test.py": renamed.replace(", 3)", ", 0)")}
    test = await candidates.after(broken, files=("test.py", "calc.py"))
    assert test.base_tests == {"test.Old.test_add": "lost"}


@pytest.mark.slow
async def test_a_removed_name_that_a_fixture_or_a_caught_error_hides_is_recognised(candidates):
    """AL-10, BX-22: what the runner reports is not the error of the name itself."""
    tests = """\
import pytest
from calc import add, sub


@pytest.fixture
def less():
    with pytest.deprecated_call():
        return sub(3, 1)


@pytest.fixture(scope="module")
def once():
    return sub(3, 1)


def test_warned(less):
    assert less == 2


def test_once(once):
    assert once == 2


def test_again(once):
    assert once == 2


def test_caught():
    try:
        rest = sub(3, 1)
    except Exception:
        rest = 0
    assert rest == 2


def test_add():
    assert add(1, 2) == 3
"""
    warns = CALC.replace("def sub(a, b):\n", "def sub(a, b):\n    warnings.warn('old', DeprecationWarning)\n")
    await candidates.begin({"calc.py": f"import warnings\n\n\n{warns}", "test_calc.py": tests, "test_always.py": OLD})
    test = await candidates.after({"calc.py": CALC_OF_ADD, "test_calc.py": None}, files=("test_calc.py", "calc.py"))
    removed = {f"test_calc.py::test_{name}": "removed" for name in ("warned", "once", "again", "caught")}
    assert (test.blocks, test.base_tests) == (False, {"test_calc.py::test_add": "moved", **removed})


GO = Gate(kind="test", command="go test ./...", runner="go")
GO_TESTS = 'package calc\n\nimport "testing"\n\n' + "".join(
    f"func Test{name}(t *testing.T) {{\n\tif {name}() != {value} {{\n\t\tt.Fatal()\n\t}}\n}}\n\n"
    for name, value in (("One", 1), ("Two", 2))
)
GO_CODE = "package calc\n\nfunc One() int { return 1 }\n\nfunc Two() int { return 2 }\n"


@pytest.mark.slow
@needs("go")
async def test_tests_of_go_may_move_within_their_package_and_one_that_fails_where_it_was_is_a_loss(candidates):
    """AL-10, BX-5: two files of one package cannot have the same tests, so what is new goes out of the way."""
    await candidates.begin(
        {"go.mod": "module example.org/calc\n\ngo 1.19\n", "calc.go": GO_CODE, "calc_test.go": GO_TESTS}, GO
    )
    test = await candidates.after(
        {"calc_test.go": None, "sums_test.go": GO_TESTS.replace("TestTwo", "TestPair")}, files=(".",)
    )
    assert (test.blocks, test.counts) == (False, {"pass": 3})
    more = 'package calc\n\nimport "testing"\n\nfunc TestMore(t *testing.T) {}\n'
    test = await candidates.after(
        {"calc.go": GO_CODE.replace("return 2", "return 3"), "sums_test.go": None, "more_test.go": more},
        files=(".", "calc_test.go"),
    )
    assert {name.rpartition(".")[2]: verdict for name, verdict in test.tests.items()} == {"TestTwo": "new_failure"}


NODE = Gate(kind="test", command="node --test", runner="node")
NODE_TESTS = "const test = require('node:test');\n" + "".join(
    f"test('{name}', () => {{ if (require('../calc').{name}() !== {value}) throw new Error(); }});\n"
    for name, value in (("one", 1), ("two", 2))
)


@pytest.mark.slow
@needs("node")
async def test_tests_of_node_are_found_by_their_file_and_titles(candidates):
    """AL-10, BX-5: the whole runs again with the file put back."""
    other = "require('node:test')('other', () => {});\n"
    await candidates.begin(
        {
            "calc.js": "exports.one = () => 1;\nexports.two = () => 2;\n",
            "test/calc.test.js": NODE_TESTS,
            "test/other.test.js": other,
        },
        NODE,
    )
    test = await candidates.after(
        {"calc.js": "exports.one = () => 1;\nexports.two = () => 3;\n", "test/calc.test.js": None},
        files=("test/calc.test.js", "calc.js"),
    )
    assert test.tests == {"test/calc.test.js > two": "new_failure"}
    test = await candidates.after({"calc.js": "exports.one = () => 1;\n"}, files=("test/calc.test.js", "calc.js"))
    assert (test.blocks, test.counts, test.base_tests) == (
        False,
        {"pass": 2},
        {f"test/calc.test.js > {name}": fate for name, fate in (("one", "moved"), ("two", "removed"))},
    )
