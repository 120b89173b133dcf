"""The state of a conversation besides its messages, written only by the process that claimed it."""

import sqlite3

import pytest

from builders import ALIVE, ME
from scaffold.core.conversation import Todo, TodoList
from scaffold.core.errors import ConversationBusy, StoreError
from scaffold.store.user.conversations import ConversationState
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

LIST = TodoList((Todo(id=2, content="mend the clock \U0001f550", status="in_progress", priority="high"),), 7)


@pytest.fixture
def conversations(user):
    """A conversation of this process."""
    with user.transaction():
        user.conversations.begin("talk", cwd="/shop", model="openai:gpt", title="hello")
        user.conversations.claim("talk", ME)
    return user.conversations


def test_a_new_conversation_has_the_default_mode_no_todos_and_no_effort(conversations):
    """RA-5."""
    assert conversations.state("talk") == ConversationState("default", TodoList(), "")


def test_mode_todos_and_effort_are_visible_to_the_next_process(user, user_path, conversations):
    """RA-5, RA-10: durable as soon as they are stored."""
    with user.transaction():
        conversations.keep_mode("talk", "debug", me=ME)
        conversations.keep_todos("talk", LIST, me=ME)
        conversations.keep_effort("talk", "high", me=ME)
    other = UserStore.open(user_path, clock=FakeClock())
    assert other.conversations.state("talk") == ConversationState("debug", LIST, "high")
    other.close()


def test_only_the_claiming_process_changes_a_conversations_state(user, conversations):
    """RA-10: two processes never change one conversation."""
    with user.transaction():
        conversations.release("talk", ME)
        conversations.claim("talk", ALIVE)
    for keep, value in (
        (conversations.keep_mode, "plan"),
        (conversations.keep_todos, LIST),
        (conversations.keep_effort, "high"),
    ):
        with pytest.raises(ConversationBusy), user.transaction():
            keep("talk", value, me=ME)
    assert conversations.state("talk") == ConversationState("default", TodoList(), "")


def test_an_unreadable_todo_list_is_reported(user, user_path, conversations):
    with sqlite3.connect(user_path) as direct:
        direct.execute("UPDATE conversation SET todos = '[1'")
    direct.close()
    with pytest.raises(StoreError):
        conversations.state("talk")
