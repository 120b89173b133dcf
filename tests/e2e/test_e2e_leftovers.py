"""What a run leaves in the file system when its processes are killed at any moment: nothing that only they needed."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess

import pytest

from support.documents import named_refs
from support.scenario import COMMAND_S, PATIENCE_S, action, plan_of, shell, wait_until, write

ACTIONS = 8
KEPT = re.compile(
    r"""
    home/scaffold(/cache(/runs/?[^/]*|/t|/sandbox\.json|/slots(/0\.lock)?)?)?  # folders, and what all runs share
    | home/scaffold/data(/state\.key)?                                         # what signs the user's states
    | home/scaffold/cache/runs/[^/]+/[^/]+(/logs(/[^/]+\.txt)?)?               # what a process printed
    | repo/\.git/(logs|objects|refs)/.*                                        # commits, branches, pinned work
    | repo/\.git/scaffold(/state\.db(-wal|-shm)?|/worktree\.lock|/ignored(/[^.][^/]*)*)?
    | repo/\.git/(packed-refs|worktrees)
    | repo/\.scaffold(/\.gitignore|/(baselines|contracts|failures|logs|reports|restarts)(/[^.][^/]*)*)?
    """,
    re.VERBOSE,
)
"""Paths that stay after a run; everything else is a leftover."""


@pytest.fixture
def scenario(scenario, tmp_path):
    (tmp_path / "tmp").mkdir()
    scenario.environ["TMPDIR"] = str(tmp_path / "tmp")
    return scenario


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def expect_nothing_left(folder, before):
    left = sorted(path for path in files_of(folder) - before if not KEPT.fullmatch(path))
    assert left == []
    logs = [path for path in folder.glob("home/scaffold/cache/runs/*/*/logs/*.txt") if path.stat().st_size == 0]
    assert logs == []
    # Refs that users see with `git log --all`: the guide says what each is.
    found = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname)"], cwd=folder / "repo", capture_output=True, text=True, check=True
    )
    named = named_refs()
    assert [ref for ref in found.stdout.split() if not any(each.fullmatch(ref) for each in named)] == [], named


def planned(scenario, actions):
    steps = [
        action(
            f"step{n}",
            needs=[f"done{n - 3}"] if n > 2 else [],
            effects=[f"done{n}"],
            check=f"sleep 0.1; echo x > $TMPDIR/checked; test -f f{n}",
        )
        for n in range(actions)
    ]
    scenario.plan(plan_of(chain=steps))
    scenario.cassette(
        **{f"step{n}": [shell("echo x > $TMPDIR/mine; sleep 0.3"), write(f"f{n}", f"{n}\n")] for n in range(actions)}
    )


@pytest.mark.slow
def test_a_killed_worker_leaves_nothing(scenario, tmp_path):
    """AL-15, BX-17: neither its temporary folder nor its worktree."""
    planned(scenario, 1)
    before = files_of(tmp_path)
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    (worker,) = workers(scenario)
    os.kill(worker, signal.SIGKILL)
    assert running.wait(COMMAND_S) == 0
    assert len(scenario.status()["actions"][0]["attempts"]) == 2
    expect_nothing_left(tmp_path, before)


def workers(scenario):
    """Return the pids of the processes that are named in the open attempts."""
    found = scenario.stored("SELECT worker FROM attempt WHERE status = 'claimed'")
    return [json.loads(row[0])["pid"] for row in found]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_stays_of_a_run_whose_processes_are_killed_at_random(scenario, tmp_path, seed):
    """AL-15, BX-15, BX-17: owner, supervisors, workers, checks and the processes around them."""
    dice = random.Random(seed)
    planned(scenario, ACTIONS)
    before = files_of(tmp_path)
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    kills = 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if running.wait(dice.uniform(0.2, 1.2) if kills < 25 else PATIENCE_S) == 0:
                break
            assert wait_until(lambda: not scenario.processes())
            if scenario.status()["run"]["status"] == "completed":  # killed when only its own folders were left
                scenario.scaffold("cleanup", code=0)
                break
            running = scenario.start(scenario.command("resume"))
            continue
        alive = scenario.processes()
        with contextlib.suppress(ProcessLookupError):
            if alive:
                os.kill(dice.choice(alive), signal.SIGKILL)
                kills += 1
    assert {each["status"] for each in scenario.status()["actions"]} == {"completed"}
    expect_nothing_left(tmp_path, before)
