"""Failures that recur in whole runs: another approach, smaller actions, a human; and attempts that take long."""

import os
import signal
import sqlite3

import pytest

from support.planner_cassettes import create_actions_call, create_goal_call, reply_entries
from support.scenario import COMMAND_S, action, plan_of, shell, text_entry, wait_until, write

CHECK = "grep -q good parser.txt"
APPROVED = '```json\n{"verdict": "approve", "citations": [], "summary": "fine"}\n```'


def killed_when(scenario, argv, query):
    """Start a command, and kill it without warning once the query finds something."""
    running = scenario.start(argv)
    assert wait_until(lambda: _found(scenario, query)), scenario.said()
    os.kill(running.pid, signal.SIGKILL)
    running.wait(COMMAND_S)
    assert wait_until(lambda: not scenario.processes()), "what was killed left processes behind"


def _found(scenario, query):
    try:
        return scenario.stored(query)
    except sqlite3.OperationalError:  # before the database exists
        return []


def rungs(status, key):
    """Return what followed from the counted failures of an action."""
    (found,) = [each for each in status["actions"] if each["key"] == key]
    return [each["escalation"] for each in found["attempts"] if each["escalation"]]


def parser_request(scenario):
    """Write replies of agents that fail in the same way until a human tells them what to do."""
    scenario.configure(quality_gates={"test": "off"}, replans=1)
    parser = action("parser", effects=["parsed"], check=CHECK)
    docs = action("docs", effects=["documented"], check="test -s docs.txt")
    lexer = action("parser-lexer", effects=["parsed"], check=CHECK)
    skipped = {"action": "parser", "status": "skipped", "result": "broken down"}
    planned = [create_goal_call("tool", "parsed", "documented"), create_actions_call("tool", parser, docs)]
    smaller = [create_actions_call("tool", lexer), {"name": "goap_update_action", "args": skipped}]
    broken_down = reply_entries([*smaller, "done"], role="supervisor")
    broken_down[0]["when"]["contains"] = "(?s)failed too often.*break it down into smaller actions"
    scenario.replies(
        *reply_entries([*planned, "planned"], role="planner"),
        *broken_down,
        text_entry("critic", "Total: 9/9\nDONE"),
        text_entry("reviewer", APPROVED),
        {"when": {"action": "docs", "turn": 1}, "tool_calls": [write("docs.txt", "docs\n")]},
        {
            "when": {"role": "implementation", "turn": 1, "contains": "use a grammar"},
            "tool_calls": [write("parser.txt", "good\n")],
        },
        {
            "when": {"role": "implementation", "turn": 1, "contains": "Take a different approach"},
            "tool_calls": [shell("sleep 1; echo other > parser.txt")],
        },
        {"when": {"role": "implementation", "turn": 1}, "tool_calls": [write("parser.txt", "bad\n")]},
        {"when": {"role": "implementation"}, "text": "done"},
        {"when": {}, "text": "nothing"},
    )
    return scenario.request_command("a parser", "--tier", "scout", "--yes")


@pytest.mark.slow
def test_a_failure_that_recurs_leads_to_another_approach_smaller_actions_and_a_human(scenario):
    """AL-19, BX-12, SC-20: through kills at each rung; other work lands meanwhile, and the human's hint helps."""
    argv = parser_request(scenario)
    killed_when(scenario, argv, "SELECT 1 FROM attempt WHERE alternative = 1 AND status = 'claimed'")
    resume = scenario.command("resume")
    killed_when(scenario, resume, "SELECT 1 FROM planning_turn WHERE event = 'replan'")
    scenario.call(resume, code=3)
    status = scenario.status()
    assert rungs(status, "parser") == ["again", "alternative", "smaller"]
    assert rungs(status, "parser-lexer") == ["again", "alternative", "human"]
    by_key = {each["key"]: each for each in status["actions"]}
    assert by_key["docs"]["status"] == "completed"
    (item,) = status["inbox"]
    assert item["action"] == "parser-lexer"
    shown = scenario.scaffold("inbox").stdout
    assert "(contract_failed, another approach, the same failure as in attempt " in shown
    assert "its changes: git diff" in shown
    wrong = scenario.scaffold("answer", item["id"], "no idea", code=64)
    assert "Begin it with `retry`, `skip`, `fail`" in wrong.stderr
    scenario.scaffold("answer", item["id"], "retry use a grammar", code=0)
    scenario.scaffold("answer", item["id"], "fail", code=1)
    scenario.call(resume, code=0)
    assert scenario.scaffold("retry", "parser-lexer").returncode == 64, "it has landed"
    logs = scenario.scaffold("logs", "parser").stdout
    assert "attempt 2 failed in the same way as attempt 1; the next attempt is to take another approach" in logs


@pytest.mark.slow
def test_a_plan_that_was_given_fails_when_its_attempts_are_used_up(scenario):
    """SC-20, AL-19: without a planner nobody is asked; the failures are shown, and a retry gives new attempts."""
    scenario.configure(quality_gates={"test": "off"})
    scenario.plan(plan_of(tool=[action("parser", effects=["parsed"], check=CHECK)]))
    scenario.cassette(parser=[write("parser.txt", "bad\n")])
    failed = scenario.run("--yes", code=1)
    assert "attempt 3 failed in the same way as attempt 1; it has failed for good" in failed.stdout
    status = scenario.status()
    assert not status["inbox"]
    (parser,) = status["actions"]
    assert (parser["failures"], parser["attempts_allowed"]) == (3, 3)
    assert [each["same_failure_as"] for each in parser["attempts"]] == [None, 1, 1]
    assert [each["alternative"] for each in parser["attempts"]] == [False, False, True]
    assert len({each["fingerprint"] for each in parser["attempts"]}) == 1
    assert "after 3 attempts, the last with the same failure as attempt 1" in scenario.scaffold("tasks").stdout
    assert "It failed in the same way as attempt 1" in scenario.scaffold("path", "parser").stderr


@pytest.mark.slow
def test_a_long_attempt_is_asked_about_and_can_be_killed(scenario):
    """AL-25: a kill of the run withdraws the question, which is asked again when it is due."""
    scenario.configure(quality_gates={"test": "off"}, soft_timeout=0.2, tiers={"builder": {"timeout_min": 0.15}})
    scenario.plan(plan_of(tool=[action("parser", effects=["parsed"], check=CHECK)]))
    busy = [{"when": {"action": "parser", "attempt": n, "turn": 1}, "tool_calls": [shell("sleep 60")]} for n in (1, 2)]
    good = {"when": {"action": "parser", "turn": 1}, "tool_calls": [write("parser.txt", "good\n")]}
    scenario.replies(*busy, good, text_entry("implementation", "done"))
    opened = "SELECT id FROM inbox WHERE state = 'open'"
    killed_when(scenario, scenario.run_command("--yes"), opened)
    running = scenario.start(scenario.command("resume"))
    assert wait_until(lambda: len(scenario.stored("SELECT id FROM inbox")) == 2), scenario.said()
    ((item,),) = scenario.stored(opened)
    scenario.scaffold("answer", item, "kill", code=0)
    assert running.wait(COMMAND_S) == 0, scenario.said()
    (parser,) = scenario.status()["actions"]
    assert [each["outcome"] for each in parser["attempts"]] == ["lost", "timeout", "landed"]
    assert parser["attempts"][1]["error"].startswith("a human ended it after ")
    assert [each["state"] for each in scenario.inbox("--all")] == ["withdrawn", "answered"]
