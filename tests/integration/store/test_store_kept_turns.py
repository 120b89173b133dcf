"""Kept turns: as they were when their transaction was committed; one that has come further stores only what is new."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from builders import an_action, an_attempt, claim, store_run
from scaffold.core.conversation import AssistantMessage, KeptTurn, Text, UserMessage
from scaffold.store.database import Store
from scaffold.store.driver.sqlite import SqliteDriver
from support.fake_clock import FakeClock


def _turn(*texts: str, summary: str = "") -> KeptTurn:
    kinds = (UserMessage, AssistantMessage)
    messages = tuple(kinds[number % 2]((Text(text),)) for number, text in enumerate(texts))
    return KeptTurn(messages=messages, summary=summary, requests=len(texts), answered=0)


def _grown(turn: KeptTurn, *texts: str) -> KeptTurn:
    return replace(turn, messages=(*turn.messages, *_turn(*texts).messages), requests=turn.requests + 1)


def _keep(store: Store, turn: KeptTurn) -> None:
    with store.transaction():
        store.kept_turns.keep("attempt-1", turn, "judged")
        store.paid_replies.keep_turn("run-1 supervisor", turn)


def _keep_and_fail(store: Store, turn: KeptTurn) -> None:
    with store.transaction():
        store.kept_turns.keep("attempt-1", turn)
        store.paid_replies.keep_turn("run-1 supervisor", turn)
        raise KeyError


def _kept(store: Store) -> KeptTurn | None:
    kept = store.kept_turns.get("attempt-1")
    assert store.paid_replies.find_turn("run-1 supervisor") == kept
    return kept


@pytest.fixture
def begun(store: Store) -> Store:
    action = an_action("schema")
    store_run(store, action)
    claim(store, an_attempt(action, id="attempt-1"))
    return store


def test_a_kept_turn_is_the_one_that_was_committed_last(begun: Store) -> None:
    """BX-4: however it grows, is compacted, or a transaction ends without a commit."""
    first = _turn("do it", "I look")
    compacted = replace(_turn("go on", "I do"), summary="it looked")
    grown = _grown(first, "a file", "I see")
    for turn in (first, grown, _grown(grown, "more"), compacted, _grown(compacted, "done"), first, _turn()):
        _keep(begun, turn)
        assert _kept(begun) == turn
    _keep(begun, first)
    # Of the same length, and longer: neither is what the next one continues.
    for lost in (_turn("another", "other"), grown):
        with pytest.raises(KeyError):
            _keep_and_fail(begun, lost)
        assert _kept(begun) == first
        _keep(begun, _grown(lost, "and on"))
        assert _kept(begun) == _grown(lost, "and on")
        _keep(begun, first)
    with begun.transaction():
        begun.kept_turns.forget("run-1/schema")
        begun.paid_replies.forget("run-1 supervisor")
    assert _kept(begun) is None
    _keep(begun, grown)
    assert _kept(begun) == grown


def test_another_process_continues_a_kept_turn(begun: Store, place: Path, clock: FakeClock) -> None:
    """BX-4: it knows nothing of what was kept before but what it reads."""
    turn = _turn("do it", "I look")
    _keep(begun, turn)
    other = Store.open(place, clock=clock)
    read = _kept(other)
    assert read == turn
    _keep(other, _grown(read, "a file"))
    assert _kept(begun) == _grown(turn, "a file")
    _keep(begun, _grown(turn, "another file"))
    assert _kept(other) == _grown(turn, "another file")
    other.close()


def test_keeping_a_turn_costs_the_same_however_long_it_is(path: Path, clock: FakeClock) -> None:
    """BX-23: counted in rows that change."""
    store = Store.open(path, clock=clock)
    action = an_action("schema")
    store_run(store, action)
    claim(store, an_attempt(action, id="attempt-1"))
    driver = store._connection.driver
    assert isinstance(driver, SqliteDriver)
    turn, changed = _turn("do it"), []
    for number in range(30):
        turn = _grown(turn, f"answer {number}")
        before = driver._raw.total_changes
        _keep(store, turn)
        changed.append(driver._raw.total_changes - before)
    assert {*changed[1:]} == {4}  # a message and the rest of the turn, for each of the two
    store.close()
