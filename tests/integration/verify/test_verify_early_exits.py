"""Checks and gates whose processes end before their tests do, or exit with 0 in spite of them."""

import sys

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import needs
from integration.verify.builders import CALC, PYTEST, TEST_CALC, CandidateRepository
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Gate
from scaffold.git import commits
from scaffold.verify.contract.check_runs import run_check
from scaffold.verify.contract.point_of_contract import check_point
from scaffold.verify.observation.observer import CheckObserver

UNITTEST = f"{sys.executable} -m unittest test_div"
RED = (
    "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\n\n"
    "def test_div():\n    assert calc.div(6, 3) == 2\n"
)
UNIT = (
    "import unittest\n\nimport calc\n\n\nclass TestDiv(unittest.TestCase):\n"
    "    def test_div(self):\n        self.assertEqual(calc.div(6, 3), 2)\n"
)
NOT_LOADED = RED.replace("import calc\n", "from calc import add, div\n").replace("calc.", "")
SKIPS = "import pytest\n\n" + NOT_LOADED.replace("add, div", "EXACT, add, div").replace(
    "def test_div", "@pytest.mark.skipif(not EXACT, reason='rounds')\ndef test_div"
)
DIV = "\n\ndef div(a, b):\n    return a / b\n"
EXITS = "import os\n\n\n" + CALC + "\n\ndef div(a, b):\n    os._exit(0)\n"
STOPS = CALC + "\n\ndef div(a, b):\n    import pytest\n\n    pytest.exit('done', returncode=0)\n"
LATE = "import atexit\nimport os\n\natexit.register(os._exit, 0)\n\n\n" + CALC + DIV.replace("a / b", "0")


class Project(CandidateRepository):
    """A base with a test that fails, and work on it whose check passes."""

    async def point(self, tests, work, command, *, direct=True):
        """Return what is said of the tests that failed, and how the check ended with the work."""
        base = await self.commit({"calc.py": CALC, "test_div.py": tests})
        before, check = await self.tree(base, base), Check(command=command)
        observer = CheckObserver()
        red = await run_check(check, structs.replace(before, observer=observer))
        assert red.verdict == "fail"
        tests_red = [name for name, outcome in observer.observations[command].tests.items() if outcome == "failed"]
        head = await self.commit({"calc.py": work} if isinstance(work, str) else work)
        tree = structs.replace(await self.tree(base, head), observer=CheckObserver())
        result = await run_check(check, tree)
        changes = await commits.path_changes(tree.git, base, head)
        point = await check_point(
            Contract(commands=(check,)),
            {command: tests_red},
            changes,
            tree,
            failed_on_base=[command],
            direct=[command] if direct else [],
        )
        said = [line for line in point.missed.detail.splitlines() if line.startswith("- ")] if point.missed else []
        return result.verdict, said, [(doubt.code, doubt.text.partition(": ")[2]) for doubt in point.doubts]


@pytest.fixture
def project(harness, tmp_path):
    return Project(harness, tmp_path)


async def test_a_check_that_ends_before_its_tests_pass_misses_its_point(project):
    """BX-5: the exit code is 0."""
    found = await project.point(UNIT, EXITS, UNITTEST)
    assert found == snapshot(("pass", ["- test_div.py::TestDiv::test_div did not run to its end"], []))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "work", "command", "said"),
    [
        (RED, EXITS, f"{PYTEST} test_div.py", "- test_div.py::test_div did"),
        (RED, STOPS, f"{PYTEST} test_div.py", "- test_div.py::test_div did"),
        (NOT_LOADED, EXITS, f"{PYTEST} test_div.py", "- test_div.py::test_div did"),
        (NOT_LOADED, STOPS, f"{PYTEST} test_div.py", "- test_div.py::test_div did"),
        (RED, LATE, f"{PYTEST} test_div.py", "- test_div.py::test_div fails"),
        (UNIT, LATE, UNITTEST, "- test_div.py::TestDiv::test_div fails"),
    ],
)
async def test_a_check_whose_runner_hides_how_its_tests_end_misses_its_point(project, tests, work, command, said):
    """BX-5: of pytest, at each moment, and of processes that end late."""
    verdict, (line,), doubts = await project.point(tests, work, command)
    assert (verdict, line.startswith(said), doubts) == ("pass", True, [])


@pytest.mark.parametrize(
    ("tests", "command"),
    [
        pytest.param(RED, f"{PYTEST} test_div.py", marks=pytest.mark.slow),
        pytest.param(NOT_LOADED, f"{PYTEST} test_div.py", marks=pytest.mark.slow),
        (UNIT, UNITTEST),
    ],
)
async def test_tests_that_pass_leave_no_doubt(project, tests, command):
    """BX-5: the honest work, also with a conftest.py that ends the process on purpose once pytest has."""
    ends = "import os\n\n\ndef pytest_sessionfinish(exitstatus):\n    os._exit(exitstatus)\n"
    work = {"calc.py": CALC + DIV, "conftest.py": ends}
    assert await project.point(tests, work, command) == ("pass", [], [])


@pytest.mark.slow
async def test_what_cannot_be_shown_to_pass_is_a_doubt(project):
    """BX-5: a skip that the work decides, and a runner behind other programs."""
    skips = await project.point(SKIPS, f"EXACT = False\n\n\n{CALC}{DIV}", f"{PYTEST} test_div.py")
    assert skips == snapshot(("pass", [], [("tests_not_passed", "test_div.py::test_div is skipped now")]))


async def test_a_failure_that_another_program_may_excuse_is_a_doubt(project):
    """BX-5: only the exit code of a runner alone says for certain that its tests passed."""
    verdict, said, ((code, text),) = await project.point(UNIT, LATE, f"{UNITTEST} && true", direct=False)
    assert (verdict, said, code) == ("pass", [], "tests_not_passed")
    assert text.startswith("test_div.py::TestDiv::test_div fails")


@pytest.mark.slow
async def test_a_check_that_ends_while_its_runner_starts_misses_its_point(project):
    """BX-5: on the import of a conftest.py."""
    work = {"calc.py": CALC, "conftest.py": "import os\n\nos._exit(0)\n"}
    verdict, (line,), doubts = await project.point(RED, work, f"{PYTEST} test_div.py")
    assert (verdict, line.startswith("- test_div.py::test_div did"), doubts) == ("pass", True, [])


async def test_a_check_whose_tests_are_no_longer_seen_is_a_doubt(project):
    """BX-5: a script of the work runs no runner, or one whose environment is its own."""
    command = f"test -f run.sh && sh run.sh || {UNITTEST}"
    found = await project.point(UNIT, {"run.sh": "exit 0\n"}, command, direct=False)
    assert found == snapshot(("pass", [], [("tests_not_passed", "test_div.py::TestDiv::test_div was not seen")]))


INNER = (
    "import subprocess\nimport sys\n\n\ndef test_of_a_runner():\n"
    "    assert subprocess.run(['sh', '-c', sys.executable + ' -m pytest -q -p no:cacheprovider bad; true']"
    ").returncode == 0\n"
)


@pytest.mark.slow
async def test_a_runner_inside_of_a_test_is_none_of_the_check(project):
    """BX-5: what fails in there is a matter of the test."""
    bad = "import os\n\n\ndef test_bad():\n    assert 0\n\n\ndef test_ends():\n    os._exit(0)\n"
    head = await project.commit({"test_inner.py": INNER, "bad/test_bad.py": bad})
    observer = CheckObserver()
    check = Check(command=f"{PYTEST} test_inner.py")
    result = await run_check(check, structs.replace(await project.tree(head, head), observer=observer))
    seen = observer.observations[check.command]
    assert result.verdict == "pass", result.detail
    assert dict(seen.tests) == {"test_inner.py::test_of_a_runner": "passed"}
    assert (seen.began, seen.unfinished, seen.not_run) == (True, False, frozenset())


MAKE = Gate(kind="test", command="make test", runner="exit")
MAKEFILE = f"test:\n\t@{PYTEST} test_calc.py\n"
PASSING = TEST_CALC.partition("\n\n\ndef test_known")[0] + "\n"
BROKEN = CALC.replace("a + b", "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("makefile", "work", "verdict", "named"),
    [
        (MAKEFILE, LATE.replace("a + b", "0"), "new_failure", ["test_calc.py::test_add"]),
        (MAKEFILE, EXITS.replace("return a + b", "os._exit(0)"), "new_failure", ["end of the test run"]),
        (MAKEFILE, CALC + DIV, "pass", []),
        (MAKEFILE.replace("@", "-@"), BROKEN, "new_failure", ["test_calc.py::test_add"]),
    ],
    ids=["exits late", "exits early", "honest", "failures are ignored"],
)
async def test_a_gate_judged_by_its_exit_code_must_not_hide_failures(candidates, makefile, work, verdict, named):
    """BX-4: pytest is seen to fail behind make."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": PASSING, "Makefile": makefile}, MAKE)
    found = await candidates.after({"calc.py": work})
    assert (found.verdict, sorted(found.tests)) == (verdict, named), found.detail


@pytest.mark.slow
async def test_a_failure_that_such_a_gate_always_hid_is_left_alone(candidates):
    """BX-4: make ignores the failure of a test, on the base as well."""
    files = {"calc.py": CALC, "test_calc.py": TEST_CALC, "Makefile": MAKEFILE.replace("@", "-@")}
    await candidates.begin(files, MAKE)
    found = await candidates.after({"calc.py": CALC + DIV, "test_more.py": "def test_more():\n    assert 0\n"})
    assert (found.blocks, dict(found.tests)) == (False, {"test_calc.py::test_known_to_fail": "pre_existing"})


NODE = Gate(kind="test", command="node --test", runner="node")
NODE_TESTS = {
    name: "const test = require('node:test');\nconst assert = require('node:assert');\n"
    f"const calc = require('../calc');\n\ntest('{name}', () => assert.equal(calc.{name}(6, 3), {found}));\n"
    for name, found in (("add", 9), ("div", 2))
}


@pytest.mark.slow
@needs("node")
@pytest.mark.parametrize(
    ("work", "blocks"),
    [
        ({"calc.js": "exports.add = (a, b) => a + b;\nexports.div = () => process.exit(0);\n"}, True),
        ({"calc.js": "exports.add = (a, b) => a + b;\nexports.div = (a, b) => a / b;\n"}, False),
        ({"calc.js": "exports.add = (a, b) => a + b;\n", "test/div.test.js": None}, False),
    ],
    ids=["ends the process", "honest", "removes the test"],
)
async def test_a_failed_test_of_node_must_not_vanish(candidates, work, blocks):
    """BX-4: Node reports nothing of a test that ends its process."""
    tests = {f"test/{name}.test.js": text for name, text in NODE_TESTS.items()}
    await candidates.begin({"calc.js": "exports.add = (a, b) => a + b;\n", **tests}, NODE)
    found = await candidates.after(work)
    assert (found.blocks, found.tests.get("test/div.test.js > div") == "new_failure") == (blocks, blocks), found.detail
