"""Choosing a conversation in a real pseudo-terminal."""

import pytest

from support.terminal import ENTER, ESCAPE, IDLE, record_replies


@pytest.fixture
def conversations(scenario):
    """Make two conversations, and return their model."""
    model = record_replies(scenario, "said")
    for task in ("mend the login", "count the beans"):
        scenario.scaffold("ralph", task, "--model", model, code=0)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(60, 15), (200, 50)])
def test_a_conversation_is_chosen_at_the_start(scenario, terminal, conversations, columns, rows):
    """RA-18, SC-19: `ralph --resume` without an id."""
    screen = terminal("--resume", columns=columns, rows=rows)
    screen.wait_for(r"^› \d+ s .* count the beans")
    screen.wait_for(r"^  \d+ s .* mend the login")
    screen.send("login")
    screen.wait_for(r"^› \d+ s .* mend the login")
    screen.send(ENTER)
    screen.wait_for("Resuming: mend the login")
    screen.wait_for(IDLE)
    assert "type to filter" not in screen.text


@pytest.mark.slow
def test_escape_leaves_the_list_without_a_session(scenario, terminal, conversations):
    """RA-18."""
    screen = terminal("--resume")
    screen.wait_for("type to filter")
    screen.send(ESCAPE)
    assert screen.wait_for_exit() == 0
    assert "Resuming" not in screen.text


@pytest.mark.slow
def test_a_conversation_is_chosen_in_the_repl_and_the_line_works_afterwards(scenario, terminal, conversations):
    """RA-18: also after the user chose none."""
    screen = terminal("--model", conversations)
    screen.wait_for(IDLE)
    screen.type_line("/resume")
    screen.wait_for("type to filter")
    screen.send(ESCAPE)
    screen.wait_for(IDLE)
    screen.type_line("/resume")
    screen.wait_for("type to filter")
    screen.send("beans" + ENTER)
    screen.wait_for("Resuming: count the beans")
    screen.wait_for(IDLE)
    screen.type_line("/tasks")
    screen.wait_for("has no task list")
    assert "there is no conversation" not in screen.text


@pytest.mark.slow
def test_a_plain_terminal_gets_the_list(scenario, terminal, conversations):
    """RA-18: as before."""
    screen = terminal("-c", TERM="dumb")
    screen.wait_for("^>$")
    screen.type_line("/resume")
    screen.wait_for("Resume one: `/resume ID`")
    assert "mend the login" in screen.text
    assert "›" not in screen.text, "nothing is chosen with the arrow keys"
