"""Choosing a conversation, and seeing it again, in a real pseudo-terminal."""

import pytest

from scaffold.core.conversation import AssistantMessage, Text, UserMessage
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.store.user_store import UserStore, user_database
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
    screen.type_line("/goals")
    screen.wait_for("The agent has no steps")
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


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "term", "mark"), [(40, "xterm-256color", "› "), (200, "dumb", "you: ")])
def test_the_last_of_two_thousand_turns_are_on_the_screen(scenario, terminal, conversations, columns, term, mark):
    """RA-10, RA-18: no more than these are read again, and what the model alone was told is not shown."""
    store = UserStore.open(user_database(scenario.home / "scaffold" / "data"), clock=SystemClock())
    (found, *_), me = store.conversations.listed(), own_identity()
    with store.transaction():
        store.conversations.claim(found.id, me)
        for number in range(2_000):
            asked = UserMessage((Text(f"request {number}"), Text("[a note for the model]", "note")))
            store.conversations.add(found.id, asked, Usage(), me=me)
            store.conversations.add(found.id, AssistantMessage((Text(f"**reply** {number}"),)), Usage(), me=me)
        store.conversations.release(found.id, me)
    store.close()
    screen = terminal("-c", columns=columns, TERM=term)
    screen.wait_for("Used so far")
    assert [line for line in screen.text.split("\n") if line.startswith(mark.strip())][:10] == [
        f"{mark}request {number}" for number in range(1_990, 2_000)
    ]
    assert "3,982 earlier messages not shown" in " ".join(screen.text.split())
    assert "reply 1999" in screen.text
    assert "a note for the model" not in screen.text
