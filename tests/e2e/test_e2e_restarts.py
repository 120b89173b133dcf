"""A detached run whose owner is killed, again and again, at any moment, and is started again."""

import contextlib
import json
import os
import random
import signal
import time

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until, write

ACTIONS = 8


def started(scenario, *, actions=ACTIONS, width=2):
    """Start a run in the background: `width` chains of actions."""
    done = begun(scenario, actions=actions, width=width)
    assert done.returncode == 0, done.stdout + done.stderr


def begun(scenario, *, actions, width=2):
    """Start a run as `started` does; return what the command did."""
    steps = [
        action(
            f"step{n}", needs=[f"done{n - width}"] if n >= width else [], effects=[f"done{n}"], check=f"test -f f{n}"
        )
        for n in range(actions)
    ]
    scenario.plan(plan_of(chain=steps))
    scenario.cassette(**{f"step{n}": [shell("sleep 0.3"), write(f"f{n}", f"{n}\n")] for n in range(actions)})
    return scenario.run("--yes", "--detach")


def processes_of_run(scenario):
    """Return the pids of the owner and the restarter that are stored with the run; None for no owner."""
    ((owner, restarter),) = scenario.stored("SELECT owner, restarter FROM run")
    return json.loads(owner)["pid"] if json.loads(owner) else None, json.loads(restarter)["pid"]


def kill_owner(scenario, number=signal.SIGKILL):
    """Send a signal to the owner; return its pid, None if there was none."""
    owner, _ = processes_of_run(scenario)
    if owner is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner, number)
    return owner


def wait_for_another_owner(scenario, than):
    assert wait_until(lambda: processes_of_run(scenario)[0] not in {than, None})


def last_owner(scenario):
    """Return the pid of the last process that took the run."""
    events = [json.loads(row[0]) for row in scenario.stored("SELECT body FROM event ORDER BY seq")]
    return [each["pid"] for each in events if each["type"] == "run_claimed"][-1]


def wait_for_work(scenario):
    """Wait until a worker has begun; its command may be over before all processes are looked through."""
    assert wait_until(lambda: scenario.stored("SELECT id FROM attempt WHERE status = 'claimed'"))


def expect_the_end(scenario, actions=ACTIONS):
    """Follow the run to its end; check that each action landed exactly once."""
    followed = scenario.scaffold("attach", code=0)
    status = scenario.status()
    assert status["run"]["status"] == "completed"
    for each in status["actions"]:
        assert [attempt["phase"] for attempt in each["attempts"]].count("recorded") == 1, "landed once, no more"
    assert sorted(scenario.landed_keys()) == sorted(f"step{n}" for n in range(actions))
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    return followed.stdout


@pytest.mark.slow
def test_a_killed_owner_is_replaced_and_who_watches_sees_it_through(scenario):
    """SC-16, AL-27, BX-15, BX-17: `--detach`, SIGKILL, `attach`; nothing is landed twice."""
    started(scenario, actions=2)
    wait_for_work(scenario)
    killed = kill_owner(scenario)
    shown = expect_the_end(scenario, actions=2)
    assert f"died (signal 9); process {last_owner(scenario)} continues it" in shown
    assert killed != last_owner(scenario)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_owner_killed_twenty_times_lands_everything_exactly_once(scenario):
    """SC-16, AL-27, BX-2, BX-8, BX-15, BX-17: at random moments, whatever it does then."""
    dice = random.Random(0)
    before = scenario.checkout()
    started(scenario, actions=60, width=1)
    kills = landed = 0
    while kills < 20:
        if kills % 3 == 0:  # on a busy machine: a run whose owners die too often without progress pauses
            assert wait_until(lambda more=landed: len(scenario.landed_keys()) > more, COMMAND_S)
            landed = len(scenario.landed_keys())
        time.sleep(dice.uniform(0.0, 2.0))
        run = scenario.status()["run"]
        assert run["status"] == "active", f"it ended before it was killed often enough: {run}"
        killed = kill_owner(scenario)
        if killed is not None:
            kills += 1
            wait_for_another_owner(scenario, than=killed)
    assert wait_until(lambda: not scenario.processes(), COMMAND_S)
    expect_the_end(scenario, actions=60)
    assert scenario.checkout() == before


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_persisted_transition_of_a_detached_run_does_not_change_the_outcome(tmp_path, share):
    """BX-15, BX-2, BX-8, AL-27: of the command that starts it, and of the owner, from its first change to its last."""

    def trial(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        scenario = Scenario(folder)
        point = CrashPoint(scenario, number, CRASH_DISTINCT="after")
        with point.armed():
            code = begun(scenario, actions=1).returncode
        if code != 0:  # the command that starts the run was killed, or saw the owner die before it had the run
            scenario.run("--yes", code=0)
        expect_the_end(scenario, actions=1)
        scenario.wait_for_end()
        return point.passed()

    try_every_point(share, trial)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "status"), [("stop", "paused"), ("cancel", "cancelled")])
def test_a_run_that_is_halted_between_two_owners_stays_so(scenario, command, status):
    """SC-17, OR-10: while nobody executes it, `stop` and `cancel` act at once, and no owner is started after them."""
    started(scenario)
    wait_for_work(scenario)
    _, restarter = processes_of_run(scenario)
    os.kill(restarter, signal.SIGSTOP)
    kill_owner(scenario)
    assert scenario.status()["run"]["status"] == "active", "it is about to be started again"
    scenario.scaffold(command, code=0)
    os.kill(restarter, signal.SIGCONT)
    assert wait_until(lambda: not scenario.processes(), COMMAND_S)
    assert scenario.status()["run"]["status"] == status


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_owner_that_is_asked_to_end_is_not_replaced(scenario, number):
    """AL-27: it stops cleanly, and `resume` continues."""
    started(scenario)
    wait_for_work(scenario)
    kill_owner(scenario, number)
    assert wait_until(lambda: not scenario.processes(), COMMAND_S)
    assert scenario.status()["run"]["status"] == "paused"
    scenario.scaffold("resume", code=0)
    expect_the_end(scenario)


@pytest.mark.slow
def test_a_user_who_resumes_meanwhile_keeps_the_run(scenario):
    """OR-8, BX-17: the process that the restarter starts finds another owner, and leaves."""
    started(scenario)
    wait_for_work(scenario)
    _, restarter = processes_of_run(scenario)
    os.kill(restarter, signal.SIGSTOP)
    killed = kill_owner(scenario)
    resumed = scenario.start(scenario.command("resume", scenario.status()["run"]["id"]))
    wait_for_another_owner(scenario, than=killed)
    os.kill(restarter, signal.SIGCONT)
    assert resumed.wait(COMMAND_S) == 0
    expect_the_end(scenario)
    assert last_owner(scenario) == resumed.pid


@pytest.mark.slow
def test_without_its_restarter_a_run_goes_on_and_can_be_resumed(scenario):
    """AL-27, BX-17: first the restarter is killed, then the owner."""
    started(scenario)
    wait_for_work(scenario)
    owner, restarter = processes_of_run(scenario)
    os.kill(restarter, signal.SIGKILL)
    assert wait_until(lambda: restarter not in scenario.processes())
    assert owner in scenario.processes()
    kill_owner(scenario)
    assert wait_until(lambda: not scenario.processes(), COMMAND_S)
    assert scenario.status()["run"]["status"] == "interrupted"
    watched = scenario.scaffold("attach", code=1)
    assert "scaffold resume" in watched.stderr
    scenario.scaffold("resume", "--detach", code=0)
    expect_the_end(scenario)
