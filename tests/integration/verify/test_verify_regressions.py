"""What is told of new failures, from real runners: which test, in which file, and what was said of it."""

import sys

from integration.verify.builders import CALC, TEST, run_gate_once, write_files
from scaffold.core.proof.gates import Gate, Regression
from scaffold.verify.gates.reports.runner_result import MESSAGE_LINES

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


async def test_a_failed_unittest_is_told_with_its_file(candidates):
    """AL-9: its name has none."""
    await candidates.begin({"calc.py": CALC, "checks/__init__.py": "", "checks/test_calc.py": UNIT_CALC}, UNITTEST)
    wrong = UNIT_CALC.replace("sub(3, 1), 2", "sub(3, 1), 2)\n        raise Oddly(")
    test = await candidates.after({"calc.py": CALC.replace("a + b", "a"), "checks/test_calc.py": wrong})
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
    await candidates.begin({"a.py": "x = 1\n", "b.py": "y = 2  # BAD\n"}, LINT)
    lint = await candidates.after({"b.py": "y = 2  # BAD\nz = y\n    # BAD: more\n"}, gate="lint")
    (new,) = lint.regressions
    assert (new.kind, new.file, new.line, new.source) == ("finding", "b.py", 3, "# BAD: more")


async def test_a_message_is_a_few_printable_lines(tmp_path):
    """AL-6: whatever a test says; also of an error in its set-up."""
    said = {
        "assert {'a': 1} == {'a': 2}, 'the sum'": "the sum",
        "raise ValueError('\\x1b[31mred\\x1b[0m\\x07')": "ValueError: red\\x07",
        "raise ValueError('x' * 100_000)": "ValueError: xxxx",
        "raise ValueError('\\n'.join(map(str, range(100))))": "ValueError: 0\n1\n2",
    }
    tests = "".join(f"\n\ndef test_{number}():\n    {body}\n" for number, body in enumerate(said))
    fixture = "@pytest.fixture\ndef made():\n    raise KeyError('made')\n\n\ndef test_made(made):\n    pass\n"
    write_files(tmp_path, {"test_it.py": f"import pytest\n\n\n{fixture}{tests}"})
    messages = (await run_gate_once(tmp_path, TEST)).messages
    assert messages.pop("test_it.py::test_made") == ("KeyError: 'made'",)
    found = [message for (message,) in messages.values()]
    assert [wanted for wanted, message in zip(said.values(), found, strict=True) if wanted not in message] == []
    assert max(map(len, found)) < 3_000
    assert max(len(message.splitlines()) for message in found) <= MESSAGE_LINES


async def test_an_error_in_the_set_up_of_a_class_is_told_for_its_tests(tmp_path):
    """AL-6."""
    whole = UNIT_CALC.replace(
        "    def test_add",
        "    @classmethod\n    def setUpClass(cls):\n        raise KeyError('made')\n\n    def test_add",
    )
    write_files(tmp_path, {"calc.py": CALC, "test_calc.py": whole})
    run = await run_gate_once(tmp_path, UNITTEST)
    assert run.messages["test_calc.CalcTest.test_sub"] == ("KeyError: 'made'",)
