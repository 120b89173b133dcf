"""A kill at every persisted transition: before and after each commit of the store and each change by git."""

import re
import sqlite3
from pathlib import Path

import pytest

from e2e.test_e2e_supervision import TASK, expect_the_end, shop_and_docs
from support.scenario import Scenario, action, plan_of, shell, write

HARNESS = Path(__file__).parents[1] / "crash"
PLANNED_PLACES = range(1, 56)
REQUESTED_PLACES = range(1, 65)
"""A few more than the places in the source at which such a run commits or has git change something.

What is stored after one change is what is stored before the next. So one kind of run dies before each change, and the
other kind after each.
"""


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    (made.repo / "list.txt").write_text("[]\n")
    made.commit("a list")
    made.plan(
        plan_of(
            shared=[
                action("left", effects=["l"], check="grep -q left list.txt"),
                action("right", effects=["r"], check="grep -q right list.txt"),
            ],
            chain=[
                action("first", effects=["one"], check="grep -q whole first.txt"),
                action("second", needs=["one"], effects=["two"], check="test -f second.txt"),
            ],
        )
    )
    made.cassette(
        left=[shell("sleep 0.2; sed -i 's/]/ left]/' list.txt")],
        right=[shell("sleep 0.2; sed -i 's/]/ right]/' list.txt")],
        first=[write("first.txt", "half\n"), "done, I think", write("first.txt", "whole\n")],
        second=[write("second.txt", "2\n")],
    )
    return made


@pytest.fixture
def bare(tmp_path):
    return Scenario(tmp_path)


def crashed_at(scenario, number, command, **harness):
    """Run until the point kills a process, then go on without; return what was told before, and the points passed.

    `harness` are further variables for the harness.
    """
    counter = scenario.home / "points"
    counter.write_text("")
    environ_before = dict(scenario.environ)
    scenario.environ |= {"PYTHONPATH": str(HARNESS), "CRASH_COUNTER": str(counter), "CRASH_AT": str(number), **harness}
    first = scenario.call(command)
    scenario.environ = environ_before
    said = first.stdout
    if first.returncode == -9 and (scenario.status()["run"] or {}).get("status") != "completed":
        again = scenario.call(command)
        assert again.returncode == 0, again.stdout + again.stderr
    assert first.returncode in {0, -9}, first.stdout + first.stderr
    return said, counter.read_text().splitlines()


def expect_every_place_is_tried(places, number, numbers):
    """Check that the last point kills no process, so that every point was tried."""
    assert number < numbers[-1] or len(places) < number, f"raise the numbers: there are more places, like {places[-1]}"


def expect_invariants(scenario, said):
    """Check that acknowledged changes are there, landed work is reachable and unique, and no process is left."""
    status = scenario.status()
    run = status["run"]
    assert run["status"] == "completed"
    assert {each["status"] for each in status["actions"]} == {"completed"}
    span = f"{run['base_sha']}..{run['session_branch']}"
    landed = scenario.git("log", "--format=%(trailers:key=Scaffold-Action,valueonly)", span).split()
    assert sorted(landed) == ["first", "left", "right", "second"]
    on_branch = scenario.git("log", "--format=%h", "--abbrev=8", span).split()
    for acknowledged in re.findall(r"landed +\S+ as (\w{8})", said):
        assert acknowledged in on_branch, "a landing that was told is gone"
    for each in status["actions"]:
        assert [attempt["phase"] for attempt in each["attempts"]].count("recorded") == 1
    for goal in status["goals"]:
        for fact in goal["facts"]:
            assert fact["state"] == "holds"
            assert scenario.git("branch", "--contains", fact["commit"], "--format=%(refname:short)").strip()
    database = sqlite3.connect(scenario.repo / ".git" / "scaffold" / "state.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_key_check").fetchone() is None
    database.close()
    scenario.git("fsck", "--connectivity-only")
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.processes() == []


@pytest.mark.parametrize("number", [111])
def test_a_kill_at_a_persisted_transition_does_not_change_the_outcome(scenario, number):
    """BX-15, BX-2, BX-8, SC-16: a sample of the points."""
    said, points = crashed_at(scenario, number, scenario.run_command("--yes"))
    assert len(points) >= number, "the point was never passed"
    expect_invariants(scenario, said)


@pytest.mark.slow
@pytest.mark.parametrize("number", PLANNED_PLACES)
def test_a_kill_at_any_persisted_transition_does_not_change_the_outcome(scenario, number):
    """BX-15, BX-2, BX-8, SC-16: after the first change of every place in the source."""
    said, places = crashed_at(scenario, number, scenario.run_command("--yes"), CRASH_DISTINCT="after")
    expect_every_place_is_tried(places, number, PLANNED_PLACES)
    expect_invariants(scenario, said)


@pytest.mark.slow
@pytest.mark.parametrize("number", [131])
def test_a_kill_during_planning_supervision_or_landing_does_not_change_the_outcome(bare, number):
    """BX-15, SC-16: the process that passes the point dies: planner, supervisor, worker or owner."""
    shop_and_docs(bare, pause="0")
    _, points = crashed_at(bare, number, bare.request_command(TASK, "--yes"))
    assert len(points) >= number, "the point was never passed"
    expect_the_end(bare)


@pytest.mark.slow
@pytest.mark.parametrize("number", REQUESTED_PLACES)
def test_a_kill_at_any_point_of_a_request_does_not_change_the_outcome(bare, number):
    """BX-15, SC-16: before the first change of every place in the source."""
    shop_and_docs(bare, pause="0")
    _, places = crashed_at(bare, number, bare.request_command(TASK, "--yes"), CRASH_DISTINCT="before")
    expect_every_place_is_tried(places, number, REQUESTED_PLACES)
    expect_the_end(bare)
