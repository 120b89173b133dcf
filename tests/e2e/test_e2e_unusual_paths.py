"""Whole runs with unusual names and folders."""

import os
import stat

import pytest

from support.scenario import Scenario, action, plan_of, write


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    made.plan(plan_of(g=[action("a", effects=["x"], check="test -f a")]))
    made.cassette(a=[write("a", "a")])
    return made


@pytest.mark.slow
def test_without_projections_in_the_checkout_journals_are_beside_the_state(scenario):
    """The run continues without `.scaffold/`, says so, and `logs` still shows the journals."""
    (scenario.repo / ".scaffold").write_text("mine")
    done = scenario.run("--yes", code=0)
    assert "the run continues without it" in done.stderr
    assert "done with a" in scenario.scaffold("logs", "a").stdout
    assert (scenario.repo / ".git/scaffold/logs/g/a.jsonl").is_file()
    assert (scenario.repo / ".scaffold").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "logs", "logs/g", "logs/g/a.jsonl", "contracts/a.json", ".gitignore"])
@pytest.mark.slow
def test_no_link_of_a_repository_leads_a_runs_files_elsewhere(scenario, name):
    """BX-9: it says which, goes on without it, shows the journals nevertheless, and deletes nothing there."""
    outside = scenario.repo.parent / "outside"
    (outside / "logs/g").mkdir(parents=True)
    for each in ("mine.jsonl", "logs/g/a.jsonl", "logs/g/old.jsonl"):
        (outside / each).write_text("mine")
        os.utime(outside / each, (0, 0))
    link = scenario.repo / ".scaffold" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "mine.jsonl" if link.suffix or name == ".gitignore" else outside)
    done = scenario.run("--yes", code=0)
    assert f"{link} is not used (a symbolic link); the run continues without it" in done.stderr
    assert "done with a" in scenario.scaffold("logs", "a").stdout
    scenario.scaffold("open")
    scenario.scaffold("cleanup")
    scenario.scaffold("purge", "--yes")
    files = {str(path.relative_to(outside)): path.read_text() for path in outside.rglob("*") if path.is_file()}
    assert files == dict.fromkeys(("mine.jsonl", "logs/g/a.jsonl", "logs/g/old.jsonl"), "mine")
    assert link.is_symlink()


@pytest.mark.slow
def test_a_run_can_start_while_a_sandbox_seals_the_projections_folder(scenario):
    """BX-9: it says so, and does its work."""
    os.mknod(scenario.repo / ".scaffold", stat.S_IFSOCK)
    done = scenario.run("--yes", code=0)
    assert "a command in a sandbox is using it" in done.stderr


@pytest.mark.slow
def test_a_repository_may_have_the_longest_possible_name(scenario):
    renamed = scenario.repo.with_name("r" * 255)
    scenario.repo.rename(renamed)
    scenario.repo = renamed
    scenario.run("--yes", code=0)
    assert scenario.landed_keys() == ["a"]
