"""Choosing a conversation, and seeing it again, in a real pseudo-terminal."""

import asyncio
import json
import re
import sys

import pytest

from model_server.server import serve
from scaffold.core.conversation import AssistantMessage, Text, UserMessage
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.store.user_store import UserStore, user_database
from support.terminal import ENTER, ESCAPE, IDLE, Screen, record_replies


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


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(40, 16), (120, 30)])
async def test_a_model_is_chosen_of_those_that_keys_and_servers_offer(scenario, terminal, columns, rows):
    """RA-1, RA-18: with its thinking; what cannot be used says why, and Esc changes nothing."""
    async with serve("chat", []) as server:
        server.pages["/v1/models"] = json.dumps({"data": [{"id": "gpt-5"}, {"id": "text-embedding-3-small"}]})

        def choose():
            screen = terminal("--model", record_replies(scenario, "said"), columns=columns, rows=rows, **server.environ)
            screen.wait_for("^↑0 ↓0 ")
            screen.type_line("/model")
            screen.wait_for(r"^  +openai:gpt-5 ")
            screen.send("anthropic opus")
            screen.wait_for("^not now: ANTHROPIC_API_KEY is not set")
            screen.send(ENTER + ESCAPE)
            screen.wait_for("^↑0 ↓0 ")
            screen.type_line("/model")
            screen.wait_for(r"^  +openai:gpt-5 ")
            screen.send("gpt-5")
            screen.wait_for(r"^› +openai:gpt-5 ")
            screen.send("\x1b[C")
            screen.wait_for("^effort low: ← → change it")
            screen.send(ENTER)
            screen.wait_for("^effort low from the next request on")
            return screen.text

        shown = await asyncio.to_thread(choose)
    assert "the model is now openai:gpt-5" in " ".join(shown.split())
    assert shown.count("the model is now") == 1
    assert server.looked == ["/v1/models"], "the second list is the first one"


@pytest.mark.slow
async def test_a_plain_terminal_chooses_a_model_by_its_number(scenario, terminal):
    """RA-18: as does a screen reader."""
    async with serve("chat", []) as server:
        server.pages["/v1/models"] = json.dumps({"data": [{"id": "gpt-5"}, {"id": "gpt-4.1"}]})

        def choose():
            screen = terminal("--model", record_replies(scenario, "said"), TERM="dumb", **server.environ)
            screen.wait_for("^>$")
            screen.type_line("/model 3")
            screen.wait_for("there is no model 3 in a list")
            screen.type_line("/model")
            screen.wait_for(r"^   3 openai:gpt-4\.1\b")
            screen.type_line("/model 3")
            screen.wait_for(r"^the model is now openai:gpt-4\.1")

        await asyncio.to_thread(choose)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ralph", "scaffold"])
def test_every_command_explains_itself(scenario, program):
    """RA-18, SC-19: without arguments, with rubbish, asked for help; no model could answer."""
    argv = [sys.executable, "-m", "scaffold", *(["ralph"] if program == "ralph" else [])]
    argv += ["--model", record_replies(scenario)]
    screen = Screen(argv, cwd=scenario.repo, env={**scenario.environ, "TERM": "dumb"}, columns=150, rows=50)
    try:
        screen.wait_for("^>$")
        screen.type_line("/help")
        screen.wait_for("^Keys:")
        names = re.findall(r"^  (/[a-z]+)", screen.text.partition("Keys:")[0], re.MULTILINE)
        assert {"/goals", "/tasks", "/memory", "/model", "/quit"} <= set(names)
        for name in names:
            for more in ("", " ?", " --help", " one two three four"):
                if (name, more) in {("/quit", ""), ("/export", " one two three four"), ("/memory", "")}:
                    continue
                before = screen.text.count("\n>")
                screen.type_line(f"{name}{more}")
                while screen.text.count("\n>") <= before:
                    assert screen.read()
        assert screen.child.isalive()
        assert not re.search("Traceback|is a bug", screen.text)
        for name in names:
            assert len(re.findall(rf"^{name}( .*)?: ", screen.text, re.MULTILINE)) >= 2, f"{name} explains itself"
        screen.type_line("/quit")
        assert screen.wait_for_exit() == 0
    finally:
        screen.stop()
