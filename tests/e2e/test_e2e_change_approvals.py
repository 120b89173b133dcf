"""A human approves each change before it lands: by the real command, with rejection, rework, expiry and kills."""

import json

import pytest

from support.scenario import Scenario, action, plan_of, wait_until, write

pytestmark = pytest.mark.slow
ARCHITECT = ("--tier", "architect", "--yes")
WAITS = 3
LINES = [f"line_{number} = {number}" for number in range(40)]


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    made.configure(reviewer={"model": "off"}, tiers={"architect": {"threshold": 0}})
    yield made
    assert wait_until(lambda: made.processes() == [], 20), "a process was left behind"


def inbox(scenario, *flags):
    return json.loads(scenario.scaffold("inbox", "--json", *flags).stdout)["inbox"]


def file_with(**changed):
    lines = [changed.get(line.partition(" ")[0], line) for line in LINES]
    return "\n".join(lines) + "\n"


def attempts(scenario, key):
    (found,) = [each for each in scenario.status()["actions"] if each["key"] == key]
    return [each["outcome"] for each in found["attempts"]]


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
    """AL-22, SC-13: headless it waits with exit 3; the agent gets the words and its own files; nothing else lands."""
    scenario.plan(plan_of(g=[action("a", effects=["a_there"], check="test -s a.py")]))
    scenario.replies(
        {"when": {"action": "a", "attempt": 2, "turn": 1, "contains": "(?s)call it two.*Rework the change"}}
        | {"tool_calls": [write("b.py", "two = 2\n")]},
        {"when": {"action": "a", "attempt": 1, "turn": 1}, "tool_calls": [write("a.py", "one = 1\n")]},
        {"when": {"action": "a"}, "text": "done"},
    )
    waits = scenario.run(*ARCHITECT, "--yolo")
    assert waits.returncode == WAITS, waits.stdout + waits.stderr
    (item,) = inbox(scenario)
    assert item["text"] == "a is ready to land: 1 file, 1 changed line"
    assert "+one = 1" in item["change"]["diff"]
    assert [each["name"] for each in item["change"]["checks"]] == ["test -s a.py"]
    shown = scenario.scaffold("inbox").stdout
    assert "+one = 1" in shown
    assert f"scaffold approve {item['id']}" in shown
    assert scenario.scaffold("reject", item["id"], "--why", "call it two").returncode == 0
    assert scenario.scaffold("resume").returncode == WAITS
    assert attempts(scenario, "a") == ["rejected", None]
    (again,) = inbox(scenario)
    assert again["id"] != item["id"]
    assert {"+one = 1", "+two = 2"} <= {*again["change"]["diff"].splitlines()}
    late = scenario.scaffold("approve", item["id"])
    assert (late.returncode, "already rejected" in late.stderr) == (1, True)
    assert scenario.scaffold("approve", again["id"], "--why", "good").returncode == 0
    done = scenario.scaffold("resume")
    assert done.returncode == 0, done.stdout
    assert attempts(scenario, "a") == ["rejected", "landed"]
    (goal,) = scenario.status()["goals"]
    humans = [each["detail"] for each in goal["facts"][0]["evidence"] if each["kind"] == "human"]
    assert [detail.partition("\n")[0] for detail in humans] == [f"approved as {again['id']}: good"]
    assert scenario.git("for-each-ref", "refs/scaffold/review/") == ""


def test_an_approval_expires_once_what_would_land_has_changed(scenario):
    """AL-22: both were approved; the first landing changes the file of the other, which is told and asked anew."""
    two_that_change_one_file(scenario)
    assert scenario.run(*ARCHITECT).returncode == WAITS
    items = {each["detail"]["action"]: each["id"] for each in inbox(scenario)}
    assert scenario.scaffold("approve", *items.values()).returncode == 0
    waits = scenario.scaffold("resume")
    assert waits.returncode == WAITS, waits.stdout
    (again,) = inbox(scenario)
    key = again["detail"]["action"]
    assert f"Your approval {items[key]} of {key} no longer holds" in waits.stdout
    assert "others have changed the same files meanwhile" in waits.stdout
    shown = scenario.scaffold("diff", key)
    assert ("first" in shown.stdout) != ("last" in shown.stdout), "only its own change is shown"
    assert scenario.scaffold("approve", again["id"]).returncode == 0
    done = scenario.scaffold("resume")
    assert done.returncode == 0, done.stdout
    run = scenario.status()["run"]
    landed = scenario.git("show", f"{run['session_branch']}:app.py")
    assert landed == file_with(line_0="line_0 = 'first'", line_39="line_39 = 'last'")
