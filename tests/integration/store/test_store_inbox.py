"""The inbox: asked once, decided once, closed when nobody decided in time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
from msgspec.structs import replace

from integration.store.nouns import a_goal, a_run, an_action, an_attempt, events_of, lay_out
from scaffold.core.errors import IllegalMove, StoreTrouble
from scaffold.core.events import Noticed
from scaffold.core.model import InboxItem
from scaffold.host.clock import FakeClock
from scaffold.store.database import Store
from scaffold.store.inbox import DECISIONS
from scaffold.store.place import Place

STATES = ("approved", "rejected", "answered")
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def laid_out(store: Store) -> None:
    lay_out(store, an_action("a"))


@pytest.fixture
def item(clock: FakeClock) -> InboxItem:
    return InboxItem(
        id="item-1",
        run_id="run-1",
        kind="approval",
        text="May I run `make deploy`?",
        detail={"command": "make deploy", "paths": ["a", "b"]},
        created_at=clock.now(),
    )


def ask(store: Store, item: InboxItem) -> InboxItem:
    with store.transaction():
        return store.inbox.ask(item)


def test_an_item_reads_back_with_every_field(store: Store, item: InboxItem, clock: FakeClock) -> None:
    """BX-13: what is asked outlives whoever asked."""
    attempt = an_attempt(an_action("a"))
    with store.transaction():
        store.attempts.open(attempt)
    about = {"goal_id": a_goal().id, "action_id": attempt.action_id, "attempt_id": attempt.id}
    item = replace(item, **about, expires_at=clock.now() + HOUR)
    assert ask(store, item) == item
    assert store.inbox.get("item-1") == item
    assert store.inbox.open_of_run("run-1") == (item,)
    assert store.inbox.by_prefix("item") == (item,)
    assert store.inbox.get("nobody") is None
    assert store.inbox.by_prefix("tem") == ()
    assert events_of(store)[-1] == Noticed("warning", "approval item-1 waits for you: May I run `make deploy`?")


def test_items_come_in_the_order_they_were_asked(store: Store, item: InboxItem) -> None:
    with store.transaction():
        store.runs.add(a_run("run-2"))
    for item_id, run_id in (("z", "run-1"), ("y", "run-2"), ("x", "run-1")):
        ask(store, replace(item, id=item_id, run_id=run_id, text=item_id))
    assert [each.id for each in store.inbox.open_of_run("run-1")] == ["z", "x"]


@pytest.mark.parametrize("kind", DECISIONS)
@pytest.mark.parametrize("to", STATES)
def test_a_kind_takes_the_decisions_that_fit_it_once(
    store: Store, item: InboxItem, clock: FakeClock, kind: str, to: str
) -> None:
    item = ask(store, replace(item, kind=kind))
    if to not in DECISIONS[kind]:
        with pytest.raises(IllegalMove, match=f"from open to {to}"), store.transaction():
            store.inbox.decide("item-1", to)
        assert store.inbox.get("item-1") == item
        return
    with store.transaction():
        store.inbox.decide("item-1", to, answer="as you like")
    assert store.inbox.get("item-1") == replace(item, state=to, answer="as you like", decided_at=clock.now())
    assert store.inbox.open_of_run("run-1") == ()
    assert events_of(store)[-1] == Noticed("info", f"{kind} item-1 is {to}: {item.text}")
    with pytest.raises(IllegalMove, match=f"from {to}"), store.transaction():
        store.inbox.decide("item-1", to)


def test_asking_the_same_while_it_is_open_is_asking_once(store: Store, item: InboxItem) -> None:
    """BX-13: identical requests of several agents are one question to the human."""
    ask(store, item)
    same = replace(item, id="item-2", detail={"paths": ["a", "b"], "command": "make deploy"})
    assert ask(store, same) == item
    assert store.inbox.get("item-2") is None
    for number, other in enumerate([{"text": "else"}, {"detail": {}}, {"kind": "question"}]):
        assert ask(store, replace(item, id=f"other-{number}", **other)).id == f"other-{number}"


def test_asking_again_after_the_decision_is_a_new_question(store: Store, item: InboxItem) -> None:
    """A decision is about one request: it is no rule for the next."""
    ask(store, item)
    with store.transaction():
        store.inbox.decide("item-1", "rejected")
    assert ask(store, replace(item, id="item-2")).id == "item-2"


def test_of_many_that_ask_and_decide_at_once_one_counts(store: Store, place: Place, item: InboxItem) -> None:
    def take_part(number: int) -> tuple[str, bool]:
        with closing(Store.open(place, clock=FakeClock())) as mine:
            asked = ask(mine, replace(item, id=f"asker-{number}"))
            try:
                with mine.transaction():
                    mine.inbox.decide("item-1", "approved", answer=str(number))
            except (IllegalMove, StoreTrouble):
                return asked.id, False
            return asked.id, True

    ask(store, item)
    with ThreadPoolExecutor(4) as pool:
        decided = [decided for _, decided in pool.map(take_part, range(4))]
    assert sorted(decided) == [False, False, False, True]


def test_what_nobody_decided_in_time_cannot_be_decided(store: Store, item: InboxItem, clock: FakeClock) -> None:
    """BX-13: an approval does not lie about for ever."""
    ask(store, replace(item, expires_at=clock.now() + HOUR))
    clock.advance(3599)
    assert len(store.inbox.open_of_run("run-1")) == 1
    clock.advance(1)
    assert store.inbox.open_of_run("run-1") == ()
    with pytest.raises(IllegalMove, match="expired at"), store.transaction():
        store.inbox.decide("item-1", "approved")


def test_expired_items_are_closed_and_told_of(store: Store, item: InboxItem, clock: FakeClock) -> None:
    ask(store, replace(item, expires_at=clock.now() + HOUR))
    ask(store, replace(item, id="patient", text="no hurry"))
    clock.advance(3600)
    with store.transaction():
        assert store.inbox.expire("run-1") == ("item-1",)
        assert store.inbox.expire("run-1") == ()
    assert store.inbox.get("item-1").state == "expired"
    assert store.inbox.get("patient").state == "open"
    assert events_of(store)[-1] == Noticed("warning", "item-1 expired without a decision")
    assert ask(store, replace(item, id="again")).id == "again"


def test_asking_in_place_of_an_expired_item_is_a_new_question(store: Store, item: InboxItem, clock: FakeClock) -> None:
    ask(store, replace(item, expires_at=clock.now() + HOUR))
    clock.advance(3600)
    assert ask(store, replace(item, id="item-2")).id == "item-2"
    assert store.inbox.get("item-1").state == "expired"


def test_a_decision_about_nothing_is_trouble(store: Store) -> None:
    with pytest.raises(StoreTrouble, match="no inbox item 'nobody'"), store.transaction():
        store.inbox.decide("nobody", "approved")
