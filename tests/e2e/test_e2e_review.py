"""`review`: what a person who takes the work reads, by intent, the doubtful first."""

import json
from pathlib import Path

import pytest

from support.landed_run import checkout_bytes, landed_run
from support.scenario import Scenario, action, plan_of, shell

pytestmark = pytest.mark.slow

CALC = "def add(a, b):\n    return a + b\n"
ADDS = "python3 -c 'import calc; assert calc.add(1, 1) == 2'"
LINES = "for i in $(seq 300); do echo line$i; done"


@pytest.fixture
def risky(tmp_path):
    """Return a run that deleted, moved, protected and many lines."""
    scenario = Scenario(tmp_path)
    (scenario.repo / "old.txt").write_text("old\n" * 5)
    (scenario.repo / "before.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    (scenario.repo / "Makefile").write_text("check:\n\ttrue\n")
    scenario.commit("more")
    every = {"must_exist": ["big.txt"], "commands": [{"command": "make check"}]}
    scenario.plan(
        plan_of(work=[action("all", effects=["all_done"], contract=every, files=["**", "Makefile", "auth.txt"])])
    )
    change = f"{LINES} > big.txt; rm old.txt; mv before.txt after.txt; echo a > auth.txt; printf 'x' > 'odd name'"
    scenario.cassette(all=[shell(change)])
    scenario.run("--yes", code=0)
    return scenario


def test_the_change_is_shown_by_intent_and_what_deserves_attention_first(risky):
    """BX-25: what serves no line comes first; each part says why it is where it is; the checkout is not touched."""
    before = checkout_bytes(risky.repo)
    found = json.loads(risky.scaffold("review", "--json").stdout)
    shown = {each["path"]: (each["kind"], each["attention"]) for each in found["files"]}
    assert list(shown) == ["auth.txt", "after.txt", "big.txt", "odd name", "old.txt"]
    assert shown["auth.txt"] == ("A", "is in a protected area: auth")
    assert shown["after.txt"] == ("R", None)
    groups = {each["title"]: [hunk["path"] for hunk in each["hunks"]] for each in found["intents"]}
    assert groups == {
        "Serves no line of a contract": ["after.txt", "odd name", "old.txt"],
        "all: must exist: big.txt": ["big.txt"],
        "all: declares auth.txt": ["auth.txt"],
    }
    text = risky.scaffold("review").stdout
    assert text.index("# Serves no line") < text.index("# all: must exist: big.txt: 1 file, +300 -0")
    assert "@@ before.txt -> after.txt @@ moved; no check is known to reach it" in text
    assert "     1 +line1\n" in text
    assert "+line1" not in risky.scaffold("review", "--stat").stdout
    assert "exit 0  make check" in text
    alone = risky.scaffold("review", "all").stdout
    assert alone.startswith("# Serves no line of a contract: 3 files")
    page = risky.scaffold("review", "--web")
    assert '<section id="review">' in Path(page.stdout.strip()).read_text(encoding="utf-8")
    assert checkout_bytes(risky.repo) == before


def test_each_commit_has_its_evidence_and_a_weak_fact_comes_first_with_its_reason(tmp_path):
    """BX-1: what no check showed is the first thing to read."""
    scenario = Scenario(tmp_path)
    weak = action("page", effects=["page_written"], contract={"must_exist": ["README.md"]})
    scenario.plan(plan_of(docs=[weak, action("list", effects=["list_written"], check="test -f list.txt")]))
    scenario.cassette(page=[shell("echo page > page.txt")], list=[shell("echo list > list.txt")])
    scenario.run("--yes", code=0)
    found = json.loads(scenario.scaffold("review", "--json").stdout)
    assert [(fact["name"], fact["strength"]) for fact in found["facts"]] == [
        ("page_written", "weak"),
        ("list_written", "proven"),
    ]
    assert {each["action"]: each["facts"] for each in found["commits"]} == {
        "page": ["page_written"],
        "list": ["list_written"],
    }
    text = scenario.scaffold("review").stdout
    assert "Look at these first" in text
    assert text.index("page_written (weak)") < text.index("Commits") < text.index("list_written (proven)")
    assert found["facts"][0]["doubts"][0]["text"] in " ".join(text.split())


def test_work_that_means_nothing_to_the_program_is_unchanged_behaviour(tmp_path):
    """BX-1: a comment, an annotation and a document need no look; a new function that no check can see does."""
    scenario = Scenario(tmp_path)
    (scenario.repo / "calc.py").write_text(CALC)
    scenario.commit("calc")
    files = ["calc.py", "GUIDE.md"]
    quiet = action("typed", effects=["typed"], check=ADDS, files=files)
    loud = action("more", effects=["more_done"], check=ADDS, files=files, needs=["typed"])
    scenario.plan(plan_of(work=[quiet, loud]))
    scenario.cassette(
        typed=[shell("sed -i 's/a, b)/a: int, b: int) -> int/; 1i # See GUIDE.md.' calc.py; echo guide > GUIDE.md")],
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


def test_the_commands_of_taking_work_need_a_run(tmp_path):
    scenario = Scenario(tmp_path)
    for command in (("review",), ("land",), ("revert", "x")):
        done = scenario.scaffold(*command)
        assert (done.returncode, "there is no run in this repository yet" in done.stderr) == (64, True)
    assert not (scenario.repo / ".git" / "scaffold").exists()


def test_review_shows_what_was_reverted_and_what_was_taken(tmp_path):
    """BX-1: a reverted action's commit has no facts any more."""
    scenario = landed_run(tmp_path)
    scenario.scaffold("land", code=0)
    scenario.scaffold("revert", "guide", code=0)
    found = json.loads(scenario.scaffold("review", "--json").stdout)
    assert [each["subject"] for each in found["commits"]][-1] == 'Revert "make guide"'
    assert "GUIDE.md" not in [each["path"] for each in found["files"]]
    assert [each["state"] for each in found["facts"] if each["name"] == "guide_written"] == ["refuted"]
    assert [each["branch"] for each in found["taken"]] == ["main"]
