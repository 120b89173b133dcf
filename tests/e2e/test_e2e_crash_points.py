"""A kill at every persisted transition: before and after each commit of the store and each change by git."""

import re
import sqlite3
from pathlib import Path

import pytest

from scenario import Scenario, action, plan_of, shell, write

HARNESS = Path(__file__).parents[1] / "crash"
MOST_POINTS = 300
"""More than the run passes; a point beyond its end kills nobody, and the test says so by passing at once."""


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


def crashed_at(scenario, number):
    """Run until the point kills a process, then go on without; return what was told before, and whether it died."""
    counter = scenario.home / "points"
    counter.write_text("")
    calm = dict(scenario.environ)
    scenario.environ |= {"PYTHONPATH": str(HARNESS), "CRASH_COUNTER": str(counter), "CRASH_AT": str(number)}
    first = scenario.run("--yes")
    scenario.environ = calm
    said = first.stdout
    if first.returncode == -9 and (scenario.status()["run"] or {}).get("status") != "completed":
        again = scenario.run("--yes")
        assert again.returncode == 0, again.stdout + again.stderr
    assert first.returncode in {0, -9}, first.stdout + first.stderr
    return said, counter.read_text().splitlines()


def expect_invariants(scenario, said):
    """Acknowledged is present, done is reachable, nothing is there twice, the database is whole, nobody is left."""
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


@pytest.mark.parametrize("number", [3, 17, 29, 41, 58, 73, 90, 111])
def test_a_kill_at_a_persisted_transition_changes_nothing_about_the_end(scenario, number):
    """BX-15, BX-2, BX-8, SC-16: a sample of the points."""
    said, points = crashed_at(scenario, number)
    assert len(points) >= number, "the point was never passed"
    expect_invariants(scenario, said)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, MOST_POINTS + 1))
def test_a_kill_at_any_persisted_transition_changes_nothing_about_the_end(scenario, number):
    """BX-15, BX-2, BX-8, SC-16: every point."""
    said, _ = crashed_at(scenario, number)
    expect_invariants(scenario, said)
