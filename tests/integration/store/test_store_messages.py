"""Messages: sent in order, seen before they are taken, taken once, deleted when expired."""

from datetime import timedelta

import pytest

from builders import a_run
from integration.store.builders import race
from scaffold.core.errors import StoreError
from scaffold.core.model import Envelope
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from support.fake_clock import FakeClock

RUN = "run-1"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def laid_out(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run())
        store.runs.add(a_run("run-2"))


def send(store: Store, text: str, **fields) -> int:
    given = {"sender": "ada", "recipient": "bob"} | fields
    with store.transaction():
        return store.messages.send(RUN, body={"text": text}, **given)


def publish(store: Store, text: str, sender: str, channel: str = "news") -> int:
    with store.transaction():
        return store.messages.publish(RUN, sender=sender, channel=channel, body={"text": text})


def consume(store: Store, seq: int) -> bool:
    with store.transaction():
        return store.messages.consume(RUN, seq)


def texts(store: Store, recipient: str, **options) -> list[str]:
    return [envelope.body["text"] for envelope in store.messages.peek(RUN, recipient, **options)]


def test_a_message_reads_back_with_every_field(store: Store, clock: FakeClock) -> None:
    """RA-12: direct messages, with an expiry."""
    later = clock.now() + HOUR
    with store.transaction():
        seq = store.messages.send(
            RUN, sender="ada", recipient="bob", body={"text": "hello", "list": [1, None]}, expires_at=later
        )
    (envelope,) = store.messages.peek(RUN, "bob")
    assert envelope == Envelope(
        seq=seq,
        scope=RUN,
        sender="ada",
        recipient="bob",
        channel=None,
        body={"text": "hello", "list": [1, None]},
        created_at=clock.now(),
        expires_at=later,
    )


def test_messages_come_in_order_to_their_recipient_in_their_run(store: Store) -> None:
    assert [send(store, text) for text in ("first", "second")] == [1, 2]
    send(store, "not yours", recipient="eve")
    with store.transaction():
        assert store.messages.send("run-2", sender="ada", recipient="bob", body={"text": "elsewhere"}) == 1
    assert texts(store, "bob") == ["first", "second"]
    assert texts(store, "bob", limit=1) == ["first"]


def test_a_message_is_seen_until_it_is_taken_and_taken_once(store: Store) -> None:
    """RA-12: peek, then consume: after a crash in between it is seen again."""
    seq = send(store, "hello")
    assert texts(store, "bob") == texts(store, "bob") == ["hello"]
    assert consume(store, seq)
    assert texts(store, "bob") == []
    assert not consume(store, seq)
    assert not consume(store, 99)


def test_one_of_many_concurrent_takers_of_a_message_gets_it(store: Store, place: StoreLocation) -> None:
    seq = send(store, "hello")
    taken = race(place, StoreError, lambda mine, _: mine.messages.consume(RUN, seq))
    assert sorted(taken) == [False, False, False, True]


def test_a_published_message_reaches_every_subscriber_but_its_sender(store: Store) -> None:
    """RA-12: channels; each subscriber takes its own copy, of what is published once it has subscribed."""
    assert publish(store, "early", sender="ada") == 0
    with store.transaction():
        for subscriber in ("ada", "bob", "eve", "bob"):
            store.messages.subscribe(RUN, "news", subscriber)
        store.messages.subscribe("run-2", "news", "stranger")
    assert publish(store, "it works", sender="ada") == 2
    assert texts(store, "ada", channel="news") == []
    (envelope,) = store.messages.peek(RUN, "bob", channel="news")
    assert (envelope.sender, envelope.channel) == ("ada", "news")
    assert consume(store, envelope.seq)
    assert texts(store, "bob", channel="news") == []
    assert texts(store, "eve", channel="news") == ["it works"]
    assert texts(store, "eve") == texts(store, "eve", channel="gossip") == []


def test_expired_messages_are_neither_seen_nor_taken_and_are_deleted(store: Store, clock: FakeClock) -> None:
    """RA-12: expiry; a late consumer removes no other message, as no number is used again."""
    send(store, "lasting")
    taken = send(store, "taken", expires_at=clock.now() + HOUR)
    old = send(store, "old", expires_at=clock.now() + HOUR)
    assert consume(store, taken)
    clock.advance(3599)
    assert texts(store, "bob") == ["lasting", "old"]
    clock.advance(1)
    assert texts(store, "bob") == ["lasting"]
    assert not consume(store, old)
    with store.transaction():
        assert store.messages.expire(RUN) == 1
        assert store.messages.expire(RUN) == 0
    assert texts(store, "bob") == ["lasting"]
    assert send(store, "next") == old + 1


def test_all_waiting_messages_are_seen_at_once_except_of_one_channel(store: Store) -> None:
    """RA-12: direct messages and those of channels, in the order they were sent."""
    send(store, "direct")
    for channel in ("news", "#ours"):
        send(store, f"on {channel}", channel=channel)
    waiting = store.messages.waiting(RUN, "bob", but="#ours")
    assert [envelope.body["text"] for envelope in waiting] == ["direct", "on news"]
    assert len(store.messages.waiting(RUN, "bob")) == 3
    assert len(store.messages.waiting(RUN, "bob", limit=2)) == 2
    assert store.messages.waiting(RUN, "eve") == ()
