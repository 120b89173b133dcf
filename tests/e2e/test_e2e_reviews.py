"""Reviews as actions of a plan: the real command, on a cassette."""

import json

import pytest

from support.crash_points import CrashPoint
from support.scenario import Scenario, action, plan_of, shell, write

CITED = [{"file": "first.txt", "line": 1, "note": "it is whole"}]


def review(key, *, needs):
    """Return an action that reviews the actions with the effects `needs`."""
    return {**action(key, needs=needs, effects=[f"{key}_ok"], check="grep -q whole first.txt"), "role": "code_review"}


def verdict(word="approve", citations=CITED, summary="Seen."):
    said = {"verdict": word, "citations": citations, "summary": summary}
    return f"I looked.\n\n```json\n{json.dumps(said)}\n```"


@pytest.fixture
def scenario(tmp_path):
    """A plan in which something is made, reviewed, and built upon."""
    made = Scenario(tmp_path)
    made.plan(
        plan_of(
            chain=[
                action("first", effects=["one"], check="grep -q whole first.txt"),
                review("look", needs=["one"]),
                action("second", needs=["look_ok"], effects=["two"], check="test -f second.txt"),
            ]
        )
    )
    return made


def played(scenario, *judging):
    scenario.cassette(first=[write("first.txt", "whole\n")], look=list(judging), second=[write("second.txt", "2\n")])
    return scenario.run("--yes")


def actions_of(scenario):
    return {each["key"]: each for each in scenario.status()["actions"]}


def expect_judged_once(scenario):
    """Check that the run is done, two commits landed, and the review is a fact with its verdict as evidence."""
    status = scenario.status()
    assert status["run"]["status"] == "completed"
    assert scenario.landed_keys() == ["first", "second"]
    assert [each["outcome"] for each in actions_of(scenario)["look"]["attempts"]].count("recorded") == 1
    (goal,) = status["goals"]
    (fact,) = [each for each in goal["facts"] if each["name"] == "look_ok"]
    assert fact["state"] == "holds"
    assert scenario.git("branch", "--contains", fact["commit"], "--format=%(refname:short)").strip()
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.processes() == []


@pytest.mark.slow
def test_work_continues_once_its_review_approves(scenario):
    """SC-7, BX-1: an invalid verdict is requested again; the reviewer's changes of files do not land."""
    finished = played(
        scenario,
        shell("cat first.txt; echo x > scratch.txt"),
        verdict(citations=[{"file": "scratch.txt", "line": 1}]),
        verdict(),
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    expect_judged_once(scenario)
    assert "scratch.txt:1: the file is empty or not in the commit" in scenario.journal("chain", "look")


@pytest.mark.slow
def test_a_rejection_blocks_dependents_and_shows_its_findings(scenario):
    """SC-7, SC-20: without a planner that is the end, with the reason."""
    finished = played(scenario, verdict("reject", summary="It is not whole."))
    assert finished.returncode != 0
    shown = actions_of(scenario)
    assert {key: each["status"] for key, each in shown.items()} == {
        "first": "completed",
        "look": "failed",
        "second": "blocked",
    }
    assert [each["outcome"] for each in shown["look"]["attempts"]] == ["gate_failed"]
    assert "rejected: It is not whole." in finished.stdout


SAMPLE = (88, 109)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [pytest.param(each, marks=[] if each in SAMPLE else pytest.mark.slow) for each in (76, 88, 97, 104, 109, 113)],
)
def test_a_kill_during_a_review_or_its_record_does_not_change_the_outcome(scenario, number):
    """BX-15, BX-2, SC-16: no ref moves, so nothing can be half done."""
    point = CrashPoint(scenario, number)
    with point.armed():
        first = played(scenario, verdict())
    assert first.returncode in {0, -9}, first.stdout + first.stderr
    assert len(point.passed()) >= number, "the point was never passed"
    if first.returncode == -9 and scenario.status()["run"]["status"] != "completed":
        scenario.run("--yes", code=0)
    expect_judged_once(scenario)
