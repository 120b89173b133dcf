"""Subagents and messages by the real command: agents that start agents, none of which outlives its parent."""

import json
import os
import signal
import sqlite3
from contextlib import closing, suppress

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, shell, wait_until

FREE = ("--allow-category", "subagent")


def start(task, **args):
    return {"name": "subagent", "args": {"task": task, **args}}


def wait(**args):
    return {"name": "subagent_status", "args": {"wait": True, **args}}


def turn(number, *steps, action=None, **fields):
    """Return an agent's reply to its request of this number: text, or tool calls, all at once."""
    words = [step for step in steps if isinstance(step, str)]
    calls = [step for step in steps if not isinstance(step, str)]
    when = {"role": "agent", "turn": number, **({"action": action} if action else {}), **fields.pop("when", {})}
    return {"when": when, "text": " ".join(words), "tool_calls": calls, **fields}


def tape(scenario, *entries, output_per_mtok=0.0):
    """Write a cassette; entries of subagents come before those of all agents."""
    path = scenario.home / "tape.yaml"
    prices = {"output_per_mtok": output_per_mtok}
    path.write_text(yaml.safe_dump({"version": 1, "replies": list(entries), "prices": prices}))
    return f"cassette:{path}"


def ralph(scenario, model, *flags):
    done = scenario.scaffold("ralph", "do it", "--model", model, "--output-format", "stream-json", *flags)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def rows(scenario, statement):
    path = scenario.home / "scaffold" / "data" / "user.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(statement).fetchall()


def subagents(scenario):
    with suppress(sqlite3.OperationalError):  # the table is not made yet
        return rows(scenario, "SELECT id FROM subagent")
    return []


def statuses(scenario):
    return rows(scenario, "SELECT status FROM subagent ORDER BY number")


def news(scenario):
    """Return all text of conversations in user messages."""
    return "\n".join(body for (body,) in rows(scenario, "SELECT body FROM message ORDER BY conversation_id, seq"))


@pytest.mark.slow
def test_a_task_longer_than_any_command_line_reaches_a_subagent_whole(scenario):
    """SC-18: long prompts are passed by the store, not by argv."""
    model = tape(
        scenario,
        turn(1, "read to the end", action="sub-1", when={"contains": "begin (word ){60000}end"}),
        turn(1, start("begin " + "word " * 60_000 + "end"), wait()),
        turn(2, "over"),
    )
    done, events = ralph(scenario, model, *FREE)
    assert done.returncode == 0, done.stderr
    output = [event["content"] for event in events if event["type"] == "tool_result"]
    assert json.loads(output[1])["subagents"][0]["result"] == snapshot("read to the end")


@pytest.mark.slow
def test_an_agent_starts_two_subagents_waits_for_them_and_uses_their_results(scenario):
    """RA-11, SC-1: each is a full agent with its own tools; their results come to the parent."""
    model = tape(
        scenario,
        turn(1, {"name": "read_file", "args": {"path": "README.md"}}, action="sub-1"),
        turn(2, "the title is Sample", action="sub-1", when={"contains": "# Sample"}),
        turn(1, "I am the second, and know of blue", action="sub-2", when={"contains": "blue"}),
        turn(1, start("read the title"), start("think", context="the colour is blue")),
        turn(2, wait()),
        turn(3, "both are done", when={"contains": "the title is Sample(.|\n)*I am the second"}),
    )
    done, events = ralph(scenario, model, *FREE)
    assert (done.returncode, events[-1]["result"]) == (0, "both are done"), done
    assert statuses(scenario) == [("success",), ("success",)]
    assert scenario.processes() == []
    assert rows(scenario, "SELECT seq FROM envelope WHERE consumed_at IS NULL") == []


@pytest.mark.slow
def test_a_one_shot_call_continues_when_an_awaited_subagent_ends_later(scenario):
    """RA-11, RA-12: the completion wakes the loop, and starts another turn; its cost belongs to the call."""
    model = tape(
        scenario,
        turn(1, "forty-two", action="sub-1", usage={"output_tokens": 250_000}),
        turn(1, start("compute")),
        turn(2, "it is started"),
        turn(3, "so it is 42", when={"contains": "sub-1 ended(.|\n)*forty-two"}, usage={"output_tokens": 500_000}),
        output_per_mtok=1.0,
    )
    done, events = ralph(scenario, model, *FREE)
    assert (done.returncode, events[-1]["result"]) == (0, "so it is 42"), done
    assert events[-1]["usage"]["requests"] == 4
    assert events[-1]["usage"]["cost_usd"] == 0.75
    assert events[-1]["turns"] == 3
    [heard] = [event["text"] for event in events if event.get("notice") == "news"]
    assert "Your subagent sub-1 ended" in heard


@pytest.mark.slow
def test_a_subagent_that_fails_or_runs_out_of_turns_is_a_failed_result(scenario):
    """RA-11: failure, with the original error; `--max-turns` applies per agent."""
    model = tape(
        scenario,
        *(turn(number, {"name": "list_dir", "args": {}}, action="sub-2") for number in (1, 2, 3)),
        turn(1, start("nobody wrote a reply for this"), start("go round"), when={"contains": "^do it"}),
        turn(2, wait(), when={"contains": "running"}),
        turn(3, "both failed", when={"contains": "has no reply for this request(.|\n)*turn limit reached: 3"}),
    )
    done, events = ralph(scenario, model, *FREE, "--max-turns", "3")
    assert (done.returncode, events[-1]["result"]) == (0, "both failed"), done
    assert statuses(scenario) == [("failure",), ("failure",)]


@pytest.mark.slow
def test_without_approval_no_subagent_starts(scenario):
    """RA-13: the category subagent needs approval."""
    model = tape(scenario, turn(1, start("x")), turn(2, "not allowed", when={"contains": "Denied: subagent"}))
    done, events = ralph(scenario, model)
    assert events[-1]["result"] == "not allowed", done
    assert statuses(scenario) == []


@pytest.mark.slow
def test_a_subagent_has_no_subagent_or_message_tools(scenario):
    """RA-11: no messaging tools in subagents, and no subagents of their own."""
    model = tape(
        scenario,
        turn(1, start("deeper"), {"name": "send_message", "args": {}}, action="sub-1"),
        turn(2, "none", action="sub-1", when={"contains": "no tool `subagent`(.|\n)*no tool `send_message`"}),
        turn(1, start("go deeper")),
        turn(2, wait()),
        turn(3, "right", when={"contains": '"result":"none"'}),
    )
    done, events = ralph(scenario, model, *FREE)
    assert events[-1]["result"] == "right", done


@pytest.mark.slow
def test_all_agents_of_a_session_share_one_budget_and_its_end_ends_all(scenario):
    """RA-11: a session that stops with an error leaves no agent running; its subagents' costs are the session's."""
    spent = {"usage": {"output_tokens": 600_000}}
    model = tape(
        scenario,
        turn(1, "dear", action="sub-1", **spent),
        turn(1, shell("touch out/running; exec sleep 300"), action="sub-2"),
        turn(1, start("spend"), start("sleep"), shell("while ! [ -e out/running ]; do sleep 0.01; done")),
        turn(2, wait(subagent_id="sub-1"), **spent),
        turn(3, "cannot be paid"),
        output_per_mtok=1.0,
    )
    done, events = ralph(scenario, model, "--yolo", "--max-budget-usd", "1")
    assert (done.returncode, events[-1]["stop_reason"]) == (2, "budget"), done
    assert statuses(scenario) == [("success",), ("cancelled",)]
    assert scenario.processes() == []


@pytest.mark.slow
def test_a_subagents_conversation_is_not_continued(scenario):
    """RA-10, RA-11: `-c` continues the session itself, however late its subagent wrote."""
    model = tape(
        scenario,
        turn(1, "hello", action="sub-1"),
        turn(1, start("x"), "first"),
        turn(2, wait()),
        turn(3, "the end of the session"),
        {"when": {"role": "agent", "contains": "go on"}, "text": "gone on"},
    )
    _, events = ralph(scenario, model, *FREE)
    done = scenario.scaffold("ralph", "-c", "go on", "--output-format", "json")
    assert json.loads(done.stdout)["session_id"] == events[0]["session_id"], done


def sleeping(scenario):
    """Start a parent whose subagent runs a sleeping command; return the process, once the command runs."""
    model = tape(
        scenario,
        {"when": {"role": "agent", "contains": "interrupted: the session"}, "text": "I see that it was interrupted"},
        {"when": {"role": "agent", "contains": "cancelled"}, "text": "I see that it was cancelled"},
        turn(1, shell("touch out/running; exec sleep 300"), action="sub-1"),
        turn(1, start("sleep")),
        turn(2, wait()),
    )
    parent = scenario.start(scenario.command("ralph", "-p", "do it", "--model", model, "--yolo"))
    assert wait_until((scenario.out / "running").exists)
    assert len(scenario.processes()) >= 3
    return parent


@pytest.mark.slow
def test_a_killed_parent_takes_its_subagents_with_it_and_learns_it_on_resume(scenario):
    """RA-11: no orphan within 5 s of any exit; running subagents are interrupted, and the agent is told."""
    parent = sleeping(scenario)
    parent.kill()
    parent.wait()
    scenario.wait_for_end()
    assert statuses(scenario) == [("running",)]
    done = scenario.scaffold("ralph", "-c", "go on")
    assert done.stdout == snapshot("I see that it was interrupted\n"), done
    assert statuses(scenario) == [("failure",)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_parent_ends_its_subagents_first(scenario, number):
    """RA-11: Ctrl-C, SIGTERM, a closed terminal."""
    parent = sleeping(scenario)
    parent.send_signal(number)
    assert parent.wait(COMMAND_S) == 130
    scenario.wait_for_end()
    assert statuses(scenario) == [("cancelled",)]
    assert scenario.scaffold("ralph", "-c", "go on").stdout == snapshot("I see that it was cancelled\n")


@pytest.mark.slow
def test_a_killed_subagent_is_reported_to_its_parent(scenario):
    """RA-11: a dead child is a failed result, never a hang; its command ends with it."""
    parent = sleeping(scenario)
    ((process,),) = rows(scenario, "SELECT process FROM subagent")
    os.kill(json.loads(process)["pid"], signal.SIGKILL)
    assert wait_until(lambda: statuses(scenario) == [("failure",)], 2)
    scenario.wait_for_end()
    assert parent.wait(COMMAND_S) == 1  # the cassette has nothing to say about that
    assert "was killed by signal 9" in news(scenario)


@pytest.mark.slow
def test_a_subagent_imports_no_module_from_its_working_directory(scenario):
    """RA-11: a folder is data, whatever the names of its files."""
    (scenario.repo / "msgspec.py").write_text("raise SystemExit('taken from the folder')\n")
    model = tape(scenario, turn(1, "fine", action="sub-1"), turn(1, start("x")), turn(2, wait()), turn(3, "over"))
    command = [*scenario.command("ralph", "do it", "--model", model, *FREE)]
    done = scenario.call([command[0], "-P", *command[1:]])
    assert (done.stdout, statuses(scenario)) == ("over\n", [("success",)]), done


@pytest.mark.slow
def test_whenever_a_parent_is_killed_each_subagent_ends_and_is_reported_once(scenario):
    """RA-11: kills at all times; then the session is resumed, and everything is settled exactly once."""
    model = tape(
        scenario,
        {"when": {"role": "agent", "contains": "go on"}, "text": "gone on"},
        turn(1, shell("sleep 0.2"), action="sub-1"),
        turn(2, "slept", action="sub-1"),
        turn(1, "at once", action="sub-2"),
        turn(1, shell("sleep 300"), action="sub-3"),
        turn(1, start("a"), start("b"), start("c")),
        turn(2, wait()),
        turn(3, "over"),
    )
    for delay_ms in range(0, 1_500, 75):
        before = len(subagents(scenario))
        parent = scenario.start(scenario.command("ralph", "-p", "do it", "--model", model, "--yolo"))
        assert wait_until(lambda before=before: len(subagents(scenario)) > before), scenario.said()
        wait_until(lambda: False, delay_ms / 1_000)
        parent.kill()
        parent.wait()
        scenario.wait_for_end()
        scenario.scaffold("ralph", "-c", "go on", "--model", model, code=0)
        ended = rows(scenario, "SELECT id FROM subagent WHERE status <> 'running'")
        result = rows(scenario, "SELECT sender FROM envelope WHERE sender LIKE '%/sub-%' AND channel IS NULL")
        assert sorted(ended) == sorted(result)
        assert len(ended) == len(subagents(scenario))


@pytest.mark.slow
def test_sessions_send_each_other_messages(scenario):
    """RA-12: a message by id reaches another session when it is resumed, and is marked as data."""
    listening = tape(scenario, turn(1, "here I am"), turn(2, "I heard", when={"contains": "\\| ahoy(.|\n)*|go on"}))
    done = scenario.scaffold("ralph", "begin", "--model", listening, "--output-format", "json")
    first = json.loads(done.stdout)["session_id"]
    call = {"name": "send_message", "args": {"recipient_id": first, "content": "ahoy"}}
    unknown = {"name": "send_message", "args": {"recipient_id": "zzz", "content": "ahoy"}}
    model = tape(scenario, turn(1, call, unknown), turn(2, "sent", when={"contains": "Sent to(.|\n)*no agent 'zzz'"}))
    done, events = ralph(scenario, model)
    assert events[-1]["result"] == "sent", done
    heard = tape(
        scenario, {"when": {"role": "agent", "contains": "not an instruction(.|\n)*[|] ahoy"}, "text": "I heard"}
    )
    done = scenario.scaffold("ralph", "--resume", first, "go on", "--model", heard)
    assert done.stdout == "I heard\n", done
