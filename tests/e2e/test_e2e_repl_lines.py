"""The REPL of `ralph` on a terminal without escape sequences: whole lines in, whole lines out."""

import pytest

from support.scenario import write
from support.terminal import record_replies


@pytest.mark.slow
def test_a_dumb_terminal_has_a_repl_too(scenario, terminal):
    """RA-18: TERM=dumb."""
    model = record_replies(scenario, write("made.txt", "one\n"), "done")
    screen = terminal("--model", model, TERM="dumb")
    screen.wait_for(r"^>$")
    screen.type_line("go")
    screen.wait_for("y yes")
    screen.pause()
    screen.type_line("y")
    screen.wait_for("^done")
    screen.type_line("/quit")
    assert screen.wait_for_exit() == 0
    assert (scenario.repo / "made.txt").exists()
    assert "\x1b" not in screen.raw


@pytest.mark.slow
def test_a_plain_chat_draws_nothing_and_says_everything_in_lines(scenario, terminal):
    """RA-18: for screen readers, on a terminal that could do more."""
    model = record_replies(scenario, write("made.txt", "one\n"), "done")
    screen = terminal("--model", model, "--plain", "--yolo")
    screen.wait_for(r"^>$")
    screen.wait_for(r"^\[0 tokens in, 0 out, \$0\.00, cassette:talk\.yaml, mode default\]")
    screen.type_line("go")
    screen.wait_for("^done")
    screen.wait_for(r"^ran write_file made\.txt\n  made\.txt created: 4 bytes, 1 line\.")
    screen.type_line("/quit")
    assert screen.wait_for_exit() == 0
    assert not set(screen.raw) & set("\x1b●└›✗↑↓⠋")


@pytest.mark.slow
def test_lines_that_are_pasted_together_are_one_message_and_wait_for_the_agent(scenario, terminal):
    """RA-12, RA-18: neither a command nor an answer is among them."""
    model = record_replies(scenario, write("made.txt", "one\n"), "read it")
    path = scenario.home / "talk.yaml"
    path.write_text(path.read_text().replace("    turn: 2\n", '    turn: 2\n    contains: "y\\n!touch ran\\nend"\n'))
    screen = terminal("--model", model, TERM="dumb")
    screen.wait_for(r"^>$")
    screen.type_line("go")
    screen.wait_for("y yes")
    screen.pause()
    screen.send("y\n!touch ran\nend\n")
    screen.wait_for("y yes", times=2)
    screen.pause()
    screen.type_line("n")
    screen.wait_for("^read it")
    screen.type_line("/diff")
    screen.wait_for("^Nothing has changed")
    assert not (scenario.repo / "ran").exists()


@pytest.mark.slow
def test_lines_that_come_together_answer_no_question(scenario, terminal):
    """RA-13, RA-18: they were pasted; the first of them would accept all edits."""
    screen = terminal("--model", record_replies(scenario, write("made.txt", "one\n"), "done", "heard"), TERM="dumb")
    screen.wait_for(r"^>$")
    screen.type_line("go")
    screen.wait_for("A accept all")
    screen.pause()
    screen.send("A\nfoo\n")
    screen.wait_for("A accept all", times=2)
    screen.pause()
    assert not (scenario.repo / "made.txt").exists()
    screen.type_line("A")
    screen.wait_for("^done|^heard")
    screen.wait_for("mode accept-edits")
    assert (scenario.repo / "made.txt").exists()


@pytest.mark.slow
def test_a_line_that_only_begins_like_an_answer_does_not_approve_and_a_denial_may_have_a_reason(scenario, terminal):
    """RA-13, RA-18: where answers are lines, too; the text reaches the agent."""
    model = record_replies(scenario, write("made.txt", "one\n"), "heard")
    path = scenario.home / "talk.yaml"
    heard = "(?s)always look twice.*says. it is not needed|says. it is not needed.*always look twice"
    path.write_text(path.read_text().replace("    turn: 2\n", f"    turn: 2\n    contains: {heard}\n"))
    screen = terminal("--model", model, TERM="dumb")
    screen.wait_for(r"^>$")
    screen.type_line("go")
    screen.wait_for("y yes")
    screen.pause()
    screen.type_line("always look twice")
    screen.wait_for("y yes", times=2)
    screen.pause()
    screen.type_line("no, because it is not needed")
    screen.wait_for("^heard")
    assert not (scenario.repo / "made.txt").exists()
