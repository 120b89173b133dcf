"""The same `run --yes`, started twice at once: one run, which both follow to its end."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write


def planned(scenario, *, check="test -f a", pause="sleep 0.3"):
    scenario.plan(plan_of(shop=[action("a", effects=["done"], check=check)]))
    scenario.cassette(a=[shell(pause), write("a", "1\n")])


def started(scenario, *flags):
    """Start the run and return the process; its output is kept."""
    return subprocess.Popen(
        scenario.run_command("--yes", "--json", *flags),
        cwd=scenario.repo,
        env=scenario.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Wait for a started run; return its exit code, and the run in its last line."""
    out, err = process.communicate(timeout=COMMAND_S)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines, err
    assert lines[-1]["type"] == "result"
    return process.returncode, lines[-1]["run"]


def session_branches(scenario):
    return scenario.git("branch", "--list", "session-*", "--format=%(refname:short)").split()


def expect_one_run(scenario, *processes):
    """Return the exit code of all processes, which must be one run's."""
    codes, ids = zip(*((code, run["id"]) for code, run in map(ended, processes)), strict=True)
    assert len(set(ids)) == 1, "each process followed a run of its own"
    assert len(set(codes)) == 1, codes
    # One that runs in the background may still be about to make it.
    assert wait_until(lambda: session_branches(scenario) == [f"session-{ids[0]}"]), session_branches(scenario)
    return codes[0]


@pytest.mark.slow
def test_a_run_started_twice_at_once_is_one_run(scenario):
    """BX-8, AL-27: the second follows it, and ends with the same code."""
    planned(scenario)
    assert expect_one_run(scenario, started(scenario), started(scenario)) == 0
    assert [len(each["attempts"]) for each in scenario.status()["actions"]] == [1]


@pytest.mark.slow
def test_both_end_with_the_code_of_a_failed_run(scenario):
    planned(scenario, check="false")
    assert expect_one_run(scenario, started(scenario), started(scenario)) == 1


@pytest.mark.slow
def test_a_detached_run_started_twice_is_one_run(scenario):
    planned(scenario)
    assert expect_one_run(scenario, *(started(scenario, "--detach") for _ in range(2))) == 0
    scenario.scaffold("attach", code=0)


@pytest.mark.slow
def test_whoever_follows_continues_a_run_whose_owner_is_killed(scenario):
    """SC-16, AL-27: it would have resumed the interrupted run, had it come later."""
    planned(scenario, pause="sleep 60")
    first = started(scenario)
    assert wait_until(scenario.commands)
    second = started(scenario)
    assert "follows it" in second.stderr.readline()
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    code, run = ended(second)
    assert (code, run["status"]) == (0, "completed")
    assert scenario.status()["run"]["id"] == run["id"]


@pytest.mark.slow
def test_interrupting_the_one_that_follows_leaves_the_run_alone(scenario):
    planned(scenario, pause="until [ -e go ]; do sleep 0.1; done; rm go")
    first = started(scenario)
    assert wait_until(scenario.commands)
    second = started(scenario)
    assert "follows it" in second.stderr.readline()
    assert wait_until(second.stdout.readline)
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=COMMAND_S)
    assert second.returncode == 130
    assert "the run continues" in err
    Path(scenario.scaffold("path", "a", code=0).stdout.strip(), "go").touch()
    assert ended(first)[0] == 0
