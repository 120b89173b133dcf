"""A kill at every persisted transition: before and after each commit of the store and each change by git."""

import re

import pytest

from e2e.test_e2e_supervision import TASK, expect_the_end, shop_and_docs
from support.crash_points import HALVES, NEVER, SHARES, CrashPoint, try_every_point
from support.scenario import Scenario, action, plan_of, shell, write


def planned(folder):
    """Return a repository with a plan of two goals and four actions."""
    folder.mkdir(exist_ok=True)
    made = Scenario(folder)
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


def requested(folder):
    """Return a repository with replies to a request of two goals."""
    folder.mkdir(exist_ok=True)
    made = Scenario(folder)
    shop_and_docs(made, pause="0")
    return made


def crashed_at(scenario, number, command, **harness):
    """Run until the point kills a process, then go on without; return what was told before, and the points passed.

    `harness` are further variables for the harness.
    """
    point = CrashPoint(scenario, number, **harness)
    with point.armed():
        first = scenario.call(command)
    said = first.stdout
    if first.returncode == -9 and (scenario.status()["run"] or {}).get("status") != "completed":
        scenario.call(command, code=0)
    assert first.returncode in {0, -9}, first.stdout + first.stderr
    return said, point.passed()


def expect_invariants(scenario, said):
    """Check that acknowledged changes are there, landed work is reachable and unique, and no process is left."""
    status = scenario.status()
    run = status["run"]
    assert run["status"] == "completed"
    assert {each["status"] for each in status["actions"]} == {"completed"}
    span = f"{run['base_sha']}..{run['session_branch']}"
    assert sorted(scenario.landed_keys()) == ["first", "left", "right", "second"]
    on_branch = scenario.git("log", "--format=%h", "--abbrev=8", span).split()
    for acknowledged in re.findall(r"landed +\S+ as (\w{8})", said):
        assert acknowledged in on_branch, "a landing that was told is gone"
    for each in status["actions"]:
        assert [attempt["phase"] for attempt in each["attempts"]].count("recorded") == 1
    for goal in status["goals"]:
        for fact in goal["facts"]:
            assert fact["state"] == "holds"
            assert scenario.git("branch", "--contains", fact["commit"], "--format=%(refname:short)").strip()
    assert scenario.stored("PRAGMA integrity_check") == [("ok",)]
    assert scenario.stored("PRAGMA foreign_key_check") == []
    scenario.git("fsck", "--connectivity-only")
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [111])
def test_a_kill_at_a_persisted_transition_does_not_change_the_outcome(tmp_path, number):
    """BX-15, BX-2, BX-8, SC-16: a sample of the points."""
    scenario = planned(tmp_path)
    said, points = crashed_at(scenario, number, scenario.run_command("--yes"))
    assert len(points) >= number, "the point was never passed"
    expect_invariants(scenario, said)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", SHARES)
def test_a_kill_at_any_persisted_transition_does_not_change_the_outcome(tmp_path, share):
    """BX-15, BX-2, BX-8, SC-16: after the first change of every place in the source.

    What is stored after one change is what is stored before the next. So this kind of run dies after each change, and
    the other kind before each.
    """

    def trial(number):
        scenario = planned(tmp_path / str(number))
        said, places = crashed_at(scenario, number, scenario.run_command("--yes"), CRASH_DISTINCT="after")
        expect_invariants(scenario, said)
        return places

    try_every_point(share, trial)


@pytest.mark.slow
@pytest.mark.parametrize("number", [131])
def test_a_kill_during_planning_supervision_or_landing_does_not_change_the_outcome(tmp_path, number):
    """BX-15, SC-16: the process that passes the point dies: planner, supervisor, worker or owner."""
    scenario = requested(tmp_path)
    _, points = crashed_at(scenario, number, scenario.request_command(TASK, "--yes"))
    assert len(points) >= number, "the point was never passed"
    expect_the_end(scenario)


@pytest.fixture(scope="module")
def tried_elsewhere(tmp_path_factory):
    """Return a file of the places that a planned run passes: the test above kills there, one after the other."""
    scenario = planned(tmp_path_factory.mktemp("planned"))
    point = CrashPoint(scenario, NEVER, CRASH_DISTINCT="before")
    with point.armed():
        scenario.run("--yes", code=0)
    assert len(point.passed()) > 40
    known = scenario.home / "known"
    known.write_text("\n".join(point.passed()))
    return known


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", HALVES)
def test_a_kill_at_any_point_of_a_request_does_not_change_the_outcome(tmp_path, share, tried_elsewhere):
    """BX-15, SC-16: before the first change of every place in the source that only a request passes."""

    def trial(number):
        scenario = requested(tmp_path / str(number))
        command = scenario.request_command(TASK, "--yes")
        _, places = crashed_at(scenario, number, command, CRASH_DISTINCT="before", CRASH_KNOWN=tried_elsewhere)
        expect_the_end(scenario)
        return places

    try_every_point(share, trial, of=HALVES)


@pytest.mark.slow
def test_only_a_request_passes_the_places_of_the_planner(tmp_path, tried_elsewhere):
    """BX-15: so they are among those at which the test above kills."""
    scenario = requested(tmp_path)
    point = CrashPoint(scenario, NEVER, CRASH_DISTINCT="before", CRASH_KNOWN=tried_elsewhere)
    with point.armed():
        scenario.call(scenario.request_command(TASK, "--yes"), code=0)
    assert not set(point.passed()) & set(tried_elsewhere.read_text().splitlines())
    assert sum("orchestrator.planning" in place for place in point.passed()) >= 2
