"""Cases of parametrised tests that the work took out."""

import pytest

from integration.verify.builders import CALC

CASES = """\
import pytest

import calc


@pytest.mark.parametrize("loud", [True, False])
def test_sub(loud):
    assert calc.sub(3, 1) == (2 if not loud else calc.LOUD)
"""


@pytest.mark.slow
async def test_a_case_that_is_taken_out_is_named_although_as_many_pass_as_before(candidates):
    """AL-10, BX-4: the case that is left counts once by its new name, and once by its old one."""
    await candidates.begin({"calc.py": f"{CALC}\n\nLOUD = 2\n", "test_calc.py": CASES})
    plain = "import calc\n\n\ndef test_sub():\n    assert calc.sub(3, 1) == 2\n"
    test = await candidates.after(
        {"calc.py": f"{CALC}\n\nLOUD = 3\n", "test_calc.py": plain}, files=("calc.py", "test_calc.py")
    )
    assert test.base_tests == {"test_calc.py::test_sub[True]": "lost", "test_calc.py::test_sub[False]": "moved"}
    assert (test.tests, test.counts["new_failure"]) == ({"test_calc.py::test_sub[True]": "new_failure"}, 1)


TIMED = """\
import time

import pytest

import calc


@pytest.mark.parametrize("value", ["always", str(time.time_ns())])
def test_sub(value):
    assert calc.sub(3, 1) == 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("altered", [False, True])
async def test_cases_named_by_the_time_are_not_taken_out(candidates, altered):
    """AL-10, BX-4: they have other names in each run, with and without the work."""
    await candidates.begin({"calc.py": CALC, "test_calc.py": TIMED})
    tests = {"test_calc.py": f"{TIMED}\n# changed\n"} if altered else {}
    test = await candidates.after({"calc.py": f"{CALC}\n# changed\n", **tests}, files=("calc.py", "test_calc.py"))
    assert not test.blocks
    assert set(test.base_tests.values()) <= {"moved"}, test.base_tests
