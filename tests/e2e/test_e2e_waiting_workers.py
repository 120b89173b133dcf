"""Workers that wait for a human who answers while the run goes on, killed at each point in turn."""

import json
import time

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.scenario import Scenario, action, plan_of, shell, write

MOST_STEPS = 8
KEYS = ("left", "right")
"""The actions that ask the same."""


def one_slot_for_two_that_ask(folder):
    scenario = Scenario(folder)
    scenario.configure(inbox={"wait_s": 60})
    asking = [action(key, effects=[f"{key}_made"], check=f"test -s {key}.txt") for key in KEYS]
    scenario.plan(plan_of(g=asking, h=[action("guide", effects=["guided"], check="test -s GUIDE.md")]))
    same = [shell("echo made > $SCAFFOLD_ACTION.txt")]
    scenario.cassette(left=same, right=same, guide=[write("GUIDE.md", "# Guide\n")])
    return scenario


def carried_on(scenario, number):
    """Execute the run and approve what it asks while it waits, with a kill at the given point; return those passed."""
    point = CrashPoint(scenario, number, CRASH_DISTINCT="after")
    for _ in range(MOST_STEPS):
        run = scenario.status()["run"]
        if (run or {}).get("status") == "completed":
            break
        with point.armed():
            first = scenario.run_command("--yes", "--sandbox", "off", "--agents", "1")
            running = scenario.start(scenario.command("resume") if run else first)
            while running.poll() is None:
                for item in scenario.status()["inbox"]:
                    scenario.scaffold("approve", item["id"])
                time.sleep(0.1)
        scenario.wait_for_end()
    return point.passed()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", SAMPLE[:1])
def test_a_kill_at_any_point_while_workers_wait_and_go_on_loses_nothing(tmp_path, share):
    """BX-13, BX-15, SC-15: nothing is asked twice, and all of it lands once."""

    def trial(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        scenario = one_slot_for_two_that_ask(folder)
        places = carried_on(scenario, number)
        status = scenario.status()
        assert status["run"]["status"] == "completed", scenario.scaffold("status").stdout
        for each in status["actions"]:
            assert [attempt["outcome"] for attempt in each["attempts"]].count("landed") == 1
        items = json.loads(scenario.scaffold("inbox", "--all", "--json").stdout)["inbox"]
        assert {item["state"] for item in items} == {"approved"}
        assert len(items) <= len(KEYS)
        scenario.wait_for_end()
        return places

    try_every_point(share, trial)
