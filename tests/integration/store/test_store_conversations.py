"""Conversations: stored unchanged, by one process at a time, and durable."""

import signal
import sqlite3
import subprocess  # noqa: TID251 - the test is about killing another process
import sys
from contextlib import closing
from pathlib import Path

import pytest

from builders import ALIVE, ME, OWNER
from scaffold.core.conversation import AssistantMessage, Image, Text, Thinking, ToolCall, ToolResult, UserMessage
from scaffold.core.errors import ConversationBusy, StoreError, UsageError
from scaffold.core.model import Usage
from scaffold.store.user_store import ConversationHistory, UserStore
from support.fake_clock import FakeClock

SAY_AND_WAIT = """
import sys
from pathlib import Path
from scaffold.core.conversation import Text, UserMessage
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.store.user_store import ConversationHistory
from scaffold.store.user_store import UserStore

store = UserStore.open(Path(sys.argv[1]), clock=SystemClock())
with store.transaction():
    store.conversations.begin("talk", cwd="/shop", model="m", title="hello")
    store.conversations.claim("talk", own_identity())
history = ConversationHistory(store, "talk", own_identity())
for number in range(5):
    history.add(UserMessage((Text(f"message {number}"),)), Usage(requests=1))
print("said", flush=True)
sys.stdin.read()
"""

ALL_KINDS = (
    UserMessage((Text("look at this"), Image("image/png", b"\x89PNG\x00\xff"))),
    AssistantMessage(
        (
            Thinking("hm", signature="c2VhbA==", id="rs_1"),
            Thinking("", signature="secret", redacted=True),
            Text("I read it."),
            ToolCall("call-1", "read_file", {"path": "a.py", "deep": {"list": [1, 2.5, None, True]}}),
        ),
        "anthropic:claude",
    ),
    UserMessage((ToolResult("call-1", "read_file", "print()", failed=True),)),
)


@pytest.fixture
def history(user: UserStore) -> ConversationHistory:
    """A conversation of this process in /shop."""
    return _begin(user, "talk")


def _begin(store: UserStore, name: str, cwd: str = "/shop") -> ConversationHistory:
    with store.transaction():
        store.conversations.begin(name, cwd=cwd, model="openai:gpt", title=f"about {name}")
        store.conversations.claim(name, ME)
    return ConversationHistory(store, name, ME)


def _said(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def _texts(store: UserStore, name: str = "talk") -> list[str]:
    return [message.parts[0].text for message in store.conversations.load(name)[1]]


def test_messages_are_read_back_unchanged(user: UserStore, history: ConversationHistory, neighbour: UserStore) -> None:
    """RA-10: with images, thinking and signatures."""
    for message in ALL_KINDS:
        history.add(message)
    assert neighbour.conversations.load("talk") == (None, ALL_KINDS)


def test_usage_adds_up_with_and_without_a_message(user: UserStore, history: ConversationHistory) -> None:
    """BX-11: that of a request that failed after it had been billed, too; an unknown cost makes the sum unknown."""
    usage = Usage(input_tokens=100, cached_input_tokens=60, output_tokens=7, cost_usd=0.25, requests=1)
    history.add(_said("a"))
    history.spend(Usage(input_tokens=10, output_tokens=2, cost_usd=0.5))
    history.add(AssistantMessage((Text("b"),)), usage)
    history.add(AssistantMessage((Text("c"),)), usage)
    found = user.conversations.get("talk")
    total = usage + usage + Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    assert (found.usage, found.messages) == (total, 3)
    for more in (Usage(cost_usd=None, requests=1), Usage(cost_usd=1.0, requests=1)):
        history.add(_said("d"), more)
        total += more
    assert user.conversations.get("talk").usage == total
    assert total.cost_usd is None


def test_a_conversation_has_its_folder_and_owner_and_another_model_may_continue(
    user: UserStore, clock: FakeClock
) -> None:
    """RA-1: `/model` switches, and the conversation stores it; a dead process holds none."""
    began = clock.now()
    history = _begin(user, "talk")
    clock.advance(60)
    history.add(_said("a"))
    found = user.conversations.get("talk")
    assert (found.cwd, found.model, found.title, found.owner) == ("/shop", "openai:gpt", "about talk", ME)
    assert (found.created_at, found.updated_at) == (began, clock.now())
    _switch(user)
    assert user.conversations.get("talk").model == "m2"
    with user.transaction():
        user.conversations.release("talk", ME)
        user.conversations.claim("talk", OWNER)
    with user.transaction():
        user.conversations.claim("talk", ME)
    assert user.conversations.get("talk").owner == ME


def test_any_text_can_be_stored(user: UserStore) -> None:
    """Names that are not UTF-8 arrive as lone surrogates; they are stored as the escapes that the model sees."""
    texts = ["caf\udce9", "\ud83d", "\\\ud83d\\", 'NUL \x00 "quote"', "\ud83d\ude00", "\U0001f600"]
    for number, text in enumerate(texts):
        kept, name = text.encode(errors="backslashreplace").decode(), f"odd{number}"
        with user.transaction():
            user.conversations.begin(name, cwd=f"/{text}", model="m", title=text)
            user.conversations.claim(name, ME)
        history = ConversationHistory(user, name, ME)
        history.add(_said(text))
        history.add(AssistantMessage((ToolCall("1", "shell", {"command": text, text: [text]}),)))
        said, called = user.conversations.load(name)[1]
        assert said.parts[0].text == kept
        assert called.tool_calls[0].args == {"command": kept, kept: [kept]}
        assert user.conversations.latest(f"/{text}").title == kept
        history.compact(1, text)
        assert user.conversations.load(name)[0] == kept
        assert user.conversations.get(f"nothing like {text}") is None


def test_a_crash_loses_no_stored_message(user: UserStore, user_path: Path) -> None:
    """RA-10, RA-21: everything a killed process stored is there, and another may continue."""
    with subprocess.Popen(
        [sys.executable, "-c", SAY_AND_WAIT, user_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"said\n"
        with user.transaction(), pytest.raises(ConversationBusy, match=f"process {child.pid} "):
            user.conversations.claim("talk", ME)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
    assert _texts(user) == [f"message {number}" for number in range(5)]
    with user.transaction():
        user.conversations.claim("talk", ME)
    ConversationHistory(user, "talk", ME).add(_said("and on"))
    assert user.conversations.get("talk").messages == 6
    assert user.conversations.get("talk").usage.requests == 5


def test_a_draft_is_a_message_once_its_process_has_died(user: UserStore, history: ConversationHistory) -> None:
    """RA-10, RA-19: what a killed process would have stored next; while it lives, the message takes its place."""
    for text in ("one of two results", "two results"):
        history.draft(_said(text))
        assert user.conversations.get("talk").messages == 0
    history.add(_said("the results"))
    history.draft(_said("left behind"))
    with user.transaction():
        user.conversations.claim("talk", ME)
    ConversationHistory(user, "talk", ME).add(_said("and on"))
    assert _texts(user) == ["the results", "left behind", "and on"]
    assert user.conversations.get("talk").messages == 3


def test_a_message_and_its_cost_are_stored_together_or_not_at_all(
    user: UserStore, history: ConversationHistory, user_path: Path
) -> None:
    with closing(sqlite3.connect(user_path)) as raw:
        raw.execute("CREATE TRIGGER full BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'no room'); END")
        raw.commit()
    with pytest.raises(StoreError, match="no room"):
        history.add(_said("a"), Usage(cost_usd=1.0, requests=1))
    found = user.conversations.get("talk")
    assert (found.messages, found.usage) == (0, Usage())


def test_two_living_processes_never_have_the_same_conversation(user: UserStore, neighbour: UserStore) -> None:
    _begin(user, "talk").add(_said("a"))
    with user.transaction():
        user.conversations.claim("talk", ME)
    with neighbour.transaction():
        neighbour.conversations.release("talk", ALIVE)
    with neighbour.transaction(), pytest.raises(ConversationBusy, match=str(ME.pid)):
        neighbour.conversations.claim("talk", ALIVE)
    with user.transaction(), pytest.raises(ConversationBusy):
        user.conversations.forget("talk")
    with user.transaction():
        user.conversations.release("talk", ME)
    with neighbour.transaction():
        neighbour.conversations.claim("talk", ALIVE)


def test_a_superseded_process_writes_nothing_more(user: UserStore, history: ConversationHistory) -> None:
    history.add(_said("a"))
    with user.transaction():
        user.conversations.release("talk", ME)
    for owner in (None, ALIVE):
        with user.transaction():
            if owner:
                user.conversations.claim("talk", owner)
        before = user.conversations.get("talk")
        for change in (
            lambda: history.add(_said("late"), Usage(requests=1)),
            lambda: history.compact(0, "late"),
            lambda: _switch(user),
        ):
            with pytest.raises(ConversationBusy):
                change()
        assert user.conversations.get("talk") == before
        assert user.conversations.load("talk") == (None, (_said("a"),))


def _switch(store: UserStore) -> None:
    with store.transaction():
        store.conversations.switch_model("talk", "m2", me=ME)


def test_after_a_compaction_the_conversation_is_the_summary_and_the_last_messages(
    user: UserStore, history: ConversationHistory
) -> None:
    """RA-10: compaction with a rolling summary; earlier messages are not deleted."""
    for text in "abcd":
        history.add(_said(text))
    history.compact(2, "a and b")
    assert user.conversations.load("talk")[0] == "a and b"
    assert _texts(user) == ["c", "d"]
    history.add(_said("e"))
    assert _texts(user) == ["c", "d", "e"]
    history.compact(1, "a to d")
    history.compact(0, "a to e")
    assert user.conversations.load("talk") == ("a to e", ())
    history.add(_said("f"))
    assert _texts(user) == ["f"]
    assert user.conversations.get("talk").messages == 6


def test_conversations_are_found_by_directory_the_latest_first(user: UserStore, clock: FakeClock) -> None:
    """RA-10: `-c` continues the one used last here."""
    histories = {}
    for name, cwd in (("one", "/shop"), ("two", "/shop"), ("other", "/farm"), ("empty", "/shop")):
        histories[name] = _begin(user, name, cwd)
    for name in ("two", "other", "one"):
        clock.advance(1)
        histories[name].add(_said("a"))
    conversations = user.conversations
    assert conversations.latest("/shop").id == "one"
    assert conversations.latest("/nowhere") is None
    assert [each.id for each in conversations.listed()] == ["one", "other", "two"]
    assert [each.id for each in conversations.listed("/shop")] == ["one", "two"]
    assert [each.id for each in conversations.listed(limit=2)] == ["one", "other"]


def test_a_unique_prefix_of_an_id_is_enough(user: UserStore) -> None:
    for name in ("abc", "abcd", "xyz"):
        _begin(user, name)
    assert user.conversations.get("x").id == "xyz"
    assert user.conversations.get("abc").id == "abc"
    assert user.conversations.get("%") is None
    with pytest.raises(UsageError, match="abc, abcd") as caught:
        user.conversations.get("ab")
    assert "in full" in caught.value.fix


def test_a_deleted_conversation_leaves_nothing(user: UserStore, history: ConversationHistory, user_path: Path) -> None:
    history.add(_said("a secret"))
    history.compact(0, "a secret")
    with user.transaction():
        user.conversations.release("talk", ME)
        user.conversations.forget("talk")
    assert user.conversations.get("talk") is None
    with closing(sqlite3.connect(user_path)) as raw:
        for table in ("conversation", "message", "compaction"):
            assert raw.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)


def test_a_missing_conversation_is_an_error(user: UserStore) -> None:
    conversations = user.conversations
    for use in (
        lambda: conversations.claim("nobody", ME),
        lambda: conversations.forget("nobody"),
        lambda: conversations.load("nobody"),
        lambda: conversations.state("nobody"),
        lambda: conversations.add("nobody", _said("a"), Usage(), me=ME),
    ):
        with pytest.raises(StoreError, match="'nobody'") as caught, user.transaction():
            use()
        assert "`ralph -c`" in caught.value.fix
