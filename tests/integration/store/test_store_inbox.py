"""The inbox: items are asked once, decided once, and closed when they expire."""

from datetime import timedelta
from itertools import product

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from builders import a_goal, a_run, an_action, an_attempt, events_of, store_run
from integration.store.builders import race
from scaffold.core.errors import IllegalTransition
from scaffold.core.events import NoticeRaised
from scaffold.core.model import Action, InboxItem, ProcessIdentity
from scaffold.core.states import Running, blocked_on_inbox, status_of
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from scaffold.store.run.inbox_items import DECISIONS
from support.fake_clock import FakeClock

STATES = ("approved", "rejected", "answered")
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def laid_out(store: Store) -> None:
    store_run(store, an_action("a"))


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
    """BX-13: a question outlives its process."""
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
    decide(store, "item-1", "approved")
    clock.advance(1)
    ask(store, replace(item, id="item-2", expires_at=clock.now()))
    with store.transaction():
        store.inbox.expire("run-1")
    assert events_of(store)[1:] == snapshot(
        [
            NoticeRaised(level="warning", text="approval item-1 waits for you: May I run `make deploy`?"),
            NoticeRaised(level="info", text="approval item-1 is approved: May I run `make deploy`?"),
            NoticeRaised(level="warning", text="approval item-2 waits for you: May I run `make deploy`?"),
            NoticeRaised(level="warning", text="item-2 expired without a decision"),
        ]
    )


def test_items_come_in_the_order_they_were_asked(store: Store, item: InboxItem) -> None:
    with store.transaction():
        store.runs.add(a_run("run-2"))
    for item_id, run_id in (("z", "run-1"), ("y", "run-2"), ("x", "run-1")):
        ask(store, replace(item, id=item_id, run_id=run_id, text=item_id))
    assert [each.id for each in store.inbox.open_of_run("run-1")] == ["z", "x"]


def test_each_kind_accepts_its_decisions_once(store: Store, item: InboxItem, clock: FakeClock) -> None:
    pairs = list(product(DECISIONS, STATES))
    refused = []
    for kind, to in pairs:
        asked = ask(store, replace(item, id=f"{kind}-{to}", kind=kind, text=f"{kind} {to}?"))
        try:
            with store.transaction():
                store.inbox.decide(asked.id, to, answer="as you like")
        except IllegalTransition:
            refused.append((kind, to))
            assert store.inbox.get(asked.id) == asked
            continue
        decided = replace(asked, state=to, answer="as you like", decided_at=clock.now())
        assert (store.inbox.get(asked.id), store.inbox.is_open(asked.id)) == (decided, False)
        assert asked.id in events_of(store)[-1].text
        with pytest.raises(IllegalTransition), store.transaction():
            store.inbox.decide(asked.id, to)
    assert refused == [(kind, to) for kind, to in pairs if to not in DECISIONS[kind]]
    assert [each.id for each in store.inbox.open_of_run("run-1")] == [f"{kind}-{to}" for kind, to in refused]


def test_asking_the_same_while_it_is_open_makes_one_item(store: Store, item: InboxItem) -> None:
    """BX-13: identical requests of several agents are one question; a decision is no rule for the next."""
    ask(store, item)
    same = replace(item, id="item-2", detail={"paths": ["a", "b"], "command": "make deploy"})
    assert ask(store, same) == item
    assert store.inbox.get("item-2") is None
    for number, other in enumerate([{"text": "else"}, {"detail": {}}, {"kind": "question"}]):
        assert ask(store, replace(item, id=f"other-{number}", **other)).id == f"other-{number}"
    decide(store, "item-1", "rejected")
    assert ask(store, same).id == "item-2"


def test_of_concurrent_requests_and_decisions_one_counts(store: Store, place: StoreLocation, item: InboxItem) -> None:
    def take_part(mine: Store, number: int) -> bool:
        mine.inbox.ask(replace(item, id=f"asker-{number}"))
        mine.inbox.decide("item-1", "approved", answer=str(number))
        return True

    ask(store, item)
    assert race(place, IllegalTransition, take_part).count(None) == 3


def test_an_expired_item_cannot_be_decided_and_is_asked_anew(store: Store, item: InboxItem, clock: FakeClock) -> None:
    """BX-13: an approval does not stay open for ever."""
    ask(store, replace(item, expires_at=clock.now() + HOUR))
    clock.advance(3599)
    assert len(store.inbox.open_of_run("run-1")) == 1
    clock.advance(1)
    assert store.inbox.open_of_run("run-1") == ()
    with pytest.raises(IllegalTransition), store.transaction():
        store.inbox.decide("item-1", "approved")
    assert ask(store, replace(item, id="item-2")).id == "item-2"
    assert store.inbox.get("item-1").state == "expired"


def waiting(store: Store, *actions: Action, item: InboxItem) -> InboxItem:
    """Ask, and let the actions wait for the item."""
    asked = ask(store, item)
    with store.transaction():
        store.actions.block({action.id: blocked_on_inbox(asked.id).reason for action in actions})
    return asked


def states(store: Store) -> dict[str, str]:
    return {action.key: status_of(action.state) for action in store.actions.for_run("run-1")}


@pytest.fixture
def family(store: Store) -> dict[str, Action]:
    """Two goals; one of them has a compound with a child."""
    other = a_goal("other")
    actions = {
        "b": an_action("b"),
        "parent": an_action("parent", kind="compound", state=Running()),
        "child": an_action("child", parent_id="run-1/parent"),
        "far": an_action("far", goal=other),
    }
    with store.transaction():
        store.goals.add(other)
        store.actions.add(list(actions.values()))
    return actions


def decide(store: Store, item_id: str, to: str, **how: object) -> None:
    with store.transaction():
        store.inbox.decide(item_id, to, **how)


def test_a_decision_unblocks_exactly_the_actions_that_wait_for_it(
    store: Store, item: InboxItem, family: dict[str, Action]
) -> None:
    """BX-13: identical requests wait for one item; the decision and its consequences are one transaction."""
    waiting(store, family["b"], family["far"], item=replace(item, action_id="run-1/b"))
    waiting(store, family["child"], item=replace(item, id="item-2", text="another"))
    assert [action.key for action in store.actions.waiters("run-1", "item-1")] == ["b", "far"]
    assert store.actions.waiting("run-1/shop") == 2
    decide(store, "item-1", "approved")
    assert states(store) == {"a": "pending", "b": "pending", "parent": "running", "child": "blocked", "far": "pending"}
    assert store.actions.waiting("run-1/shop") == 1
    assert store.actions.waiters("run-1", "item-1") == ()
    decide(store, "item-2", "rejected")
    assert states(store)["child"] == "pending"


def test_a_decision_that_is_rolled_back_unblocks_nothing(
    store: Store, item: InboxItem, family: dict[str, Action]
) -> None:
    waiting(store, family["b"], item=item)

    def decide_and_fail() -> None:
        with store.transaction():
            store.inbox.decide("item-1", "approved")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decide_and_fail()
    assert store.inbox.is_open("item-1")
    assert states(store)["b"] == "blocked"


def test_a_decision_covers_actions_within_its_scope(store: Store, item: InboxItem, family: dict[str, Action]) -> None:
    """BX-13: descendants of the action that asked inherit it."""
    parent = family["parent"]
    found = {}
    for scope in ("run", "goal", "action"):
        mine = replace(item, id=scope, text=scope, goal_id=parent.goal_id, action_id=parent.id)
        ask(store, mine)
        decide(store, scope, "approved", scope=scope)
        asked = {key: replace(mine, goal_id=each.goal_id, action_id=each.id) for key, each in family.items()}
        found[scope] = {key for key, each in asked.items() if store.inbox.in_force(each)}
    assert found == {
        "run": {"b", "child", "parent", "far"},
        "goal": {"b", "child", "parent"},
        "action": {"parent", "child"},
    }


def test_a_decision_covers_exactly_what_was_shown_until_it_expires(
    store: Store, item: InboxItem, clock: FakeClock
) -> None:
    """BX-13: another command or another reason is another question; the latest decision counts."""
    ask(store, item)
    assert store.inbox.in_force(item) is None
    decide(store, "item-1", "approved", valid_until=clock.now() + HOUR)
    assert store.inbox.in_force(replace(item, id="later")).id == "item-1"
    assert store.inbox.in_force(replace(item, detail={"command": "make deploy", "paths": ["a"]})) is None
    assert store.inbox.in_force(replace(item, text="May I run `make all`?")) is None
    assert store.inbox.in_force(replace(item, run_id="run-2")) is None
    clock.advance(3600)
    assert store.inbox.in_force(item) is None
    for item_id, to in (("anew", "approved"), ("again", "rejected")):
        assert ask(store, replace(item, id=item_id)).id == item_id
        decide(store, item_id, to, scope="run", answer=to)
        clock.advance(1)
        assert store.inbox.in_force(item).answer == to


def test_an_action_that_waits_for_an_expired_item_asks_again(
    store: Store, item: InboxItem, clock: FakeClock, family: dict[str, Action]
) -> None:
    """BX-13: the item is closed, with an event."""
    waiting(store, family["b"], item=replace(item, expires_at=clock.now() + HOUR))
    ask(store, replace(item, id="patient", text="no hurry"))
    assert not store.inbox.overdue("run-1")
    clock.advance(3600)
    assert store.inbox.overdue("run-1")
    assert not store.inbox.is_open("item-1")
    with store.transaction():
        assert store.inbox.expire("run-1") == ("item-1",)
        assert store.inbox.expire("run-1") == ()
    assert not store.inbox.overdue("run-1")
    assert states(store)["b"] == "pending"
    assert [store.inbox.get(each).state for each in ("item-1", "patient")] == ["expired", "open"]
    assert any("item-1" in event.text for event in events_of(store)[-2:] if isinstance(event, NoticeRaised))
    assert ask(store, replace(item, id="again")).id == "again"


def test_an_item_that_is_no_longer_needed_is_withdrawn(
    store: Store, item: InboxItem, family: dict[str, Action]
) -> None:
    """BX-13: of an ended action, unless another one waits for the same; a notice stays."""
    waiting(store, family["b"], item=replace(item, action_id="run-1/b"))
    waiting(store, family["far"], item=replace(item, id="shared", text="shared", action_id="run-1/b"))
    ask(store, replace(item, id="look", kind="notice", action_id="run-1/b"))
    with store.transaction():
        assert store.inbox.withdraw_unneeded("run-1") == ()
        store.actions.skip_pending("run-1/shop", "goal_complete")
        assert store.inbox.withdraw_unneeded("run-1") == ("item-1",)
    assert store.inbox.get("item-1").state == "withdrawn"
    assert [each.id for each in store.inbox.open()] == ["shared", "look"]
    with store.transaction():
        assert store.inbox.withdraw("run-1") == ("shared",)
    assert states(store)["far"] == "pending"
    assert [each.id for each in store.inbox.all()] == ["item-1", "shared", "look"]


def test_an_action_that_waits_for_a_human_keeps_waiting_and_its_compound_open(
    store: Store, item: InboxItem, family: dict[str, Action]
) -> None:
    """SC-5, BX-13: a retry after a failure of another action does not touch it."""
    waiting(store, family["b"], family["child"], item=item)
    with store.transaction():
        store.actions.block({"run-1/a": "dependency_failed:x"})
        assert store.actions.unblock("run-1/shop") == ("run-1/a",)
    assert (states(store)["b"], states(store)["child"]) == ("blocked", "blocked")
    (compound,) = store.actions.open_compounds("run-1/shop")
    assert (compound.children, compound.open_children) == (1, 1)


def test_approvals_of_an_action_can_be_found_again(store: Store, item: InboxItem) -> None:
    """BX-1: an approval the work depends on becomes evidence; open and rejected items do not."""
    mine = replace(item, action_id=an_action("a").id)
    for item_id, decision in (("yes", "approved"), ("no", "rejected"), ("open", None)):
        ask(store, replace(mine, id=item_id, text=item_id))
        if decision:
            with store.transaction():
                store.inbox.decide(item_id, decision, answer="because")
    (found,) = store.inbox.approved(an_action("a").id)
    assert (found.id, found.answer) == ("yes", "because")
    assert store.inbox.approved(an_action("b").id) == ()


def test_items_are_asked_at_terminals_while_they_are_open(store: Store, item: InboxItem) -> None:
    """BX-13: each terminal says what it asks; a decision ends that everywhere."""
    here, there = ProcessIdentity(1, "start", "boot"), ProcessIdentity(2, "start", "boot")
    for item_id in ("one", "two"):
        ask(store, replace(item, id=item_id, text=item_id))
    with store.transaction():
        store.inbox.ask_at_terminal(["one", "two", "unknown"], here)
        store.inbox.ask_at_terminal(["two"], there)
    assert store.inbox.terminals("run-1") == {"one": [here], "two": [here, there]}
    assert store.inbox.terminals("run-2") == {}
    with store.transaction():
        store.inbox.decide("two", "approved")
        store.inbox.ask_at_terminal(["one", "two"], there)
    assert store.inbox.terminals("run-1") == {"one": [here, there]}
    with store.transaction():
        store.inbox.ask_at_terminal([], there)
    assert store.inbox.terminals("run-1") == {"one": [here]}
    with store.transaction():
        store.inbox.withdraw("run-1")
    assert store.inbox.terminals("run-1") == {}
