"""The report of a run, by the real command: at each of its ends, killed while it is written, opened at a terminal."""

import json
import signal
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from support.crash_points import CrashPoint
from support.html_page import Page
from support.scenario import action, plan_of, shell, wait_until, write
from support.terminal import Screen


def two_actions(scenario):
    scenario.configure(budget_usd=9)
    scenario.plan(
        plan_of(
            store=[
                action("model", effects=["model_works"], check="echo 1 passed; test -f model.py"),
                action("api", needs=["model_works"], effects=["api_works"], check="grep -q model api.py"),
            ]
        )
    )
    scenario.cassette(cost=1.0, model=[write("model.py", "VALUE = 1\n")], api=[write("api.py", "import model\n")])


def report_of(scenario, run_id=None) -> Path:
    return scenario.repo / ".scaffold" / "reports" / f"{run_id or scenario.status()['run']['id']}.html"


@pytest.mark.slow
def test_a_run_ends_with_a_page_that_shows_its_facts_their_evidence_and_what_to_do(scenario):
    """BX-1, BX-9, SC-19: linked from the report and from `status`; the checkout stays as it was."""
    two_actions(scenario)
    before = scenario.checkout()
    done = scenario.run("--yes", code=0)
    run = scenario.status()["run"]
    hint = f"scaffold open {run['id']} the report as a page: .scaffold/reports/{run['id']}.html".split()
    assert hint in [line.split() for line in done.stdout.splitlines()]
    assert done.stdout.splitlines()[-1] == snapshot("landed 2 actions, 2 facts with evidence")
    assert scenario.scaffold("status").stdout.splitlines()[-1].split() == hint
    page = Page(report_of(scenario).read_text())
    assert page.sections == ["next", "evidence", "review", "plan", "timeline", "cost"]
    tip = scenario.git("rev-parse", run["session_branch"])[:8]
    for part in (f"grep -q model api.py exit 0 at {tip}", "1 passed", "scaffold land"):
        assert part in page.text
    assert f"cassette:{scenario.home}" in page.text
    assert scenario.checkout() == before
    assert scenario.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_the_page_is_written_again_when_a_failed_run_is_retried(scenario):
    """SC-16: and names why it failed, until it no longer does."""
    two_actions(scenario)
    scenario.cassette(model=[write("model.py", "VALUE = 1\n")], api=[write("api.py", "nothing\n")])
    scenario.run("--yes", code=1)
    failed = Page(report_of(scenario).read_text())
    assert "failures" in failed.sections
    assert f"scaffold logs api --run {scenario.status()['run']['id']}" in failed.text
    run_id = scenario.status()["run"]["id"]
    scenario.scaffold("retry")
    scenario.cassette(name="better.yaml", api=[write("api.py", "import model\n")])
    scenario.scaffold("resume", "--model", f"cassette:{scenario.home / 'better.yaml'}")
    again = Page(report_of(scenario, run_id).read_text())
    assert scenario.status()["run"]["status"] == "completed"
    assert ("failures" in again.sections, "setbacks" in again.sections) == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "status"), [("stop", "paused"), ("cancel", "cancelled")])
def test_a_run_that_is_ended_from_another_terminal_has_a_page(scenario, command, status):
    """SC-17: whether its owner lives or was killed."""
    scenario.plan(plan_of(store=[action("model", effects=["model_works"], check="test -f model.py")]))
    scenario.cassette(model=[shell("sleep 60"), write("model.py", "VALUE = 1\n")])
    owner = scenario.start(scenario.run_command("--yes"))
    assert wait_until(scenario.commands)
    if command == "cancel":
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    scenario.scaffold(command, code=0)
    owner.wait()
    assert scenario.status()["run"]["status"] == status
    assert f" {status}" in Page(report_of(scenario).read_text()).text


@pytest.mark.slow
@pytest.mark.parametrize(("number", "is_there"), [(1, False), (2, True)])
def test_a_kill_while_the_page_is_written_leaves_a_whole_page_or_none(scenario, number, is_there):
    """BX-15: the run has ended as it did, and `open` writes the page."""
    two_actions(scenario)
    with CrashPoint(scenario, number, CRASH_FILE="reports").armed():
        killed = scenario.run("--yes")
    assert killed.returncode == -signal.SIGKILL
    run = scenario.status()["run"]
    assert run["status"] == "completed"
    assert report_of(scenario).exists() == is_there
    assert ("scaffold open" in scenario.scaffold("status").stdout) == is_there
    opened = scenario.scaffold("open", "--json")
    assert json.loads(opened.stdout) == {"run": run["id"], "path": str(report_of(scenario))}
    assert "evidence" in Page(report_of(scenario).read_text()).sections
    # What the killed process left goes with the other temporary files of dead processes, at the next run.
    scenario.plan(plan_of(docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")]))
    scenario.cassette(guide=[write("GUIDE.md", "# Guide\n")])
    scenario.run("--yes", code=0)
    assert sorted(each.suffix for each in report_of(scenario).parent.iterdir()) == [".html", ".html"]


@pytest.mark.slow
def test_at_a_terminal_the_page_is_opened_in_the_browser_and_its_path_printed(scenario):
    """SC-19: without one, only the path is printed."""
    two_actions(scenario)
    scenario.run("--yes", code=0)
    seen = scenario.home / "seen"
    browser = scenario.home / "browser"
    browser.write_text(f"#!/bin/sh\necho \"$1\" > '{seen}'\n")
    browser.chmod(0o755)
    for environ in ({"BROWSER": str(browser)}, {}):
        screen = Screen(scenario.command("open"), cwd=scenario.repo, env={**scenario.environ, **environ}, columns=200)
        screen.child.expect_exact(report_of(scenario).name)
        screen.child.expect_exact("no browser was found" if not environ else "\n")
        screen.child.wait()
    assert seen.read_text() == f"{report_of(scenario).as_uri()}\n"
