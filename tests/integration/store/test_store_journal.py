"""Events and intents: what happened, and what was about to happen."""

import pytest

from builders import a_run, an_action, an_attempt, an_intent, store_run
from scaffold.core.errors import IllegalTransition
from scaffold.core.events import ActionLanded, NoticeRaised, RunCreated, StoredEvent
from scaffold.core.states import Active
from scaffold.store.database import Store
from support.fake_clock import FakeClock

ACTION = an_action("api")
ATTEMPT = an_attempt(ACTION)


def test_events_are_numbered_by_run_and_read_in_order(store: Store, clock: FakeClock) -> None:
    opened = RunCreated("add a shop", "b" * 40, "session-run-1", 1, 2)
    start = clock.now()
    with store.transaction():
        store.runs.add(a_run("run-1"))
        store.runs.add(a_run("run-2"))
        assert store.events.append("run-1", opened) == 1
        assert store.events.append("run-2", NoticeRaised("info", "other")) == 1
    clock.advance(2.5)
    with store.transaction():
        assert store.events.append("run-1", ActionLanded("api", "c" * 40)) == 2
    first, second = StoredEvent(1, start, opened), StoredEvent(2, clock.now(), ActionLanded("api", "c" * 40))
    assert store.events.since("run-1", 0) == (first, second)
    assert store.events.since("run-1", 1) == (second,)
    assert store.events.since("run-1", 0, limit=1) == (first,)
    assert store.events.since("run-1", 2) == ()
    assert (store.events.last_seq("run-1"), store.events.last_seq("run-2")) == (2, 1)
    assert store.events.last_seq("nobody") == 0


def test_a_notice_is_found_by_its_level_and_text(store: Store) -> None:
    full = NoticeRaised("warning", 'the disk is "full": 100 %')
    with store.transaction():
        store.runs.add(a_run("run-1"))
        store.runs.add(a_run("run-2"))
        store.events.append("run-1", full)
        assert store.events.has_notice("run-1", full), "in the transaction that appends it, too"
    assert store.events.has_notice("run-1", full)
    assert not store.events.has_notice("run-2", full)
    assert not store.events.has_notice("run-1", NoticeRaised("info", full.text))
    assert not store.events.has_notice("run-1", NoticeRaised("warning", "the disk is full"))


def test_a_rolled_back_transaction_leaves_no_gap_in_the_numbers(store: Store) -> None:
    store_run(store)

    def move_and_fail() -> None:
        with store.transaction():
            store.runs.move("run-1", Active())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        move_and_fail()
    with store.transaction():
        assert store.events.append("run-1", NoticeRaised("info", "hello")) == 1


def test_intents_are_open_until_they_are_settled(store: Store) -> None:
    store_run(store, ACTION)
    intents = [an_intent(ATTEMPT, intent_id) for intent_id in ("z", "y", "x")]
    with store.transaction(durable=True):
        store.attempts.open(ATTEMPT)
        for intent in intents:
            store.intents.add(intent)
    assert store.intents.open_of_run("run-1") == tuple(intents)
    assert store.intents.open_of_run("run-2") == ()
    with store.transaction(durable=True):
        store.intents.settle("z", done=True)
        store.intents.settle("y", done=False)
    assert store.intents.open_of_run("run-1") == (intents[2],)


def test_an_intent_is_settled_once(store: Store) -> None:
    store_run(store, ACTION)
    with store.transaction():
        store.attempts.open(ATTEMPT)
        for name in ("done", "dropped"):
            store.intents.add(an_intent(ATTEMPT, name))
    for name in ("done", "dropped", "done", "dropped"):
        with store.transaction():
            store.intents.settle(name, done=name == "done")
    for name in ("done", "dropped"):
        with pytest.raises(IllegalTransition, match=name), store.transaction():
            store.intents.settle(name, done=name != "done")
