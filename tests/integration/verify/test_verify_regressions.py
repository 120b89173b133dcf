"""What is told of new failures, from real runners: which test, in which file, and what was said of it."""

import sys

import pytest

from integration.verify.builders import CALC, TEST, TEST_CALC, run_gate_once, write_files
from scaffold.core.gates import Gate, Regression
from scaffold.verify.gates.runner_result import MESSAGE_LINES

UNITTEST = Gate(kind="test", command=f"{sys.executable} -m unittest -q", runner="unittest")
LINT = Gate(kind="lint", command="! grep -rn BAD .", runner="findings")
UNIT_CALC = """\
import unittest

from calc import add, sub


class Oddly(Exception):
    def __str__(self):
        raise RuntimeError("cannot be printed")


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_sub(self):
        self.assertEqual(sub(3, 1), 2)
"""


@pytest.mark.slow
async def test_a_failed_test_is_told_with_its_assertion(candidates):
    """AL-6, AL-9: for pytest, with what its assertion says; only new failures."""
    base = await candidates.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await candidates.capture(base)
    head = await candidates.commit({"calc.py": CALC.replace("a - b", "a - b - 1")})
    test = (await candidates.judge(captured, base, head))["test"]
    said = "assert 1 == 2\n +  where 1 = sub(3, 1)"
    assert test.regressions == (Regression(name="test_calc.py::test_sub", kind="fails", message=said),)


@pytest.mark.slow
async def test_tests_that_no_longer_run_are_told_apart(candidates):
    """AL-9, BX-4: one that is gone, and one that is skipped."""
    base = await candidates.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await candidates.capture(base)
    skipped = TEST_CALC.replace("def test_sub", "import pytest\n\n\n@pytest.mark.skip\ndef test_sub")
    head = await candidates.commit({"test_calc.py": skipped.replace("def test_add", "def add_is_tested")})
    test = (await candidates.judge(captured, base, head))["test"]
    assert test.regressions == (
        Regression(name="test_calc.py::test_add", kind="missing"),
        Regression(name="test_calc.py::test_sub", kind="skipped"),
    )


async def test_a_failed_unittest_is_told_with_its_file(candidates):
    """AL-9: its name has none."""
    base = await candidates.commit({"calc.py": CALC, "checks/__init__.py": "", "checks/test_calc.py": UNIT_CALC})
    captured = await candidates.capture(base, UNITTEST)
    wrong = UNIT_CALC.replace("sub(3, 1), 2", "sub(3, 1), 2)\n        raise Oddly(")
    head = await candidates.commit({"calc.py": CALC.replace("a + b", "a"), "checks/test_calc.py": wrong})
    test = (await candidates.judge(captured, base, head))["test"]
    assert test.regressions == (
        Regression(
            name="checks.test_calc.CalcTest.test_add",
            kind="fails",
            file="checks/test_calc.py",
            message="AssertionError: 1 != 3",
        ),
        Regression(
            name="checks.test_calc.CalcTest.test_sub",
            kind="fails",
            file="checks/test_calc.py",
            message="checks.test_calc.Oddly: <exception str() failed>",
        ),
    )


async def test_a_new_finding_is_told_with_its_line(candidates):
    """AL-9: also if it has the same text as an old one."""
    base = await candidates.commit({"a.py": "x = 1\n", "b.py": "y = 2  # BAD\n"})
    captured = await candidates.capture(base, LINT)
    head = await candidates.commit({"b.py": "y = 2  # BAD\nz = y\n    # BAD: more\n"})
    lint = (await candidates.judge(captured, base, head))["lint"]
    (new,) = lint.regressions
    assert (new.kind, new.file, new.line, new.source) == ("finding", "b.py", 3, "# BAD: more")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("assert {'a': 1} == {'a': 2}, 'the sum'", "the sum"),
        ("raise ValueError('\\x1b[31mred\\x1b[0m\\x07')", "ValueError: red\\x07"),
        ("raise ValueError('x' * 100_000)", "ValueError: xxxx"),
        ("raise ValueError('\\n'.join(map(str, range(100))))", "ValueError: 0\n1\n2"),
    ],
)
async def test_a_message_is_a_few_printable_lines(tmp_path, body, said):
    """AL-6: whatever a test says."""
    write_files(tmp_path, {"test_it.py": f"def test_it():\n    {body}\n"})
    run = await run_gate_once(tmp_path, TEST)
    (message,) = run.messages["test_it.py::test_it"]
    assert said in message
    assert len(message) < 3_000
    assert len(message.splitlines()) <= MESSAGE_LINES


async def test_an_error_in_the_set_up_is_told(tmp_path):
    """AL-6: of a fixture, and of a whole class in unittest."""
    fixture = "@pytest.fixture\ndef made():\n    raise KeyError('made')\n\n\ndef test_it(made):\n    pass\n"
    write_files(tmp_path / "a", {"test_it.py": f"import pytest\n\n\n{fixture}"})
    run = await run_gate_once(tmp_path / "a", TEST)
    assert run.messages == {"test_it.py::test_it": ("KeyError: 'made'",)}
    whole = UNIT_CALC.replace(
        "    def test_add",
        "    @classmethod\n    def setUpClass(cls):\n        raise KeyError('made')\n\n    def test_add",
    )
    write_files(tmp_path / "b", {"calc.py": CALC, "test_calc.py": whole})
    run = await run_gate_once(tmp_path / "b", UNITTEST)
    assert run.messages["test_calc.CalcTest.test_sub"] == ("KeyError: 'made'",)


@pytest.mark.slow
async def test_a_declared_test_that_was_deleted_to_get_green_is_told_with_why_it_fails(candidates):
    """AL-9, AL-10: what its version from before says on the new code."""
    base = await candidates.commit({"calc.py": CALC, "test_calc.py": TEST_CALC})
    captured = await candidates.capture(base)
    without = TEST_CALC.replace("def test_sub():\n    assert sub(3, 1) == 2\n\n\n", "")
    head = await candidates.commit({"calc.py": CALC.replace("a - b", "a - b - 1"), "test_calc.py": without})
    test = (await candidates.judge(captured, base, head, files=("calc.py", "test_calc.py")))["test"]
    said = "assert 1 == 2\n +  where 1 = sub(3, 1)"
    assert test.regressions == (Regression(name="test_calc.py::test_sub", kind="missing", message=said),)
