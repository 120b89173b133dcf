"""Unchanged behaviour: what landed means nothing to the program, and every screen says so instead of a doubt."""

import json

import pytest

from support.scenario import Scenario, action, plan_of, shell

pytestmark = pytest.mark.slow

CALC = "def add(a, b):\n    return a + b\n"
CHECK = "python3 -c 'import calc; assert calc.add(1, 1) == 2'"


def test_work_that_means_nothing_to_the_program_is_unchanged_behaviour(tmp_path):
    """BX-1: a comment, an annotation and a document need no look; a new function that no check can see does."""
    scenario = Scenario(tmp_path)
    (scenario.repo / "calc.py").write_text(CALC)
    scenario.commit("calc")
    files = ["calc.py", "GUIDE.md"]
    quiet = action("typed", effects=["typed"], check=CHECK, files=files)
    loud = action("more", effects=["more_done"], check=CHECK, files=files, needs=["typed"])
    scenario.plan(plan_of(work=[quiet, loud]))
    scenario.cassette(
        typed=[shell("sed -i 's/a, b)/a: int, b: int) -> int/; 1i # Sums.' calc.py; echo guide > GUIDE.md")],
        more=[shell("printf '\\n\\ndef sub(a, b):\\n    return a - b\\n' >> calc.py")],
    )
    scenario.run("--yes", code=0)
    facts = {each["name"]: each for each in json.loads(scenario.scaffold("review", "--json").stdout)["facts"]}
    assert (facts["typed"]["strength"], facts["typed"]["weak"], facts["typed"]["doubts"]) == ("unchanged", False, [])
    assert (facts["more_done"]["strength"], facts["more_done"]["weak"]) == ("weak", True)
    reason = "no executed line changed meaning: annotations and docstrings, documents"
    for command in (("contract", "typed"), ("goals",)):
        text = " ".join(scenario.scaffold(*command).stdout.split())
        assert reason in text
        assert "unchanged behaviour" in text
    assert "typed (unchanged behaviour)" in scenario.scaffold("status").stdout
    review = scenario.scaffold("review").stdout
    assert "1 unchanged behaviour" in review
    assert "typed" not in review[review.index("Look at these first") : review.index("Commits")]
