"""cleanup, salvage and purge: the real commands, after real runs and real kills."""

import os
import random
import signal
import subprocess

import pytest

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write


def refs(scenario, place="refs/scaffold/"):
    return scenario.git("for-each-ref", "--format=%(refname)", place).split()


def worktrees(scenario):
    return scenario.git("worktree", "list", "--porcelain").count("worktree ") - 1


def everything(scenario):
    """Return every file and ref, except those that git and SQLite write when they are read."""
    folders = (scenario.repo, scenario.home / "scaffold")
    files = {str(path) for folder in folders for path in folder.rglob("*") if not path.name.startswith("state.db-")}
    return sorted(files), scenario.git("for-each-ref"), scenario.status()["run"]


def one_that_fails(scenario):
    """Finish a run in which `good` lands and `bad` does not."""
    scenario.plan(
        plan_of(
            fine=[action("good", effects=["x"], check="test -f good")],
            sad=[action("bad", effects=["y"], check="false")],
        )
    )
    scenario.cassette(good=[write("good", "g\n")], bad=[write("b d", "b\n"), write("b2", "b\n")])
    scenario.run("--yes")


def one_that_is_killed(scenario):
    """Kill a run, and with it its worker, which has written but not committed."""
    scenario.plan(plan_of(g=[action("slow", effects=["x"], check="test -f slow")]))
    scenario.cassette(slow=[write("slow", "s\n"), shell("sleep 50")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: scenario.commands() and [*scenario.cache.glob("runs/*/*/attempts/*/slow")])
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    scenario.wait_for_end()
    assert worktrees(scenario) == 1


@pytest.mark.slow
def test_remains_of_a_killed_run_are_removed_after_its_work_was_pinned(scenario):
    """AL-15, AL-27, BX-3: and the run can still be resumed."""
    one_that_is_killed(scenario)
    before = scenario.checkout(), everything(scenario)
    planned = scenario.json("cleanup", "--dry-run")
    assert (scenario.checkout(), everything(scenario)) == before
    done = scenario.json("cleanup")
    assert [step["kind"] for step in done["steps"]] == ["attempt", "worktree", "folder"]
    assert done["steps"] == planned["steps"]
    assert worktrees(scenario) == 0
    assert not list(scenario.cache.glob("runs/*/*/attempts/*"))
    (ref,) = refs(scenario)
    assert ref.startswith("refs/scaffold/rescue/")
    assert scenario.git("show", f"{ref}:slow") == "s\n"
    assert scenario.status()["run"]["status"] == "interrupted"
    assert scenario.json("cleanup")["steps"] == []
    assert "nothing to clean up" in scenario.scaffold("cleanup").stdout
    assert scenario.checkout() == before[0]


@pytest.mark.slow
def test_cleanup_may_be_killed_at_any_point_and_repeated(scenario):
    """BX-3, BX-15"""
    one_that_is_killed(scenario)
    dice = random.Random(4)
    for _ in range(4):
        running = scenario.start(scenario.command("cleanup"))
        try:
            running.wait(dice.uniform(0.2, 0.7))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    scenario.json("cleanup")
    assert worktrees(scenario) == 0
    (ref,) = refs(scenario)
    assert scenario.git("show", f"{ref}:slow") == "s\n"


@pytest.mark.slow
def test_an_active_run_is_left_alone(scenario):
    """AL-15: by all three commands."""
    scenario.plan(plan_of(g=[action("slow", effects=["x"], check="test -f slow")]))
    scenario.cassette(slow=[shell("sleep 50"), write("slow", "s\n")])
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    (step,) = scenario.json("cleanup")["steps"]
    assert (step["kind"], step["verdict"]) == ("run", "kept")
    assert str(running.pid) in step["why"]
    for flags in (["--yes"], ["--all", "--yes", "--unlanded"], ["--dry-run"]):
        refused = scenario.scaffold("purge", *flags, code=1)
        assert "scaffold stop" in refused.stderr
    scenario.scaffold("stop", code=0)
    assert running.wait(COMMAND_S) == 130


@pytest.mark.slow
def test_remains_of_an_ended_run_are_removed(scenario):
    """AL-12, BX-3: its folder too, and a pinned candidate becomes rescued work."""
    one_that_fails(scenario)
    run = scenario.status()["run"]["id"]
    assert worktrees(scenario) == 0
    # The run removes its own folder; one whose removal was interrupted would still have it.
    folder = next(scenario.cache.glob("runs/*")) / run
    (folder / "attempts").mkdir(parents=True)
    attempts = {each["key"]: each["attempts"][0] for each in scenario.status()["actions"]}
    ids = dict(scenario.stored("SELECT action.key, attempt.id FROM attempt JOIN action ON action.id = action_id"))
    scenario.git("update-ref", f"refs/scaffold/work/{ids['good']}", attempts["good"]["head_sha"])
    scenario.git("update-ref", f"refs/scaffold/work/{ids['bad']}", attempts["bad"]["head_sha"])
    scenario.git("update-ref", "-d", f"refs/scaffold/rescue/{ids['bad']}")
    scenario.git("worktree", "add", "-q", "--detach", str(folder / "attempts" / "spare-x"))
    steps = {step["name"]: step["verdict"] for step in scenario.json("cleanup")["steps"]}
    assert steps[f"refs/scaffold/work/{ids['good']}"] == "removed"
    assert steps[f"refs/scaffold/work/{ids['bad']}"] == "pinned"
    assert steps[str(folder)] == "removed"
    assert steps[str(folder / "attempts" / "spare-x")] == "removed"
    assert f"refs/scaffold/rescue/{ids['bad']}" in refs(scenario)
    assert not refs(scenario, "refs/scaffold/work/")
    assert not folder.exists()
    assert worktrees(scenario) == 0
    assert scenario.status()["run"]["status"] == "failed"


@pytest.mark.slow
def test_unlanded_work_is_listed_and_salvaged(scenario):
    """BX-3"""
    one_that_fails(scenario)
    before = scenario.checkout()
    listed = scenario.json("salvage")["unlanded"]
    assert {each["action"] for each in listed} == {"bad"}
    assert len(listed) == 3, "one for each attempt"
    first = listed[0]
    assert first["files"] == ["b d", "b2"]
    assert first["why"].startswith("contract_failed")
    assert first["run"] == scenario.status()["run"]["id"]
    text = scenario.scaffold("salvage").stdout
    assert first["attempt"] in text
    assert "2 files: b d, b2" in text
    assert scenario.json("salvage", first["attempt"], "--dry-run")["branch"] == f"salvage-{first['attempt']}"
    assert "salvage" not in scenario.git("branch")
    scenario.scaffold("salvage", first["attempt"][:5], code=0)
    assert scenario.git("show", f"salvage-{first['attempt']}:b d") == "b\n"
    assert scenario.scaffold("salvage", first["attempt"]).returncode == 0, "once more changes nothing"
    patch = scenario.scaffold("salvage", first["attempt"], "--patch").stdout
    subprocess.run(["git", "apply", "--check"], cwd=scenario.repo, input=patch, text=True, check=True)
    assert scenario.checkout() == before
    scenario.git("branch", "--force", f"salvage-{first['attempt']}", "main")
    assert "other work" in scenario.scaffold("salvage", first["attempt"]).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["zzz"], "Attempts with pinned work: none"),
        (["--patch"], "`--patch` needs an attempt"),
        (["../x"], "is not an attempt"),
    ],
)
def test_work_that_cannot_be_salvaged_is_reported(scenario, args, words):
    output = scenario.scaffold("salvage", *args, code=64)
    assert words in output.stderr


@pytest.mark.slow
def test_purging_keeps_what_belongs_to_the_user(scenario):
    """BX-3: session branches, unlanded work, and the checkout."""
    one_that_fails(scenario)
    before = scenario.checkout()
    session = scenario.status()["run"]["session_branch"]
    pinned = refs(scenario)
    there = everything(scenario)
    planned = scenario.json("purge", "--dry-run")
    assert everything(scenario) == there
    assert {item["kind"] for item in planned["items"] if item["removed"]} == {"state", "cache"}
    assert all(item["size_bytes"] > 0 for item in planned["items"] if item["kind"] == "state")
    refused = scenario.scaffold("purge", code=64)
    assert "--yes" in refused.stderr
    assert everything(scenario) == there
    done = scenario.json("purge", "--yes")
    assert [item["name"] for item in done["items"] if item["kind"] == "branch"] == [f"refs/heads/{session}"]
    assert not (scenario.repo / ".git" / "scaffold").exists()
    assert not list(scenario.cache.glob("runs/*"))
    assert refs(scenario) == pinned
    assert session in scenario.git("branch")
    assert len(scenario.json("salvage")["unlanded"]) == len(pinned), "what is pinned can be taken without a database"
    assert scenario.json("purge", "--yes", "--unlanded")["removed"]
    assert refs(scenario) == []
    assert scenario.checkout() == before
    assert "nothing to remove" in scenario.scaffold("purge", "--yes").stdout


@pytest.mark.slow
def test_purging_pins_the_work_of_a_killed_run(scenario):
    """BX-3"""
    one_that_is_killed(scenario)
    scenario.json("purge", "--yes")
    assert worktrees(scenario) == 0
    (ref,) = refs(scenario)
    assert scenario.git("show", f"{ref}:slow") == "s\n"


@pytest.mark.slow
def test_purging_everything_spares_the_worktrees_of_other_repositories(scenario):
    """BX-3"""
    one_that_fails(scenario)
    other = scenario.cache / "runs" / "other-1234" / "run1" / "attempts" / "a1"
    other.mkdir(parents=True)
    (other / ".git").write_text("gitdir: /elsewhere\n")
    config = scenario.home / "scaffold" / "config"
    config.mkdir(exist_ok=True)
    (config / "config.yaml").write_text("{}\n")
    items = scenario.json("purge", "--all", "--yes")["items"]
    kept = {item["name"]: item["why"] for item in items if item["kind"] == "user" and not item["removed"]}
    assert list(kept) == [str(scenario.cache)]
    assert "other-1234" in kept[str(scenario.cache)]
    assert (other / ".git").exists()
    assert not config.exists()


@pytest.mark.slow
def test_a_folder_that_is_a_link_is_never_purged(scenario):
    """BX-3"""
    one_that_fails(scenario)
    precious = (scenario.home / "scaffold" / "data").rename(scenario.home / "precious")
    (precious / "x").write_text("mine")
    (scenario.home / "scaffold" / "data").symlink_to(precious)
    scenario.json("purge", "--all", "--yes")
    assert (precious / "x").exists()


@pytest.mark.slow
def test_without_a_run_there_is_nothing_to_clean_up(scenario):
    """And nothing is created."""
    assert scenario.json("cleanup")["steps"] == []
    assert scenario.json("salvage")["unlanded"] == []
    assert scenario.json("purge", "--yes")["items"] == []
    assert not (scenario.repo / ".git" / "scaffold").exists()
