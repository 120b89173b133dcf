"""Observing and controlling a run from another terminal: real commands, real processes, a recorded model."""

import json
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write

TOLD = "mind the gap"


LONG = 60
GATE = "echo begun > begun; until [ -e go ]; do sleep 0.1; done; rm go begun"
"""A command that goes on until there is a file `go` beside it."""


def long():
    """Return a step that signals its start, and runs longer than any test."""
    return shell(f"echo begun > begun; sleep {LONG}")


def under_way(scenario, *keys):
    """Start the run and wait until the commands of these actions are running."""
    running = scenario.start(scenario.run_command("--yes"))
    assert wait_until(lambda: {action["key"] for action in working(scenario)} >= set(keys)), scenario.status()
    assert wait_until(lambda: len(scenario.commands()) >= len(keys))
    return running


def working(scenario):
    return [each for each in scenario.status()["actions"] if each["status"] == "running"]


def statuses(scenario):
    return {each["key"]: each["status"] for each in scenario.status()["actions"]}


def said(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replies(scenario, *entries):
    (scenario.home / "cassette.yaml").write_text(yaml.safe_dump({"version": 1, "replies": list(entries)}))


def call(step, **when):
    return {"when": when, "tool_calls": [step]}


@pytest.mark.slow
def test_a_message_to_a_running_agent_reaches_it_before_its_next_request(scenario):
    """SC-19: without it the file would differ, and the contract fail."""
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="grep -qx told made.txt")]))
    replies(
        scenario,
        call(write("made.txt", "told\n"), action="make", turn=2, contains=TOLD),
        call(shell(GATE), action="make", turn=1),
        call(write("made.txt", "not told\n"), action="make", turn=2),
        {"when": {"action": "make"}, "text": "done"},
    )
    running = under_way(scenario, "make")
    assert said(scenario.scaffold("send", "make", TOLD)) == snapshot(
        "make#1 reads the message before its next request\n"
    )
    Path(said(scenario.scaffold("path", "make")).strip(), "go").touch()
    assert running.wait(timeout=COMMAND_S) == 0
    assert scenario.git("show", f"{scenario.status()['run']['session_branch']}:made.txt") == "told\n"
    news = [json.loads(line) for line in scenario.journal("g", "make").splitlines() if '"news"' in line]
    assert TOLD in news[0]["text"]


@pytest.mark.slow
def test_a_running_agent_is_shown_with_its_folder_process_and_last_activity(scenario):
    """SC-19, BX-12: agents, path and a frame agree."""
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="true")]))
    scenario.cassette(make=[long()])
    running = under_way(scenario, "make")
    (worker,) = [each for each in json.loads(said(scenario.scaffold("agents", "--json")))["agents"] if each["action"]]
    assert (worker["alive"], worker["agent_state"], worker["phase"]) == (True, "running", "executing")
    assert worker["last_act"]["text"].startswith("shell: echo begun > begun")
    folder = said(scenario.scaffold("path", "make")).strip()
    assert wait_until(lambda: Path(folder, "begun").exists())
    supervisor = scenario.status()["goals"][0]["supervisor"]
    assert (supervisor["alive"], supervisor["turn"]) == (True, None)
    assert said(scenario.scaffold("stop")).startswith("run ")
    assert running.wait(timeout=COMMAND_S) == 130
    scenario.scaffold("path", "make", code=1)
    assert json.loads(said(scenario.scaffold("agents", "--json")))["agents"] == []


@pytest.mark.slow
def test_a_pause_and_a_resume_are_about_the_run_that_is_executed(scenario):
    """SC-17, SC-19: a plan that was only saved, later, is not started instead."""
    plan = plan_of(
        g=[
            action("make", effects=["made"], check="test -s made.txt"),
            action("next", effects=["x"], needs=["made"], check="test -s next.txt"),
        ]
    )
    scenario.plan(plan)
    gate = shell(f"{GATE}; echo x > made.txt")
    scenario.cassette(make=[gate], next=[write("next.txt", "x\n")])
    running = under_way(scenario, "make")
    run = scenario.status()["run"]["id"]
    scenario.plan({**plan, "goals": [{**plan["goals"][0], "description": "another"}]})
    assert scenario.run().returncode == 3, "saved, because nobody agreed to it"
    assert said(scenario.scaffold("pause")).startswith(f"run {run}: pausing, 1 agent is finishing; ")
    assert "pausing, 1 agent is finishing" in said(scenario.scaffold("status"))
    assert said(scenario.scaffold("resume")).startswith(f"run {run} goes on: its pause was withdrawn; ")
    said(scenario.scaffold("pause"))
    Path(said(scenario.scaffold("path", "make")).strip(), "go").touch()
    assert running.wait(timeout=COMMAND_S) == 3
    assert statuses(scenario) == {"make": "completed", "next": "pending"}
    scenario.scaffold("resume", code=0)
    assert (scenario.status()["run"]["id"], scenario.status()["run"]["status"]) == (run, "completed")


@pytest.mark.slow
def test_one_action_is_stopped_and_the_rest_of_the_run_lands(scenario):
    """SC-17: its command, its worker and its folder are gone; its work is pinned, the other goal lands."""
    scenario.plan(
        plan_of(
            g=[action("long", effects=["a"], check="true")],
            h=[action("quick", effects=["b"], check="test -s quick.txt")],
        )
    )
    scenario.cassette(long=[long()], quick=[write("quick.txt", "x\n")])
    running = under_way(scenario, "long")
    assert said(scenario.scaffold("stop", "long")).startswith("action long is cancelled; ")
    assert running.wait(timeout=COMMAND_S) == 1, "the goal cannot be reached without it"
    assert statuses(scenario) == {"long": "cancelled", "quick": "completed"}
    (attempt,) = scenario.status()["actions"][0]["attempts"]
    assert (attempt["outcome"], attempt["error"]) == snapshot(("cancelled", "cancelled by the user"))
    assert scenario.git("show", f"refs/scaffold/rescue/{attempt['id']}:begun") == "begun\n"


@pytest.mark.slow
def test_a_goal_is_cancelled_and_the_run_completes_with_the_others(scenario):
    """SC-17: TERM, 100 ms, KILL for its workers; none of their processes is left."""
    scenario.plan(
        plan_of(
            g=[action("long", effects=["a"], check="true")],
            h=[action("quick", effects=["b"], check="test -s quick.txt")],
        )
    )
    scenario.cassette(long=[long()], quick=[write("quick.txt", "x\n")])
    running = under_way(scenario, "long")
    assert said(scenario.scaffold("cancel", "g")).startswith("goal g is cancelled; ")
    assert running.wait(timeout=COMMAND_S) == 0
    assert scenario.status()["run"]["status"] == "completed"
    assert [goal["status"] for goal in scenario.status()["goals"]] == ["cancelled", "completed"]


@pytest.mark.slow
def test_a_stopped_goal_stays_stopped_on_resume_and_lands_once_it_is_resumed(scenario):
    """SC-17, SC-16: the stop is durable, whichever process owns the run."""
    scenario.plan(
        plan_of(
            g=[action("late", effects=["a"], check="test -s late.txt")],
            h=[action("quick", effects=["b"], check="test -s quick.txt")],
        )
    )
    replies(
        scenario,
        call(long(), action="late", turn=1),
        call(write("late.txt", "x\n"), action="late", turn=2),
        call(write("quick.txt", "x\n"), action="quick", turn=1),
        {"when": {}, "text": "done"},
    )
    running = under_way(scenario, "late")
    assert said(scenario.scaffold("stop", "g")).startswith("goal g is paused: set aside by the user; ")
    assert running.wait(timeout=COMMAND_S) == 3
    assert statuses(scenario) == {"late": "pending", "quick": "completed"}
    assert scenario.scaffold("resume").returncode == 3, "it is still set aside"
    assert said(scenario.scaffold("resume", "g")).splitlines()[0].startswith("goal g is ")
    assert statuses(scenario) == {"late": "completed", "quick": "completed"}


@pytest.mark.slow
def test_notify_tells_the_users_command_how_the_run_ended_and_a_project_cannot_set_one(scenario):
    """BX-17, RA-13, SC-19: the command is the user's alone; that it fails at the end is reported, too."""
    folder = scenario.home / "scaffold" / "config"
    folder.mkdir(parents=True)
    folder.joinpath("config.yaml").write_text(f"notify: cat >> {scenario.home}/told; exit 7\n")
    (scenario.repo / ".scaffold.yaml").write_text(f"notify: touch {scenario.home}/owned\n")
    scenario.commit("ours")
    scenario.scaffold("trust", "--yes")
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(make=[write("made.txt", "x\n")])
    done = scenario.run("--yes", code=0)
    assert "`notify` command failed: exit code 7" in done.stdout
    data = json.loads((scenario.home / "told").read_text())
    assert (data["event"], data["run"]) == ("done", scenario.status()["run"]["id"])
    assert data["link"] == f"scaffold review {data['run']}"
    assert not (scenario.home / "owned").exists()


@pytest.mark.slow
def test_notify_reports_failed_planning(scenario):
    """SC-19: a run that fails before it began has failed, too."""
    folder = scenario.home / "scaffold" / "config"
    folder.mkdir(parents=True)
    folder.joinpath("config.yaml").write_text(f"notify: cat >> {scenario.home}/told\n")
    scenario.replies({"when": {"role": "planner"}, "text": "I would rather not."})
    scenario.request("build a shop", "--yes", code=4)
    data = json.loads((scenario.home / "told").read_text())
    assert (data["event"], "the plan was rejected" in data["text"]) == ("failed", True)


@pytest.mark.slow
def test_an_interrupted_run_is_mentioned_when_another_one_starts(scenario):
    """AL-27: with the commands that resume or end it; not once it has ended."""
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(make=[long()])
    running = under_way(scenario, "make")
    running.kill()
    running.wait()
    scenario.wait_for_end()
    left = scenario.status()["run"]["id"]
    scenario.cassette(name="other.yaml", make=[write("made.txt", "x\n")])
    other = ("run", "--plan", str(scenario.home / "plan.yaml"), "--model", f"cassette:{scenario.home}/other.yaml")
    output = scenario.scaffold(*other).stderr
    assert f"`scaffold resume {left}`, or end it with `scaffold cancel {left}`" in output
    scenario.scaffold("cancel", left, code=0)
    assert "was interrupted" not in scenario.scaffold(*other).stderr
