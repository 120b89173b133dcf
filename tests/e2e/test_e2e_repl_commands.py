"""Commands of the REPL that show or write something, in a real pseudo-terminal, on a recorded model."""

import re
import signal

import pytest
import yaml

from support.scenario import shell, wait_until, write
from support.terminal import CTRL_C, IDLE, record_replies


@pytest.mark.slow
def test_the_window_is_shown_and_the_conversation_exported(scenario, terminal):
    """RA-18: `/context` and `/export`, without a model; secrets stay out of the file."""
    secret = "ghp_" + "a1B2" * 9
    model = record_replies(scenario, write("made.txt", "one\n"), "All done.")
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line(f"make it with {secret}")
    screen.wait_for("^All done")
    screen.type_line("/context")
    text = screen.wait_for(r"results of write_file")
    assert re.search(r"system prompt +[\d,]+", text)
    assert re.search(r"tool definitions +[\d,]+", text)
    screen.type_line("/export talk.md")
    screen.wait_for(r"written to")
    screen.type_line("/export talk.md")
    screen.wait_for("never overwritten")
    exported = (scenario.repo / "talk.md").read_text()
    assert "## You\n\nmake it with " in exported
    assert "### Call of `write_file`" in exported
    assert exported.endswith("## Ralph\n\nAll done.\n")
    assert secret not in exported
    screen.type_line("/export -")
    screen.wait_for("^### Call of `write_file`")
    assert secret not in screen.text.split("/export -")[1]


@pytest.mark.slow
def test_a_turn_is_taken_back_after_the_session_was_killed(scenario, terminal):
    """RA-18, RA-21: `/diff` and `/undo` know what a killed session changed, and the agent is told."""
    readme = (scenario.repo / "README.md").read_bytes()
    edit = {"name": "edit", "args": {"path": "README.md", "old": "Sample", "new": "Changed"}}
    model = record_replies(scenario, edit, write("made.txt", "one\n"), "All done.")
    first = terminal("--model", model, "--yolo")
    first.wait_for(IDLE)
    first.type_line("change it")
    first.wait_for("^All done")
    first.child.kill(signal.SIGKILL)
    first.child.wait()
    path = scenario.home / "talk.yaml"
    talk = {"when": {"role": "agent", "contains": "took back changes of yours"}, "text": "I see."}
    path.write_text(yaml.safe_dump({"version": 1, "replies": [talk]}))
    second = terminal("-c", "--yolo")
    second.wait_for(IDLE)
    second.type_line("/diff")
    second.wait_for(r"^\+# Changed")
    second.wait_for("untracked: made.txt")
    assert "\x1b[32m+# Changed" in second.raw
    second.type_line("/diff turn")
    second.wait_for(r"^README.md +\+1 -1")
    second.type_line("/undo")
    second.wait_for(r'undone, of the turn "change it":')
    second.wait_for(r"restored README\.md")
    second.wait_for(r"removed made\.txt")
    assert (scenario.repo / "README.md").read_bytes() == readme
    assert not (scenario.repo / "made.txt").exists()
    second.type_line("and now?")
    second.wait_for("^I see")
    second.type_line("/undo")
    second.wait_for("there is nothing to undo")


@pytest.mark.slow
def test_a_long_diff_goes_through_the_pager_while_the_agent_works(scenario, terminal):
    """RA-18: what happens meanwhile is shown afterwards, and Ctrl-C is the pager's."""
    pager = "sed -u 's/^/P: /'; touch out/paged; trap '' INT; until [ -e quit ]; do sleep 0.05; done"
    held = shell("touch out/began; until [ -e gate ]; do sleep 0.05; done")
    screen = terminal("--model", record_replies(scenario, held, "All done."), "--yolo", PAGER=pager)
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    (scenario.repo / "README.md").write_text("".join(f"line {number}\n" for number in range(100)))
    screen.type_line("/diff")
    screen.wait_for(r"^P: \+line 99")
    screen.send(CTRL_C)
    (scenario.repo / "gate").touch()
    screen.pause()
    assert "All done" not in screen.text
    (scenario.repo / "quit").touch()
    screen.wait_for("^All done")
    screen.wait_for(IDLE)
    assert "stopped" not in screen.text


@pytest.mark.slow
def test_a_review_changes_nothing_and_ends_its_mode(scenario, terminal):
    """RA-18: of what is not committed; Ctrl-C stops it."""
    screen = terminal("--model", record_replies(scenario, write("made.txt", "x"), "One defect: README.md:1."), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("/review")
    screen.wait_for("everything is committed")
    (scenario.repo / "README.md").write_text("changed\n")
    screen.type_line("/review")
    screen.wait_for("the mode review allows no changes")
    screen.wait_for("^One defect")
    screen.wait_for("default  /help$")
    assert not (scenario.repo / "made.txt").exists()


@pytest.mark.slow
def test_what_is_typed_during_a_turn_takes_effect_in_that_order(scenario, terminal):
    """RA-12, RA-18: a message before a command belongs to what the command changes, one after it does not."""
    model = record_replies(scenario)
    replies = [{"when": {"role": "agent", "turn": 1, "contains": f"turn {each}"}, "text": each} for each in ("a", "b")]
    (scenario.home / "talk.yaml").write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("!touch out/began; until [ -e gate ]; do sleep 0.05; done")
    assert wait_until((scenario.out / "began").exists)
    for words in ("turn a", "/clear", "turn b", "!echo c"):
        screen.type_line(words)
        screen.wait_for(f"queued: {words}")
    screen.type_line("/cost")
    screen.wait_for("this session")  # what only reads is answered at once
    (scenario.repo / "gate").touch()
    text = screen.wait_for("^c$")
    shown = [re.search(line, text, re.MULTILINE).start() for line in ("^a$", "^new conversation", "^b$", "^c$")]
    assert shown == sorted(shown)
