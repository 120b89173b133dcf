"""How a conversation stands besides what was said in it: kept by the one process that goes on with it."""

import sqlite3

import pytest

from integration.store.nouns import ALIVE, ME
from scaffold.core.errors import ConversationBusy, StoreTrouble
from scaffold.core.todo import Todo, TodoList
from scaffold.host.clock import FakeClock
from scaffold.store.conversations import Standing
from scaffold.store.user import MIGRATIONS, UserStore

LIST = TodoList((Todo(id=2, content="mend the clock \U0001f550", status="in_progress", priority="high"),), 7)


@pytest.fixture
def talk(user):
    """A conversation of this process."""
    with user.transaction():
        user.conversations.begin("talk", cwd="/shop", model="openai:gpt", title="hello")
        user.conversations.claim("talk", ME)
    return user.conversations


def test_a_new_conversation_is_in_the_default_mode_and_has_nothing_to_do(talk):
    """RA-5."""
    assert talk.standing("talk") == Standing("default", TodoList())


def test_mode_and_todos_are_there_for_the_next_process(user, user_path, talk):
    """RA-5, RA-10: durable as soon as they are kept."""
    with user.transaction():
        talk.keep_mode("talk", "debug", me=ME)
        talk.keep_todos("talk", LIST, me=ME)
    other = UserStore.open(user_path, clock=FakeClock())
    assert other.conversations.standing("talk") == Standing("debug", LIST)
    other.close()


@pytest.mark.parametrize("keep", ["mode", "todos"])
def test_only_who_claimed_a_conversation_changes_how_it_stands(user, talk, keep):
    """RA-10: two processes never change one conversation."""
    with user.transaction():
        talk.release("talk", ME)
        talk.claim("talk", ALIVE)
    with pytest.raises(ConversationBusy), user.transaction():
        talk.keep_mode("talk", "plan", me=ME) if keep == "mode" else talk.keep_todos("talk", LIST, me=ME)
    assert talk.standing("talk") == Standing("default", TodoList())


def test_a_conversation_that_is_not_there_does_not_stand_anyhow(user):
    with pytest.raises(StoreTrouble, match="no conversation"):
        user.conversations.standing("none")


def test_a_list_that_does_not_read_back_is_told_as_such(user, user_path, talk):
    with sqlite3.connect(user_path) as direct:
        direct.execute("UPDATE conversation SET todos = '[1'")
    direct.close()
    with pytest.raises(StoreTrouble, match="does not read back"):
        talk.standing("talk")


def test_conversations_of_an_older_database_stand_as_new_ones_do(tmp_path, user_path):
    """RA-5: a database from before there were modes is brought up to date, and nothing said is lost."""
    first = tmp_path / "first"
    first.mkdir()
    (first / "0001_first.sql").write_text((MIGRATIONS / "0001_first.sql").read_text())
    UserStore.open(user_path, clock=FakeClock(), migrations=first).close()
    with sqlite3.connect(user_path) as direct:
        direct.execute(
            "INSERT INTO conversation (id, cwd, model, title, messages, input_tokens, cached_input_tokens,"
            " output_tokens, cost_usd, requests, created_at, updated_at)"
            " VALUES ('old', '/shop', 'm', 't', 0, 0, 0, 0, 0.0, 0, '2030-01-01', '2030-01-01')"
        )
    direct.close()
    store = UserStore.open(user_path, clock=FakeClock())
    assert store.conversations.standing("old") == Standing("default", TodoList())
    store.close()
