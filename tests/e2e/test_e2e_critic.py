"""Critiqued work from a request to landed commits: no single opinion ends it, and it ends."""

import json

import pytest

from support.crash_points import CrashPoint
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import action, put_before, text_entry, write


def criticises(key, *answers, iteration=1):
    """Return the entries of a critic: its answers about one iteration, in order."""
    return [
        text_entry(
            "critic", text, action=key, turn=turn, **({"contains": f"iteration {iteration} of"} if turn == 1 else {})
        )
        for turn, text in enumerate(answers, 1)
    ]


def request(scenario):
    """Return the flags of a request of four actions, each with its own loop."""
    cassette = scenario.cassette(
        better=[write("better.txt", "one\n"), "a first version", write("better.txt", "one\ntwo\n"), "both are there"],
        stubborn=[write("stubborn.txt", "one\n"), "it is there", "I leave it as it is: one line was asked for."],
        hasty=[
            write("hasty.txt", "good\n"), "it is good", write("hasty.txt", "bad\n"), "Shorter now.\nDONE",
            write("hasty.txt", "good enough\n"), "it is good again",
        ],
        alone=[write("alone.txt", "one\n"), "it is there"],
    )  # fmt: skip
    critics = [
        *criticises("better", "Add a second line.\n\nTotal: 5/9"),
        *criticises("better", "Fine!", "Correctness: 3/3\nTotal: 12/9", "Fine.\nTotal: 8/9\nDONE", iteration=2),
        *criticises("stubborn", "Make it two lines.\nTotal: 3/9"),
        *criticises("hasty", "Make it shorter.\nTotal: 4/9"),
        *criticises("hasty", "Total: 9/9", iteration=3),
    ]
    put_before(cassette, *critics)
    checks = {"better": "grep -q one", "stubborn": "grep -q one", "hasty": "grep -q good", "alone": "grep -q one"}
    made = [action(key, effects=[f"{key}_there"], check=f"{check} {key}.txt") for key, check in checks.items()]
    return add_planner(
        cassette,
        [create_goal_call("texts", *(f"{key}_there" for key in checks))],
        [create_actions_call("texts", *made)],
    )


@pytest.mark.slow
def test_iterations_continue_until_the_work_is_good_enough_or_stops_improving(scenario):
    """AL-5, AL-6, AL-21: below the threshold, malformed, DONE while it fails, no change, no critic; what each cost."""
    done = scenario.scaffold("run", "four texts", "--model", request(scenario), "--yes", code=0)
    lines = sorted(line.split("critic   ")[1] for line in done.stdout.splitlines() if "critic   " in line)
    assert lines == [
        "better: 5/9 after iteration 1",
        "better: 8/9 after iteration 2",
        "hasty: 4/9 after iteration 1",
        "hasty: 9/9 after iteration 3",
        "stubborn: 3/9 after iteration 1",
    ]
    branch = scenario.status()["run"]["session_branch"]
    landed = {key: scenario.git("show", f"{branch}:{key}.txt") for key in ("better", "stubborn", "hasty", "alone")}
    assert landed == {"better": "one\ntwo\n", "stubborn": "one\n", "hasty": "good enough\n", "alone": "one\n"}
    assert "You asked to stop, but the work does not pass." in scenario.journal("texts", "hasty")
    assert "contradicts" not in done.stdout
    (warning,) = [line for line in done.stdout.splitlines() if "was not critiqued" in line]
    assert "alone" in warning
    counted = {each["key"]: each["attempts"][0]["iteration"] for each in scenario.status()["actions"]}
    assert counted == {"better": 2, "stubborn": 2, "hasty": 3, "alone": 1}
    scores = {each["key"]: each["attempts"][0]["score"] for each in scenario.status()["actions"]}
    of_total = {"correctness": None, "readability": None, "edge_cases": None, "threshold": 7}
    assert (scores["stubborn"], scores["alone"]) == ({"total": 3, **of_total}, None)
    assert "critic: 3/9, 7 required" in scenario.scaffold("tasks").stdout
    assert "critic: 3/9, 7 required" in scenario.scaffold("contract", "stubborn").stdout
    assert "critic hasty#1 Make it shorter.\n    Total: 4/9\n" in scenario.scaffold("logs", "hasty").stdout
    costs = json.loads(scenario.scaffold("cost", "--json").stdout)
    assert {each["name"] for each in costs["roles"]} == {"planner", "implementation", "critic"}
    for split in ("roles", "purposes"):
        assert sum(each["requests"] for each in costs[split]) == costs["total"]["requests"], "each request is booked"
    assert costs["budget"]["limit_tokens"] == 400_000, "builder's, for each of the four actions that were planned"


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["verifying", "critiquing", "criticised"])
def test_a_worker_killed_during_a_critique_loses_nothing(scenario, phase):
    """AL-5, BX-15: the work is redone, critiqued at most once more, and lands once."""
    cassette = scenario.cassette(kept=[write("kept.txt", "one\n"), "it is there"])
    put_before(cassette, *criticises("kept", "Fine.\nTotal: 8/9"))
    made = action("kept", effects=["kept_there"], check="grep -q one kept.txt")
    model = add_planner(cassette, [create_goal_call("texts", "kept_there")], [create_actions_call("texts", made)])
    point = CrashPoint(scenario, 1, CRASH_PHASE=phase)
    with point.armed():
        done = scenario.scaffold("run", "a text", "--model", model, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(point.passed()) == 2, "killed once, and not stopped by it"
    (kept,) = [each for each in scenario.status()["actions"] if each["key"] == "kept"]
    assert [attempt["outcome"] for attempt in kept["attempts"]] == ["lost", "landed"]
    assert kept["attempts"][1]["score"]["total"] == 8
    assert done.stdout.count("kept: 8/9 after iteration 1") == 1 + (phase == "criticised")


@pytest.mark.slow
def test_work_that_never_passes_fails_with_the_reason_and_does_not_land(scenario):
    """AL-6, AL-19: at the maximum, whatever its critic says; then a human decides."""
    cassette = scenario.cassette(never=[write("never.txt", "1\n"), "done", write("never.txt", "2\n"), "DONE"])
    put_before(cassette, text_entry("critic", "Total: 9/9\nDONE"), text_entry("supervisor", "there is no other way"))
    made = action("never", effects=["never_there"], check="grep -q three never.txt")
    model = add_planner(cassette, [create_goal_call("texts", "never_there")], [create_actions_call("texts", made)])
    folder = scenario.home / "scaffold" / "config"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("tiers: {builder: {iterations: 2}}\n")
    done = scenario.scaffold("run", "a text", "--model", model, "--yes", code=3)
    lines = [line.partition("  ")[2] for line in done.stdout.splitlines() if "not proven after" in line]
    why = "The check `grep -q three never.txt` failed. Expected exit code 0, but got exit code 1."
    why += " (more: `scaffold contract never`)"
    assert lines == [f"failed   never: not proven after 2 iterations: {why}"] * 3
    assert "critic " not in done.stdout
    (asked,) = scenario.inbox()
    scenario.scaffold("answer", asked["id"], "fail", code=0)
    scenario.scaffold("resume", code=1)
    status = scenario.status()
    assert [each["status"] for each in status["actions"]] == ["failed"]
    assert "never.txt" not in scenario.git("ls-tree", "--name-only", status["run"]["session_branch"]).split()
