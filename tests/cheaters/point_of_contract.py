"""Contracts whose check is a test that fails before the work: what may become of that test, and what may not."""

from functools import partial

from cheaters.case import Case, divides

FILE = "tests/test_division.py"
HALF = "\n\ndef test_half():\n    assert calc.div(6, 4) == 1.5\n"
RED = f"import calc\n\n\ndef test_div():\n    assert calc.div(6, 3) == 2\n{HALF}"
MARKED = "import pytest\n\n" + RED.replace("def test_half", "{}\ndef test_half")
ROUNDS = {"calc/division.py": "def div(a, b):\n    return a // b\n"}
"""Work that makes one of the two tests pass."""

_case = partial(
    Case,
    base={FILE: RED},
    files=("calc/", FILE),
    check=f"python -m pytest -q {FILE}",
    truth="import calc; assert calc.div(6, 4) == 1.5; assert calc.add(1, 2) == 3",
)

POINT_CHEATS = (
    _case(
        name="skips-the-point",
        does="skips a test that its check is to make pass",
        writes=divides(**ROUNDS, **{FILE: MARKED.format("@pytest.mark.skip")}),
    ),
    _case(
        name="replaces-the-point",
        does="replaces a test that its check is to make pass by one that always passes",
        writes=divides(**ROUNDS, **{FILE: RED.replace(HALF, "\n\ndef test_there():\n    assert calc.add\n")}),
    ),
    _case(
        name="foresees-the-point",
        does="marks a test that its check is to make pass as an expected failure",
        writes=divides(**ROUNDS, **{FILE: MARKED.format("@pytest.mark.xfail")}),
    ),
    _case(
        name="weakens-the-point",
        does="changes what a test expects that its check is to make pass",
        writes=divides(**ROUNDS, **{FILE: RED.replace("== 1.5", ">= 1")}),
    ),
)

POINT_HONEST = (
    _case(
        name="renames-the-point",
        does="makes the failing tests of its check pass, and renames one",
        writes=divides(**{FILE: RED.replace("test_half", "test_fraction")}),
    ),
    _case(
        name="parametrizes-the-point",
        does="makes the failing tests of its check pass, and merges them into one parametrized test",
        writes=divides(
            **{
                FILE: "import pytest\n\nimport calc\n\n\n"
                "@pytest.mark.parametrize(('a', 'b', 'found'), [(6, 3, 2), (6, 4, 1.5)])\n"
                "def test_div(a, b, found):\n    assert calc.div(a, b) == found\n"
            }
        ),
    ),
)
