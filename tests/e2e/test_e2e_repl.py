"""The REPL of `ralph` in a real pseudo-terminal, on a recorded model."""

import contextlib
import re
import signal
import sqlite3
import termios
from pathlib import Path

import pytest
import yaml

from support.scenario import shell, wait_until, write
from support.terminal import CTRL_C, CTRL_D, ESCAPE, IDLE, UP, record_replies

HELD = shell("touch out/began; until [ -e gate ]; do sleep 0.05; done")
"""A call that goes on until the test lets it end."""


@pytest.mark.slow
def test_a_session_with_calls_approved_once_always_and_denied(scenario, terminal):
    """SC-18, RA-13, RA-18: yes is for one call, always for exactly this one, and no is reported to the model."""
    model = record_replies(
        scenario,
        write("made.txt", "one\ntwo\n"),
        shell("echo a >> out/log"),
        shell("echo a >> out/log"),
        write("never.txt", "x"),
        "All **done**.",
    )
    screen = terminal("--model", model)
    screen.wait_for(IDLE)
    screen.type_line("make it")
    screen.wait_for(r"the agent asks to use write_file")
    screen.wait_for(r"1 \+ one")
    screen.answer("y")
    screen.wait_for(r"echo a >> out/log")
    screen.answer("a")
    screen.wait_for(r"never\.txt")
    screen.answer("n")
    text = screen.wait_for(r"^All done\.")
    assert text.count("asks to use shell") == 1
    assert (scenario.repo / "made.txt").read_text() == "one\ntwo\n"
    assert (scenario.out / "log").read_text() == "a\na\n"
    assert not (scenario.repo / "never.txt").exists()
    assert "Denied: the user denied it" in text
    screen.wait_for(r"↑500 ↓50")
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0
    assert re.search(r"resume with `ralph --resume \w+`", screen.text)


@pytest.mark.slow
def test_a_killed_session_knows_which_calls_ran(scenario, terminal):
    """RA-10, RA-19: one that has ended is done, one that waited for its user did not run, one that ran is unknown."""
    calls = [shell("touch out/a"), shell("touch out/began; sleep 60"), shell("touch out/c")]
    screen = terminal("--model", record_replies(scenario, calls, "over"))
    screen.wait_for(IDLE)
    screen.type_line("go")
    for named in (r"^y yes to all 3", r"^y yes   n no"):
        screen.wait_for(named)
        screen.answer("o" if "all" in named else "y")
    screen.wait_for("allows: exactly this call", times=2)
    assert killed_results(terminal, scenario, screen) == ["exit code 0 ", "Not run: the", "Not run: the"]
    screen = terminal("--model", record_replies(scenario, calls, "over"))
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.answer("y")
    assert wait_until((scenario.out / "began").exists)
    assert killed_results(terminal, scenario, screen) == ["exit code 0 ", "The work was", "Not run: the"]


def killed_results(terminal, scenario, screen):
    """Kill the session once its first call has ended; return how the results of the next one for the model begin."""
    screen.wait_for(r"● shell touch out/a")
    screen.child.kill(signal.SIGKILL)
    screen.wait_for_exit()
    resumed = terminal("-c")
    resumed.wait_for(IDLE)
    resumed.type_line("/export talk.md")
    resumed.wait_for("written to")
    exported = (scenario.repo / "talk.md").read_text()
    (scenario.repo / "talk.md").unlink()
    return [part.split("```\n")[1][:12] for part in exported.split("### Result of")[1:]]


@pytest.mark.slow
def test_escape_and_ctrl_c_deny(scenario, terminal):
    """RA-13."""
    screen = terminal("--model", record_replies(scenario, write("a", "x"), write("b", "x"), "over"))
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.answer(ESCAPE)
    screen.wait_for(r"│ b$")
    screen.answer(CTRL_C)
    screen.wait_for("^over")
    assert not {"a", "b"} & {path.name for path in scenario.repo.iterdir()}


@pytest.mark.slow
def test_keys_typed_before_a_question_do_not_answer_it_and_are_not_lost(scenario, terminal):
    """RA-13: a stray key is no approval."""
    screen = terminal("--model", record_replies(scenario, [HELD, write("a", "x")], "over"), "--allow-category", "shell")
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for("running shell")
    screen.send("yay")
    screen.wait_for(r"^› yay")
    (scenario.repo / "gate").touch()
    screen.wait_for(r"│ a$")
    screen.wait_for(r"^› yay")
    screen.send(" xy")  # in one burst: a user who is typing a word has not read the question
    screen.wait_for(r"^› yay xy")
    screen.answer("n")
    screen.wait_for("^over")
    screen.wait_for(r"^› yay xy")
    assert not (scenario.repo / "a").exists()


@pytest.mark.slow
def test_messages_typed_during_a_turn_reach_the_agent_with_its_next_request(scenario, terminal):
    """RA-12, RA-18."""
    model = record_replies(scenario, HELD, "ended")
    path = scenario.home / "talk.yaml"
    path.write_text(path.read_text().replace("    turn: 2\n", "    turn: 2\n    contains: and also this\n"))
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for("running shell")
    screen.type_line("and also this")
    screen.wait_for("queued: and also this")
    (scenario.repo / "gate").touch()
    screen.wait_for("^ended")
    assert "queued:" not in screen.text
    assert screen.text.index("› and also this") < screen.text.index("\nended")


@pytest.mark.slow
def test_ctrl_c_stops_the_turn_and_the_session_continues(scenario, terminal):
    """RA-19: running tools end, no message is lost."""
    screen = terminal("--model", record_replies(scenario, shell("touch out/began; sleep 60"), "went on"), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.type_line("waiting words")
    screen.wait_for("queued: waiting words")
    screen.send(CTRL_C)
    screen.wait_for("stopped; the conversation is kept")
    screen.send(" and more")
    screen.wait_for("^› waiting words and more$")
    assert wait_until(lambda: not running(scenario, "sleep 60"))
    assert "went on" not in screen.text
    screen.type_line("")
    screen.wait_for("^went on")


@pytest.mark.slow
def test_a_second_ctrl_c_ends_everything(scenario, terminal):
    """RA-19, SC-1: within seconds, without orphans."""
    screen = terminal("--model", record_replies(scenario, shell("touch out/began; sleep 60")), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.send(CTRL_C + CTRL_C)
    assert screen.wait_for_exit() == 130
    assert wait_until(lambda: not running(scenario, "sleep 60"))


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_clears_then_warns_then_leaves(scenario, terminal):
    screen = terminal("--model", record_replies(scenario, "unused"))
    screen.wait_for(IDLE)
    screen.send("half a thought")
    screen.wait_for("half a thought")
    screen.send(CTRL_C)
    screen.wait_for(r"^›$")
    screen.send(CTRL_C)
    screen.wait_for("Ctrl-C again to exit")
    screen.send(CTRL_C)
    assert screen.wait_for_exit() == 0


@pytest.mark.slow
def test_commands_are_answered_without_a_model(scenario, terminal):
    """RA-18, SC-19: the cassette has no reply, so any request would be an error."""
    screen = terminal("--model", record_replies(scenario), "--max-budget-usd", "2")
    screen.wait_for(IDLE)
    for command, result in (
        ("/help", r"/resume \[ID\] +choose a conversation"),
        ("/model", r"^ +anthropic:NAME +ANTHROPIC_API_KEY is no"),
        (ESCAPE, IDLE),
        ("/model nonsense:x", r"✗ "),
        ("/effort", r"effort auto: only the server knows"),
        ("/effort high", "effort high from the next request on"),
        ("/effort nonsense", "no effort"),
        ("/mode plan", "now works in mode plan"),
        ("/mode nonsense", "no mode"),
        ("/goals", "The agent has no steps"),
        ("/goals show 3", "there is no step 3"),
        ("/tasks", "There are no items yet"),
        ("/memory edit", "state: active, unconfirmed"),
        ("/agents", "no subagents"),
        ("/cost", r"\$2\.00 left of \$2\.00"),
        ("/tools", r"file_write: asks you +write_file"),
        ("/compact", "cannot be shortened further"),
        ("/modle", r"Did you mean `/mode`|Did you mean `/model`"),
        ("/resume nothing", "there is no conversation `nothing`"),
    ):
        screen.type_line(command)
        screen.wait_for(result)
    screen.wait_for("^plan ")
    screen.type_line("/exit")
    assert screen.wait_for_exit() == 0
    assert "resume with `" not in screen.text


@pytest.mark.slow
def test_an_error_in_a_turn_is_shown_and_the_session_continues(scenario, terminal):
    """RA-18: two lines, and the prompt comes back."""
    screen = terminal("--model", record_replies(scenario))
    screen.wait_for(IDLE)
    screen.type_line("say something")
    screen.wait_for(r"^✗ .*\n(.*\n)*  \S")
    screen.wait_for(IDLE)
    assert "Traceback" not in screen.text


@pytest.mark.slow
def test_commands_and_files_are_completed(scenario, terminal):
    """RA-18."""
    (scenario.repo / "deep" / "er").mkdir(parents=True)
    (scenario.repo / "deep" / "er" / "buried.txt").write_text("treasure")
    screen = terminal("--model", record_replies(scenario, "unused"))
    screen.wait_for(IDLE)
    screen.send("/comp")
    screen.wait_for(r"/compact \[INSTRUCTIONS\] +shorten")
    screen.send("\t")
    screen.wait_for("^› /compact")
    screen.send(CTRL_C + "/mode pl")
    screen.wait_for("plan +think")
    screen.send("\t")
    screen.wait_for("^› /mode plan")
    screen.send(CTRL_C + "see @READ")
    screen.wait_for(r"^ +README\.md")
    screen.send("\t")
    screen.wait_for(r"^› see @README\.md")
    screen.send(CTRL_C + "see @buri")
    screen.wait_for(r"^ +deep/er/buried\.txt")
    screen.send("\t")
    screen.wait_for(r"^› see @deep/er/buried\.txt")
    assert "unused" not in screen.text, "a completion sends nothing"


@pytest.mark.slow
def test_earlier_input_of_the_project_is_found_and_what_was_not_sent_is_not_lost(scenario, terminal):
    """RA-12, RA-18: after SIGTERM, too; secrets stay out of the private file."""
    secret = "ghp_" + "a1B2" * 9
    first = terminal("--model", record_replies(scenario, HELD), "--yolo")
    first.wait_for(IDLE)
    first.type_line(f"remember the milk and {secret}")
    assert wait_until((scenario.out / "began").exists)
    first.type_line("and the bread")
    first.wait_for("queued: and the bread")
    first.send("a draft")
    first.wait_for("^› a draft")
    first.child.kill(signal.SIGTERM)
    first.wait_for("^not sent: and the bread\nnot sent: a draft")
    assert first.wait_for_exit() == 130
    (kept,) = (scenario.home / "scaffold" / "data" / "input-history").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    assert secret not in kept.read_text()
    (scenario.repo / "below").mkdir()
    second = terminal("--model", record_replies(scenario, "hello"), "-C", "below")
    second.wait_for(IDLE)
    second.send(UP)
    second.wait_for("^› a draft")
    second.send(UP)
    second.wait_for("^› and the bread")
    second.send(CTRL_C + "\x12mil")
    second.wait_for("backward: mil$")
    second.send("k")
    second.wait_for("^› remember the milk and")


@pytest.mark.slow
def test_a_narrow_screen_without_colours_works(scenario, terminal):
    """RA-18: 40 columns, NO_COLOR."""
    model = record_replies(
        scenario, write("made.txt", "x" * 90 + "\n"), "# Title\n\n`code` and **words** " + "word " * 20
    )
    screen = terminal("--model", model, columns=40, NO_COLOR="1")
    screen.wait_for(r"^›")
    screen.type_line("go")
    screen.answer("y")
    screen.wait_for("^Title")
    screen.wait_for(r"^↑200 ↓20  \$2\.00")
    assert all(len(line) <= 40 for line in screen.text.split("\n"))
    assert not re.search(r"\x1b\[(?:\d+;)*(3[0-8]|4[0-8]|9[0-7])m", screen.raw)


def test_no_escape_sequence_of_a_model_or_tool_reaches_the_terminal(scenario, terminal):
    """RA-18: control characters are shown instead."""
    model = record_replies(scenario, shell("printf '\\033]0;owned\\007'"), "\x1b]0;owned\x07 said")
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for(r"\\x1b\]0;owned\\x07 said")
    assert "\x1b]0;owned" not in screen.raw


@pytest.mark.slow
def test_a_failing_store_is_reported_and_the_session_continues(scenario, terminal):
    """RA-18: no input ends the session."""
    screen = terminal("--model", record_replies(scenario, "hello"))
    screen.wait_for(IDLE)
    with contextlib.closing(sqlite3.connect(scenario.home / "scaffold" / "data" / "user.db")) as database:
        database.execute("ALTER TABLE conversation RENAME TO elsewhere")
        screen.type_line("go")
        screen.wait_for("^✗")
        screen.wait_for(IDLE)
        database.execute("ALTER TABLE elsewhere RENAME TO conversation")
    screen.type_line("again")
    screen.wait_for("^hello")
    screen.send(CTRL_D)
    assert screen.wait_for_exit() == 0


@pytest.mark.slow
def test_a_closed_terminal_ends_the_session_and_its_processes(scenario, terminal):
    """SC-1, RA-11: no orphan, nothing lost, no loop on a missing terminal."""
    screen = terminal("--model", record_replies(scenario, shell("touch out/began; sleep 60")), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.close()
    scenario.wait_for_end()
    again = terminal("-c")
    again.wait_for("Resuming: go")


@pytest.mark.slow
@pytest.mark.parametrize("at_work", [True, False], ids=["at work", "at rest"])
def test_sigterm_ends_the_session_and_restores_the_terminal(scenario, terminal, at_work):
    """RA-19: kill -TERM."""
    model = record_replies(scenario, shell("touch out/began; sleep 60"))
    screen = terminal("--model", model, "--yolo")
    before = termios.tcgetattr(screen.child.fileno())
    screen.wait_for(IDLE)
    if at_work:
        screen.type_line("go")
        assert wait_until((scenario.out / "began").exists)
    assert termios.tcgetattr(screen.child.fileno())[3] != before[3]
    screen.child.kill(signal.SIGTERM)
    screen.wait_for("interrupted: the conversation is kept")
    assert termios.tcgetattr(screen.child.fileno())[3] == before[3]
    assert screen.wait_for_exit() == 130
    assert wait_until(lambda: not running(scenario, "sleep 60"))
    assert "Traceback" not in screen.text


@pytest.mark.slow
def test_a_subagent_asks_under_its_name_and_its_end_wakes_the_session(scenario, terminal):
    """RA-11, RA-12, RA-18: text typed meanwhile stays."""
    spawn = {"name": "subagent", "args": {"task": "count the beans"}}
    model = record_replies(scenario, spawn, "Somebody is at it.", "The beans are counted.")
    path = scenario.home / "talk.yaml"
    output = yaml.safe_load(path.read_text())
    count = {"role": "agent", "action": "sub-1", "turn": 1}
    output["replies"][:0] = [
        {"when": count, "tool_calls": [shell("echo seven > out/beans")]},
        {"when": {"role": "agent", "action": "sub-1"}, "text": "seven beans"},
    ]
    path.write_text(yaml.safe_dump(output))
    screen = terminal("--model", model, "--allow-category", "subagent")
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for("^Somebody is at it")
    screen.wait_for("sub-1 asks to use shell")
    screen.wait_for("1 agent")
    screen.send("half a thought")
    screen.wait_for("^› half a thought")
    screen.answer("y")
    screen.wait_for("^The beans are counted")
    screen.wait_for("^› half a thought")
    assert (scenario.out / "beans").read_text() == "seven\n"
    screen.send(CTRL_C)
    screen.type_line("/agents")
    screen.wait_for(r"sub-1  success .* count the beans")


@pytest.mark.slow
def test_messages_after_a_stop_are_shown_and_wait_for_the_user(scenario, terminal):
    """RA-12, RA-19: an agent the user stopped does not start again automatically."""
    spawn = {"name": "subagent", "args": {"task": "count the beans"}}
    model = record_replies(scenario, spawn, shell("touch out/began; sleep 60"), "The beans are counted.")
    path = scenario.home / "talk.yaml"
    output = yaml.safe_load(path.read_text())
    count = {"role": "agent", "action": "sub-1", "turn": 1}
    output["replies"][:0] = [
        {"when": count, "tool_calls": [HELD]},
        {"when": {"role": "agent", "action": "sub-1"}, "text": "seven beans"},
    ]
    path.write_text(yaml.safe_dump(output))
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for("running shell")
    screen.send(CTRL_C)
    screen.wait_for("stopped; the conversation is kept")
    (scenario.repo / "gate").touch()
    screen.wait_for("messages arrived; the agent reads them with your next message")
    assert "The beans" not in screen.text
    screen.type_line("what about them?")
    screen.wait_for("^The beans are counted")


def running(scenario, command):
    """Return whether a command of the scenario is running."""
    for pid in scenario.processes():
        try:
            if command in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode():
                return True
        except OSError:
            continue
    return False
