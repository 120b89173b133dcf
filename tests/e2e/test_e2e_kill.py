"""Kills at any moment, and restarts: the same outcome, nothing twice, nothing lost, no process left."""

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from scaffold.host.process.zygote_client import can_fork
from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write


def busy_plan(scenario):
    """Return eight actions, three of which change the same line, each busy for a moment."""
    (scenario.repo / "list.txt").write_text("[]\n")
    scenario.commit("a list")
    shared = [action(f"add{n}", effects=[f"added{n}"], check=f"grep -q {n} list.txt") for n in range(3)]
    chain = [
        action(f"step{n}", needs=[f"done{n - 1}"] if n else [], effects=[f"done{n}"], check=f"sleep 0.1; test -f f{n}")
        for n in range(5)
    ]
    scenario.plan(plan_of(shared=shared, chain=chain))
    scenario.cassette(
        **{f"add{n}": [shell(f"sleep 0.3; sed -i 's/]/ {n}]/' list.txt")] for n in range(3)},
        **{f"step{n}": [shell("sleep 0.2 & sleep 0.2"), write(f"f{n}", f"{n}\n")] for n in range(5)},
    )


def expect_the_end(scenario):
    status = scenario.status()
    assert status["run"]["status"] == "completed"
    assert {each["status"] for each in status["actions"]} == {"completed"}
    for each in status["actions"]:
        assert [a["phase"] for a in each["attempts"]].count("recorded") == 1, "landed once, no more"
    run = status["run"]
    assert sorted(scenario.landed_keys()) == sorted(each["key"] for each in status["actions"])
    files = scenario.git("ls-tree", "--name-only", run["session_branch"]).split()
    assert {f"f{n}" for n in range(5)} <= set(files)
    landed = scenario.git("show", f"{run['session_branch']}:list.txt")
    assert sorted(landed.strip("[]\n").split()) == ["0", "1", "2"]
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    scenario.git("fsck", "--connectivity-only")


def killed_at_random(scenario, seed, times, victims):
    """Run to the end, killing what `victims` picks `times` times; return how often it was resumed."""
    dice = random.Random(seed)
    busy_plan(scenario)
    before = scenario.checkout()
    argv = scenario.run_command("--yes")
    resumed = 0
    while True:
        running = scenario.start(argv)
        if times:
            times -= 1
            give_it(dice.uniform(0.1, 1.6), running)
            for pid in victims(scenario, running.pid, dice):
                with contextlib.suppress(ProcessLookupError):  # it may have ended by itself just now
                    os.kill(pid, signal.SIGKILL)
        running.wait(COMMAND_S)
        if running.returncode == 0:
            break
        scenario.wait_for_end()
        resumed += 1
        argv = scenario.run_command("--yes") if dice.random() < 0.5 else scenario.command("resume")
        if not (scenario.repo / ".git" / "scaffold" / "state.db").exists() or scenario.status()["run"] is None:
            argv = scenario.run_command("--yes")
    assert scenario.checkout() == before
    return resumed


def give_it(seconds, process):
    """Wait for `seconds`, or until the process has ended by itself."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def the_owner(scenario, pid, dice):
    return [pid] if pid in scenario.processes() else []


def any_process(scenario, pid, dice):
    alive = scenario.processes()
    return [dice.choice(alive)] if alive else []


def the_zygote(scenario, pid, dice):
    """Return the zygote that forks the workers: it has their name, but is a child of the run."""
    programs = {each: Path(f"/proc/{each}/cmdline").read_bytes() for each in children_of(pid)}
    return [each for each, program in programs.items() if b"zygote" in program]


def children_of(pid):
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


@pytest.mark.slow
@pytest.mark.skipif(not can_fork(), reason="the fork server runs on Linux only")
def test_a_killed_zygote_does_not_stop_the_run(scenario):
    """BX-12, BX-15: living workers continue, the next ones get another zygote."""
    killed = []

    def victims(scenario, pid, dice):
        assert wait_until(scenario.commands)
        killed.extend(map(int, the_zygote(scenario, pid, dice)))
        return killed

    assert killed_at_random(scenario, seed=8, times=1, victims=victims) == 0
    assert len(killed) == 1
    expect_the_end(scenario)


@pytest.mark.slow
def test_an_orchestrator_killed_six_times_has_the_same_outcome(scenario):
    """SC-16, AL-27, BX-2, BX-8, BX-15: crash and resume, nothing twice, nothing lost."""
    killed_at_random(scenario, seed=6, times=6, victims=the_owner)
    expect_the_end(scenario)


@pytest.mark.slow
def test_any_process_may_be_killed(scenario):
    """BX-15, BX-17: owner, worker, reaper or command."""
    killed_at_random(scenario, seed=7, times=6, victims=any_process)
    expect_the_end(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_random_kills_of_random_processes(scenario, seed):
    """BX-15: many seeds."""
    killed_at_random(scenario, seed=seed, times=6, victims=the_owner if seed % 2 else any_process)
    expect_the_end(scenario)


@pytest.mark.slow
def test_the_second_interrupt_ends_everything_at_once(scenario):
    scenario.plan(plan_of(g=[action("long", effects=["x"], check="true")]))
    scenario.cassette(long=[shell("trap '' TERM INT; sleep 50"), write("a", "a")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    assert running.wait(COMMAND_S) == 130
    scenario.wait_for_end()


@pytest.mark.slow
def test_another_terminal_can_stop_a_run_and_cancel_it(scenario):
    """SC-17: stop leaves it resumable; cancel is final, and what landed stays landed."""
    busy_plan(scenario)
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    stopped = scenario.scaffold("stop", code=0)
    assert "paused" in stopped.stdout
    assert running.wait(COMMAND_S) == 130
    scenario.scaffold("cancel", code=0)
    status = scenario.status()
    assert status["run"]["status"] == "cancelled"
    assert {each["status"] for each in status["actions"]} <= {"cancelled", "completed"}
    again = scenario.scaffold("resume", code=64)
    assert "cancelled" in again.stderr


@pytest.mark.slow
def test_two_orchestrators_never_execute_the_same_run(scenario):
    """A run that is being executed keeps its owner and its settings, in the foreground and in the background."""
    scenario.plan(plan_of(g=[action("a", effects=["x"], check="test -f a")]))
    scenario.cassette(a=[shell("until [ -e go ]; do sleep 0.1; done; mv go a")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    name, before = scenario.status()["run"]["id"], scenario.stored("SELECT settings FROM run")
    for more in ((), ("--detach",), ("--agents", "1", "--detach")):
        second = scenario.scaffold("resume", name, *more)
        assert (second.returncode, "is executing run" in second.stderr) == (1, True), second.stderr
    assert scenario.stored("SELECT settings FROM run") == before
    Path(scenario.scaffold("path", "a").stdout.strip(), "go").touch()
    assert running.wait(COMMAND_S) == 0


@pytest.mark.slow
def test_landing_waits_while_the_session_branch_is_checked_out(scenario):
    """AL-12: a branch checked out anywhere is never moved under its user."""
    scenario.plan(plan_of(g=[action("a", effects=["x"], check="true")]))
    scenario.cassette(a=[shell("sleep 1"), write("a", "a")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: "session-" in scenario.git("branch"))
    branch = scenario.status()["run"]["session_branch"]
    elsewhere = scenario.home / "mine"
    scenario.git("worktree", "add", "-q", str(elsewhere), branch)
    assert running.wait(COMMAND_S) == 3
    assert (scenario.status()["run"]["status"], scenario.status()["queue"][0]["action"]) == ("paused", "a")
    scenario.git("worktree", "remove", str(elsewhere))
    scenario.scaffold("resume", code=0)
