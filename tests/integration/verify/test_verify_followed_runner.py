"""Work that moves tests from unittest to pytest, with both real runners."""

import os
import sys
from pathlib import Path

import pytest
from msgspec import structs

from integration.verify.builders import CALC
from scaffold.core.proof.gates import Gate

pytestmark = pytest.mark.slow

UNITTEST = Gate(kind="test", command="python3 -m unittest discover -s tests", runner="unittest")
MORE = """

class TestMore(unittest.TestCase):
    def test_more(self):
        self.assertEqual(add(2, 2), 4)
"""
CASES = f"""\
import unittest
from calc import add, sub


class TestCalc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_sub(self):
        self.assertEqual(sub(3, 1), 2)
{MORE}"""
FUNCTIONS = f"""\
import unittest
from calc import add, sub


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert sub(3, 1) == 2
{MORE}"""
CONFIGURED = "[tool.pytest.ini_options]\npythonpath = ['.']\n"


@pytest.fixture
def both(candidates):
    """Candidates whose checks find both runners on PATH."""
    folder = str(Path(sys.executable).parent)
    context = candidates.harness.context
    environ = {**context.environ, "PATH": f"{folder}{os.pathsep}{context.environ['PATH']}", "PYTHONPATH": "."}
    candidates.harness.context = structs.replace(context, environ=environ)
    return candidates


@pytest.mark.parametrize(
    ("functions", "lost"),
    [
        (FUNCTIONS, []),
        (FUNCTIONS.replace("    assert sub(3, 1) == 2", "    assert sub(3, 1) == 3"), ["tests/test_calc.py::test_sub"]),
    ],
)
async def test_tests_that_moved_to_pytest_run_there_and_keep_their_results(both, functions, lost):
    """AL-10: as functions or in their class; one that fails there is a new failure, as ever."""
    base = await both.commit({"calc.py": CALC, "tests/test_calc.py": CASES})
    captured = await both.capture(base, UNITTEST)
    assert sorted(captured.baseline.runs[0].outcomes) == [
        *("test_calc.TestCalc.test_add", "test_calc.TestCalc.test_sub", "test_calc.TestMore.test_more")
    ]
    head = await both.commit({"pyproject.toml": CONFIGURED, "tests/test_calc.py": functions})
    result = (await both.judge(captured, base, head, files=("tests/",)))["test"]
    assert (result.gate.command, result.blocks) == ("python3 -m pytest -q", bool(lost)), result.detail
    assert [name for name, verdict in result.tests.items() if verdict == "new_failure"] == lost


async def test_a_command_of_the_users_own_stays(both):
    base = await both.commit({"calc.py": CALC, "tests/test_calc.py": CASES})
    own = structs.replace(UNITTEST, command="python3 -m unittest discover -s tests -p 'test_*.py'")
    captured = await both.capture(base, own)
    head = await both.commit({"pyproject.toml": CONFIGURED, "calc.py": f"{CALC}\nTWO = 2\n"})
    assert (await both.judge(captured, base, head))["test"].gate == own
