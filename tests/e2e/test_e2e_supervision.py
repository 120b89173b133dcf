"""From a request to a landed branch, while supervisors, workers and the owner are killed, stopped and replaced."""

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.scenario import COMMAND_S, calls_entry, create_actions, shell, text_entry, wait_until, write

TASK = "Build a shop, with docs"


def compound(key, *effects, needs=()):
    return {
        "key": key,
        "description": f"have {key}",
        "kind": "compound",
        "preconditions": list(needs),
        "effects": [*effects],
    }


def primitive(key, effect, *, needs=(), check=None):
    return {
        "key": key,
        "description": f"make {key}",
        "kind": "primitive",
        "preconditions": list(needs),
        "effects": [effect],
        "contract": {"commands": [{"command": check or f"test -f {key}"}]},
    }


def goal(name, *wants):
    return {"name": "goap_create_goal", "args": {"name": name, "description": f"have {name}", "goal_state": [*wants]}}


def shop_and_docs(scenario, *, pause="0.2"):
    """Two goals, three compounds broken down just in time, and one approach that fails."""
    works = [f"shelf{n}" for n in range(3)]
    scenario.replies(
        calls_entry(
            "planner",
            goal("shop", "stocked", "open"),
            goal("docs", "documented"),
            create_actions("shop", compound("fill", "stocked"), compound("welcome", "open", needs=["stocked"])),
            create_actions("docs", compound("write", "documented")),
            turn=1,
        ),
        text_entry("planner"),
        calls_entry(
            "supervisor",
            create_actions(
                "shop",
                primitive(works[0], "shelf"),
                primitive(works[1], "label", needs=["shelf"]),
                primitive(works[2], "stocked", needs=["label"]),
                parent="fill",
            ),
            action="fill",
            event="decompose",
            turn=1,
        ),
        calls_entry(
            "supervisor",
            create_actions("shop", primitive("door", "open"), parent="welcome"),
            action="welcome",
            event="decompose",
            turn=1,
        ),
        calls_entry(
            "supervisor",
            create_actions("docs", primitive("novel", "documented", check="false"), parent="write"),
            action="write",
            event="decompose",
            turn=1,
        ),
        calls_entry(
            "supervisor",
            create_actions("docs", primitive("leaflet", "documented"), parent="write"),
            action="write",
            event="replan",
            turn=1,
        ),
        text_entry("supervisor"),
        *(
            {"when": {"action": key, "turn": 1}, "tool_calls": [shell(f"sleep {pause}"), write(key, "x\n")]}
            for key in (*works, "door", "leaflet", "novel")
        ),
        {"when": {"role": "implementation"}, "text": "I made it."},
    )


def expect_the_end(scenario):
    """Check that both goals are complete, nothing is there twice, no process is left, and the store is consistent."""
    status = scenario.status()
    run = status["run"]
    assert run["status"] == "completed"
    assert {each["name"]: each["status"] for each in status["goals"]} == {"shop": "completed", "docs": "completed"}
    statuses = {each["key"]: each["status"] for each in status["actions"]}
    assert statuses.pop("novel") == "failed"
    assert set(statuses.values()) == {"completed"}
    assert sorted(scenario.landed_keys()) == ["door", "leaflet", "shelf0", "shelf1", "shelf2"]
    for each in status["goals"]:
        for fact in each["facts"]:
            assert fact["state"] == "holds"
            assert fact["evidence"][0]["exit_code"] == 0
            assert run["session_branch"] in scenario.git("branch", "--contains", fact["commit"])
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.stored("PRAGMA integrity_check") == [("ok",)]
    assert scenario.stored("SELECT id FROM planning_turn WHERE outcome IS NULL") == []
    scenario.git("fsck", "--connectivity-only")


@pytest.mark.slow
def test_a_request_becomes_two_goals_that_land(scenario):
    """SC-1, SC-5, SC-8, SC-14, SC-21: planned, broken down just in time, replanned once, landed."""
    shop_and_docs(scenario, pause="0")
    before = scenario.checkout()
    done = scenario.request(TASK, "--yes", "--json", code=0)
    expect_the_end(scenario)
    assert scenario.checkout() == before
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event"] for each in events if each["type"] == "planning_turn_started"].count("replan") == 1
    order = [(each["type"], each.get("action")) for each in events]
    landed, began = order.index(("action_landed", "shelf2")), order.index(("planning_turn_started", "welcome"))
    assert landed < began, "not before it was ready"
    assert events[-1]["run"]["status"] == "completed"
    owners = {each["pid"] for each in events if each["type"] == "run_claimed"}
    began = [each["pid"] for each in events if each["type"] == "supervisor_started"]
    assert len(began) == 2, "each goal is supervised"
    assert len(set(began)) == 1, "they share a process"
    assert owners.isdisjoint(began)


def supervisors(scenario):
    """Return the pids of the living supervisors by the status."""
    return [each["supervisor"]["pid"] for each in scenario.status()["goals"] if each["supervisor"]["alive"]]


WORKING = "SELECT worker FROM attempt WHERE status = 'claimed' AND phase <> 'candidate' AND worker <> ''"


def until_it_runs(scenario, process):
    """Wait until a worker runs."""
    assert wait_until(lambda: process.poll() is not None or _begun(scenario))


def _begun(scenario):
    return scenario.status()["run"] and scenario.stored(WORKING)


@pytest.mark.slow
def test_a_killed_supervisor_is_replaced_and_the_run_ends_as_usual(scenario):
    """SC-16, SC-21, BX-17: after that each goal has a process of its own, because one of them may be the cause."""
    shop_and_docs(scenario)
    process = scenario.start(scenario.request_command(TASK, "--yes"))
    until_it_runs(scenario, process)
    (killed,) = set(supervisors(scenario))
    os.kill(killed, signal.SIGKILL)
    assert wait_until(lambda: len(set(supervisors(scenario)) - {killed}) == 2)
    assert process.wait(COMMAND_S) == 0
    expect_the_end(scenario)


@pytest.mark.slow
def test_a_stopped_supervisor_is_replaced(scenario):
    """SC-16: it lives, but does not respond; the owner detects and kills it."""
    shop_and_docs(scenario)
    process = scenario.start(scenario.request_command(TASK, "--yes"))
    until_it_runs(scenario, process)
    stopped = supervisors(scenario)[0]
    os.kill(stopped, signal.SIGSTOP)
    assert process.wait(COMMAND_S) == 0
    assert stopped not in scenario.processes()
    expect_the_end(scenario)


@pytest.mark.slow
def test_a_killed_owner_leaves_no_process_and_the_next_one_continues(scenario):
    """SC-16, BX-17, AL-27: status is correct in between."""
    shop_and_docs(scenario)
    process = scenario.start(scenario.request_command(TASK, "--yes"))
    until_it_runs(scenario, process)
    process.send_signal(signal.SIGKILL)
    process.wait(COMMAND_S)
    scenario.wait_for_end()
    status = scenario.status()
    assert status["run"]["status"] == "interrupted"
    assert [each["supervisor"]["alive"] for each in status["goals"]] == [False, False]
    scenario.scaffold("resume", code=0)
    expect_the_end(scenario)


@pytest.mark.slow
def test_a_stopped_owner_loses_its_run_and_changes_nothing_when_it_continues(scenario):
    """SC-16, BX-8: two orchestrators on one repository, one of which was stopped beyond its lease."""
    shop_and_docs(scenario, pause="1")
    process = scenario.start(scenario.request_command(TASK, "--yes"))
    until_it_runs(scenario, process)
    process.send_signal(signal.SIGSTOP)
    scenario.scaffold("resume", scenario.status()["run"]["id"], code=0)
    expect_the_end(scenario)
    process.send_signal(signal.SIGCONT)
    assert process.wait(COMMAND_S) != 0
    expect_the_end(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_kills_do_not_change_the_outcome(scenario, seed):
    """SC-16, BX-15, BX-17: supervisors, workers, the owner, any process."""
    expect_the_same_end(scenario, seed, kills=8)


def expect_the_same_end(scenario, seed, kills):
    chance = random.Random(seed)
    shop_and_docs(scenario)
    process = scenario.start(scenario.request_command(TASK, "--yes"))
    until_it_runs(scenario, process)
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 0.5))
        victims = [each for each in scenario.processes() if _ours(each)]
        if victims:
            _kill(chance.choice(victims))
        if process.poll() is not None and process.returncode != 0:
            process = scenario.start(scenario.request_command(TASK, "--yes"))
        if process.poll() == 0:
            break
    if process.wait(COMMAND_S) != 0:
        scenario.request(TASK, "--yes", code=0)
    expect_the_end(scenario)


def _ours(pid):
    """Return whether a process is one of Scaffold's, and no command of an agent."""
    try:
        return b"scaffold" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_detached_run_outlives_its_starter_and_can_be_followed(scenario):
    """SC-18, AL-27: `--detach` and `attach`."""
    shop_and_docs(scenario)
    done = scenario.request(TASK, "--yes", "--detach", code=0)
    assert "scaffold attach" in done.stdout
    again = scenario.scaffold("resume", scenario.status()["run"]["id"])
    assert again.returncode != 0
    assert "is executing run" in again.stderr
    followed = scenario.scaffold("attach", code=0)
    assert "landed" in followed.stdout
    expect_the_end(scenario)


@pytest.mark.slow
def test_the_tier_quick_is_one_action_without_a_separate_supervisor(scenario):
    """SC-22: one primitive, no planner, no supervisor request."""
    scenario.replies(
        {"when": {"action": "task", "turn": 1}, "tool_calls": [write("typo.txt", "fixed\n")]},
        {"when": {"role": "implementation"}, "text": "Fixed."},
    )
    done = scenario.request("fix the typo", "--tier", "quick", "--yes", "--json", code=0)
    status = scenario.status()
    assert [each["key"] for each in status["actions"]] == ["task"]
    assert scenario.stored("SELECT id FROM planning_turn") == []
    events = [json.loads(line) for line in done.stdout.splitlines()]
    pids = {each["type"]: each["pid"] for each in events if each["type"] in {"run_claimed", "supervisor_started"}}
    assert pids["supervisor_started"] == pids["run_claimed"], "the owner itself pursues so small a goal"
