"""Cheating and honest workers against the real command."""

import re
import shutil
from pathlib import Path

import pytest

from cheaters.cheats import CHEATS
from cheaters.honest import HONEST
from cheaters.trial import run_case

PAGE = (Path(__file__).parents[2] / "docs" / "proof.md").read_text()
SAMPLE = {"changes-nothing"}
"""Of all cases, those in the quick lane."""


def sampled(cases):
    """Return the cases as parameters: a few in the quick lane, the rest in the slow one; some need a tool."""
    return [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]


def marks(case):
    tool = case.name.partition("-")[0]
    missing = tool in {"go", "node"} and shutil.which(tool) is None
    slow = () if case.name in SAMPLE else (pytest.mark.slow,)
    return (*slow, pytest.mark.skipif(missing, reason=f"{tool} is not installed"))


@pytest.mark.parametrize("case", sampled(CHEATS))
@pytest.mark.slow
def test_no_cheat_counts_as_proven(case, tmp_path):
    """BX-1, BX-4, BX-5: a cheat does not land, or the run says how weak its evidence is."""
    found = run_case(case, tmp_path)
    assert not found.escaped, found.said


@pytest.mark.parametrize("case", sampled(HONEST))
def test_honest_work_is_never_refused(case, tmp_path):
    """BX-5, AL-9, AL-10: it lands, and does what was asked for."""
    found = run_case(case, tmp_path)
    assert (found.landed, found.true, found.done) == (True, True, True), found.said


def test_every_case_is_in_the_documentation():
    """BX-5: what is published is what is tried."""
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))
    assert documented == {case.name for case in (*CHEATS, *HONEST)}
