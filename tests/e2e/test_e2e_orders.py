"""What `--greenfield` and `--pr` ask for is part of the run: done once, shown until then, and not lost by a kill."""

import json

import pytest

from e2e.test_e2e_pull_requests import kill_at, pulls
from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.landed_run import checkout_bytes, landed_run, session_branch
from support.scenario import Scenario, action, plan_of, write

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    return landed_run(tmp_path)


def run_id(scenario):
    return session_branch(scenario).removeprefix("session-")


def listed(scenario):
    (run,) = json.loads(scenario.scaffold("runs", "--json").stdout)["runs"]
    return run["taken"]


def test_an_order_that_could_not_be_carried_out_is_shown_until_it_is_done_once(scenario):
    """AL-12, BX-2: `resume` does it as soon as it can, and never again; an undo is the user's."""
    (scenario.repo / "README.md").write_text("half done\n")
    before, run = checkout_bytes(scenario.repo), run_id(scenario)
    refused = scenario.scaffold("resume", run, "--greenfield")
    assert (refused.returncode, "the work was not taken" in refused.stderr) == (1, True)
    assert checkout_bytes(scenario.repo) == before
    for command in ("status", "review"):
        assert "--greenfield was asked for, and is not done" in scenario.scaffold(command).stdout
    assert scenario.status()["run"]["open_order"] == "greenfield"
    scenario.git("checkout", "-q", "README.md")
    old = scenario.git("rev-parse", "main").strip()
    scenario.scaffold("resume", run, code=0)
    assert scenario.git("rev-parse", "main") == scenario.git("rev-parse", session_branch(scenario))
    assert (scenario.status()["run"]["open_order"], listed(scenario)) == (None, True)
    page = scenario.repo / ".scaffold" / "reports" / f"{run}.html"
    assert f"scaffold land {run}" not in page.read_text()
    scenario.git("reset", "-q", "--keep", old)
    again = scenario.scaffold("resume", run)
    assert "cannot be resumed" in again.stderr
    assert scenario.git("rev-parse", "main").strip() == old
    assert (scenario.status()["run"]["open_order"], scenario.status()["run"]["taken"], listed(scenario)) == (
        None,
        [],
        False,
    )
    scenario.scaffold("open", code=0)
    assert f"scaffold land {run}" in page.read_text()


def test_an_order_that_could_not_be_carried_out_ends_every_command_alike(tmp_path):
    """AL-12: `run` and `resume` fail, and `resume` needs no name to do it."""
    made = Scenario(tmp_path)
    (made.repo / "README.md").write_text("half done\n")
    made.plan(plan_of(g=[action("one", effects=["x"], check="test -f one.py")]))
    made.cassette(one=[write("one.py", "x = 1\n")])
    done = made.run("--yes", "--greenfield")
    assert (done.returncode, "the work was not taken" in done.stderr) == (1, True)
    done = made.scaffold("resume")
    assert (done.returncode, "the work was not taken" in done.stderr) == (1, True)
    made.git("checkout", "-q", "README.md")
    made.scaffold("resume", code=0)
    assert (made.repo / "one.py").exists()
    made.scaffold("resume", code=64)


def test_land_by_hand_does_what_was_ordered(scenario):
    """AL-12: the order is done, however the work got there."""
    (scenario.repo / "README.md").write_text("half done\n")
    scenario.scaffold("resume", run_id(scenario), "--greenfield", code=1)
    scenario.git("checkout", "-q", "README.md")
    scenario.scaffold("land", "--squash", code=0)
    assert scenario.status()["run"]["open_order"] is None


@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_of_an_order_is_made_up_for(tmp_path, share):
    """BX-15: the run has it until it is done, and it is done once."""

    def trial(number):
        scenario = landed_run(tmp_path / str(number))
        command = ("resume", run_id(scenario), "--greenfield")
        point = CrashPoint(scenario, number)
        with point.armed():
            first = scenario.scaffold(*command)
        assert first.returncode in {0, -9}, first.stderr
        assert scenario.git("status", "--porcelain") == ""
        again = scenario.scaffold(*command)
        assert again.returncode == 0 or "cannot be resumed" in again.stderr, again.stderr
        assert scenario.git("rev-parse", "main") == scenario.git("rev-parse", session_branch(scenario))
        run = scenario.status()["run"]
        assert (run["open_order"], [each["how"] for each in run["taken"]]) == (None, ["ff"])
        return point.passed()

    try_every_point(share, trial)


def test_a_kill_between_the_push_and_the_pull_request_leaves_the_order_open(scenario):
    """BX-15, AL-14: the repeat finds what was pushed, and opens one pull request."""
    scenario.git("init", "-q", "--bare", str(scenario.home / "remote.git"))
    scenario.git("remote", "add", "origin", str(scenario.home / "remote.git"))
    kill_at(scenario, "before list")
    assert scenario.scaffold("resume", run_id(scenario), "--pr").returncode == -9
    assert scenario.status()["run"]["open_order"] == "pr"
    scenario.scaffold("resume", run_id(scenario), code=0)
    assert len(pulls(scenario)) == 1
    assert scenario.status()["run"]["open_order"] is None
