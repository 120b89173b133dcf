"""Faults of the machine while the real command works: git that fails, objects that are collected, a database away."""

import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest

from support.crash_points import CrashPoint
from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until, write

KEYS = ("one", "two", "three", "four", "five", "six")

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(scenario):
    scenario.plan(plan_of(g=[action(key, effects=[key], check=f"test -f {key}.txt") for key in KEYS]))
    scenario.cassette(**{key: [shell("sleep 1"), write(f"{key}.txt", "x\n")] for key in KEYS})
    return scenario


@contextmanager
def meanwhile(trouble):
    """Call `trouble` again and again, until the block ends."""
    over = threading.Event()

    def repeat():
        while not over.is_set():
            trouble()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def blamed(scenario):
    """Return the outcomes that say that work was bad, with why."""
    ended = set(scenario.stored("SELECT outcome, error FROM attempt WHERE outcome IS NOT NULL"))
    return {(outcome, why) for outcome, why in ended if outcome not in {"landed", "lost", "cancelled"}}


def outcomes(scenario):
    return [outcome for (outcome,) in scenario.stored("SELECT outcome FROM attempt")]


def test_git_that_fails_for_seconds_costs_only_time(scenario, tmp_path):
    """AL-27, BX-23: the step is repeated, and no attempt fails by it."""
    programs, fails = tmp_path / "bin", tmp_path / "fails"
    programs.mkdir()
    real = shutil.which("git")
    fault = f'[ -e {fails} ] && {{ echo "fatal: unable to read tree: Input/output error" >&2; exit 128; }}'
    (programs / "git").write_text(f'#!/bin/sh\n{fault}\nexec {real} "$@"\n')
    (programs / "git").chmod(0o755)
    scenario.environ["PATH"] = os.pathsep.join([str(programs), scenario.environ["PATH"]])

    def trouble():
        time.sleep(3)
        fails.touch()
        time.sleep(1.5)
        fails.unlink()

    running = scenario.start(scenario.run_command("--yes", "--agents", "2"))
    with meanwhile(trouble):
        assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert (outcomes(scenario).count("landed"), blamed(scenario)) == (6, set())


def test_worktrees_that_are_removed_cost_only_time(scenario):
    """AL-27, BX-23: their attempts are lost, whatever their agents and checks then made of it."""
    begin = {key: shell(f"touch begun-{key}; sleep 1") for key in KEYS}
    scenario.cassette(**{key: [begin[key], write(f"{key}.txt", "x\n")] for key in KEYS})
    running = scenario.start(scenario.run_command("--yes", "--agents", "2"))
    # Three losses in a row for one reason would be the end of an action.
    for _ in range(2):
        assert wait_until(lambda: next(scenario.cache.glob("runs/*/*/attempts/*/begun-*"), None))
        for worktree in scenario.cache.glob("runs/*/*/attempts/*"):
            shutil.rmtree(worktree, ignore_errors=True)
    assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert (outcomes(scenario).count("landed"), blamed(scenario)) == (6, set())
    assert "lost" in outcomes(scenario)


@pytest.mark.parametrize(
    ("at", "number"),
    [
        ("KeptWork.keep", 2),
        ("KeptWork.keep", 14),
        ("commit_work", 2),
        ("AttemptRecords.enter for scaffold.worker.change_loop.ChangeLoop._evaluate_turn", 2),
    ],
)
def test_a_worktree_that_is_removed_at_any_moment_is_blamed_on_nobody(scenario, at, number):
    """AL-27: its agent starts over, and no file that went with it is deleted as its work."""
    scenario.plan(plan_of(g=[action("one", effects=["one"], check="test -f one.txt")]))
    scenario.cassette(one=[shell("true"), write("one.txt", "x\n")])
    point = CrashPoint(scenario, number, CRASH_CALLER=at, CRASH_REMOVE=scenario.cache)
    with point.armed():
        assert scenario.call(scenario.run_command("--yes")).returncode == 0, scenario.said()
    assert len(point.passed()) >= number, "the point was never passed"
    assert (blamed(scenario), outcomes(scenario)) == (set(), ["lost", "landed"])
    branch = scenario.status()["run"]["session_branch"]
    assert scenario.git("ls-tree", "--name-only", branch).split() == ["README.md", "one.txt"]


def test_a_cache_folder_that_is_removed_costs_only_time(scenario):
    """AL-27, BX-23."""
    running = scenario.start(scenario.run_command("--yes", "--agents", "2"))
    wait_until(lambda: next(scenario.cache.glob("runs/*/*/attempts/*/README.md"), None))
    shutil.rmtree(scenario.cache, ignore_errors=True)
    assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert (outcomes(scenario).count("landed"), blamed(scenario)) == (6, set())


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, which a test may fill."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("only root can mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_costs_only_time(small_disk):
    """AL-27, BX-23: workers cannot even write why they end, and the database has no room either."""
    scenario = Scenario(small_disk)
    scenario.call(scenario.command("config", "keep.free_mb", "1"))  # the disk is smaller than what stays free
    scenario.plan(plan_of(g=[action(key, effects=[key], check=f"test -f {key}.txt") for key in KEYS]))
    scenario.cassette(**{key: [shell("sleep 2"), write(f"{key}.txt", "x\n")] for key in KEYS})
    running = scenario.start(scenario.run_command("--yes", "--agents", "2"))
    assert wait_until(lambda: next(scenario.cache.glob("runs/*/*/attempts/*/README.md"), None))
    with suppress(OSError), (small_disk / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65_536)
    time.sleep(8)
    (small_disk / "filling").unlink()
    assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert (outcomes(scenario).count("landed"), blamed(scenario)) == (6, set())
    scenario.wait_for_end()


def test_objects_collected_in_the_middle_cost_nothing(scenario):
    """AL-27, BX-10: `git gc --prune=now` by the user, all the time."""
    running = scenario.start(scenario.run_command("--yes", "--agents", "3"))
    with meanwhile(lambda: scenario.call(["git", "gc", "--quiet", "--prune=now"])):
        assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert (outcomes(scenario).count("landed"), blamed(scenario)) == (6, set())
    assert scenario.git("fsck", "--no-dangling") == ""


@pytest.mark.postgres
def test_a_database_that_restarts_costs_only_time(scenario, postgres_url):
    """AL-27, BX-23: every connection is lost, again and again."""
    scenario.environ["SCAFFOLD_DATABASE_URL"] = postgres_url

    def trouble():
        time.sleep(2)
        with psycopg.connect(postgres_url, autocommit=True) as database:
            query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'scaffold'"
            database.execute(query)

    running = scenario.start(scenario.run_command("--yes", "--agents", "2"))
    with meanwhile(trouble):
        assert running.wait(timeout=COMMAND_S) == 0, scenario.said()
    assert [each["status"] for each in scenario.status()["actions"]] == ["completed"] * 6
    assert {len(each["attempts"]) for each in scenario.status()["actions"]} <= {1, 2, 3}
