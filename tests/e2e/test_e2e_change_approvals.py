"""A human approves each change before it lands: by the real command, with rejection, rework, expiry and kills."""

import json
import os
import signal

import pytest
from inline_snapshot import snapshot

from support.crash_points import CrashPoint
from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write
from support.terminal import ENTER, Screen, reply

pytestmark = pytest.mark.slow
ARCHITECT = ("--tier", "architect", "--yes")
WAITS = 3
LINES = [f"line_{number} = {number}" for number in range(40)]


@pytest.fixture
def scenario(scenario):
    scenario.configure(
        inbox={"wait_s": 0.1}, reviewer={"model": "off"}, tiers={"architect": {"threshold": 0}}, collisions="off"
    )
    return scenario


def file_with(**changed):
    lines = [changed.get(line.partition(" ")[0], line) for line in LINES]
    return "\n".join(lines) + "\n"


def two_that_change_one_file(scenario):
    (scenario.repo / "app.py").write_text(file_with())
    scenario.commit("forty lines")
    check = "python -m py_compile app.py"
    scenario.plan(
        plan_of(
            g=[
                action("first", effects=["first_there"], check=check, files=["app.py"]),
                action("last", effects=["last_there"], check=check, files=["app.py"]),
            ]
        )
    )
    scenario.cassette(
        first=[write("app.py", file_with(line_0="line_0 = 'first'"))],
        last=[write("app.py", file_with(line_39="line_39 = 'last'"))],
    )


def test_a_rejected_change_is_reworked_and_lands_once_it_is_approved(scenario):
    """AL-22: headless it waits with exit 3; the agent gets the words and its own files; nothing else lands."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    scenario.replies(
        {"when": {"action": "a", "attempt": 2, "turn": 1, "contains": "(?s)call it two.*Rework the change"}}
        | {"tool_calls": [write("b.py", "two = 2\n")]},
        {"when": {"action": "a", "attempt": 1, "turn": 1}, "tool_calls": [write("a.py", "one = 1\n")]},
        {"when": {"action": "a"}, "text": "done"},
    )
    scenario.run(*ARCHITECT, "--yolo", code=WAITS)
    (item,) = scenario.inbox()
    assert item["text"] == snapshot("a is ready to land: 1 file, 1 changed line")
    assert "+one = 1" in item["change"]["diff"]
    assert [each["name"] for each in item["change"]["checks"]] == ["test -s a.py"]
    shown = scenario.scaffold("inbox").stdout
    assert "+one = 1" in shown
    assert f"scaffold approve {item['id']}" in shown
    scenario.scaffold("reject", item["id"], "--why", "call it two", code=0)
    scenario.scaffold("resume", code=WAITS)
    assert scenario.outcomes("a") == ["rejected", None]
    (again,) = scenario.inbox()
    assert again["id"] != item["id"]
    assert {"+one = 1", "+two = 2"} <= {*again["change"]["diff"].splitlines()}
    late = scenario.scaffold("approve", item["id"])
    assert (late.returncode, "already rejected" in late.stderr) == (1, True)
    scenario.scaffold("approve", again["id"], "--why", "good", code=0)
    scenario.scaffold("resume", code=0)
    assert scenario.outcomes("a") == ["rejected", "landed"]
    (goal,) = scenario.status()["goals"]
    humans = [each["detail"] for each in goal["facts"][0]["evidence"] if each["kind"] == "human"]
    assert [detail.partition("\n")[0] for detail in humans] == [f"approved as {again['id']}: good"]
    assert scenario.git("for-each-ref", "refs/scaffold/review/") == ""


def test_words_of_a_rejection_outlive_a_failed_rework_and_a_kill(scenario):
    """AL-22, BX-15: each later attempt has them and the files, and nobody is asked about the same change again."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    same = [write("a.py", "one = 1\n")]
    told = "(?s)call it two.*Rework the change"
    scenario.replies(
        {"when": {"action": "a", "attempt": 2, "turn": 1, "contains": told}, "tool_calls": same},
        {"when": {"action": "a", "attempt": 3, "turn": 1, "contains": told}, "text": "", "fault": {"kind": "hang"}},
        {
            "when": {"action": "a", "attempt": 4, "turn": 1, "contains": told},
            "tool_calls": [write("b.py", "two = 2\n")],
        },
        {"when": {"action": "a", "attempt": 1, "turn": 1}, "tool_calls": same},
        {"when": {"action": "a"}, "text": "done"},
    )
    scenario.run(*ARCHITECT, "--yolo", code=WAITS)
    (item,) = scenario.inbox()
    scenario.scaffold("reject", item["id"], "--why", "call it two", code=0)
    owner = scenario.start(scenario.command("resume"))
    assert wait_until(lambda: len(scenario.outcomes("a")) == 3 and _agent_pids(scenario)), scenario.said()
    for pid in _agent_pids(scenario):
        os.kill(pid, signal.SIGKILL)
    assert owner.wait(COMMAND_S) == WAITS, scenario.said()
    assert scenario.outcomes("a") == ["rejected", "contract_failed", "lost", None]
    (again,) = scenario.inbox()
    assert {"+one = 1", "+two = 2"} <= {*again["change"]["diff"].splitlines()}


def _agent_pids(scenario):
    rows = json.loads(scenario.scaffold("agents", "--json").stdout)["agents"]
    return [row["pid"] for row in rows if row["attempt"] == 3 and row["pid"]]


def test_the_same_change_made_anew_is_refused_without_asking(scenario):
    """AL-22: also by an attempt that started over."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    scenario.replies(
        {"when": {"action": "a", "attempt": 2, "turn": 1}, "tool_calls": [shell("rm a.py; echo two > b.py")]},
        {"when": {"action": "a", "attempt": 2, "turn": 2}, "tool_calls": [shell("rm b.py; echo 'one = 1' > a.py")]},
        {"when": {"action": "a", "turn": 1}, "tool_calls": [write("a.py", "one = 1\n")]},
        {"when": {"action": "a"}, "text": "done"},
    )
    scenario.run(*ARCHITECT, "--yolo", code=WAITS)
    (item,) = scenario.inbox()
    scenario.scaffold("reject", item["id"], "--why", "call it two", code=0)
    done = scenario.scaffold("resume", code=1)
    assert scenario.outcomes("a") == ["rejected", *["contract_failed"] * 3]
    assert "it is the same change again: a human rejected the change: call it two" in done.stdout
    assert scenario.inbox() == []
    scenario.scaffold("retry", "a", code=0)
    waits = scenario.scaffold("resume")
    assert waits.returncode == WAITS, waits.stdout + "a human who grants new attempts may want it after all"
    assert len(scenario.inbox()) == 1


def test_an_approval_expires_once_what_would_land_has_changed(scenario):
    """AL-22: both were approved; the first landing changes the file of the other, which is told and asked anew."""
    two_that_change_one_file(scenario)
    scenario.run(*ARCHITECT, code=WAITS)
    items = {each["detail"]["action"]: each["id"] for each in scenario.inbox()}
    scenario.scaffold("approve", *items.values(), code=0)
    waits = scenario.scaffold("resume", code=WAITS)
    (again,) = scenario.inbox()
    key = again["detail"]["action"]
    assert f"Your approval {items[key]} of {key} no longer holds" in waits.stdout
    assert "others have changed the same files meanwhile" in waits.stdout
    shown = scenario.scaffold("diff", key)
    assert ("first" in shown.stdout) != ("last" in shown.stdout), "only its own change is shown"
    scenario.scaffold("approve", again["id"], code=0)
    scenario.scaffold("resume", code=0)
    run = scenario.status()["run"]
    landed = scenario.git("show", f"{run['session_branch']}:app.py")
    assert landed == file_with(line_0="line_0 = 'first'", line_39="line_39 = 'last'")


def test_no_kill_between_answer_and_landing_asks_twice(scenario):
    """AL-22, BX-15: each resume is killed a little later; the approval holds, and the change lands once."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    scenario.cassette(a=[write("a.py", "one = 1\n")])
    scenario.run(*ARCHITECT, code=WAITS)
    (item,) = scenario.inbox()
    scenario.scaffold("approve", item["id"], code=0)
    kills = 0
    for number in (6, 14, 30, 1_000):
        point = CrashPoint(scenario, number)
        with point.armed():
            done = scenario.scaffold("resume")
        assert [(each["id"], each["state"]) for each in scenario.inbox("--all")] == [(item["id"], "approved")]
        if done.returncode == 0:
            break
        kills += 1
    assert kills > 1
    assert scenario.scaffold("resume").returncode in {0, 64}
    assert scenario.outcomes("a") == ["landed"]
    run = scenario.status()["run"]
    assert run["status"] == "completed"
    assert scenario.git("rev-list", "--count", f"main..{run['session_branch']}").strip() == "1"


def test_the_owner_of_the_terminal_decides_there(scenario):
    """AL-22: the diff is shown in the run, and `y` lands it; nothing else is needed."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    scenario.cassette(a=[write("a.py", "one = 1\n")])
    scenario.configure(tiers={"architect": {"threshold": 0}})
    env = {**scenario.environ, "TERM": "xterm-256color"}
    screen = Screen(scenario.run_command(*ARCHITECT), cwd=scenario.repo, env=env, rows=60)
    try:
        reply(screen, "y" + ENTER)
        assert "+one = 1" in screen.text
        assert screen.wait_for_exit() == 0, screen.text
    finally:
        screen.stop()
    assert scenario.outcomes("a") == ["landed"]


def test_a_tier_without_a_human_lands_what_waited_and_says_so_first(scenario):
    """AL-1, AL-2."""
    scenario.plan(plan_of(g=[action("only", effects=["there"], check="test -f new.py")]))
    scenario.cassette(only=[write("new.py", "VALUE = 1\n")])
    scenario.run(*ARCHITECT, code=WAITS)
    resumed = scenario.scaffold("resume", "--tier", "scout", code=0)
    assert "in the tier scout no human reviews the work: what waits for you lands" in resumed.stderr
    assert scenario.outcomes("only")[-1] == "landed"
    assert scenario.inbox() == []
