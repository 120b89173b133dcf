"""Work items in the store: links, logs, and changes that are made whole or not at all."""

import pytest
from msgspec.structs import replace

from builders import an_action, an_attempt, claim, store_run
from scaffold.core.errors import StaleFence
from scaffold.core.work_item import WorkItem
from scaffold.plan.items import moved
from scaffold.run.item_changes import add_item, change_item
from scaffold.store.database import Store
from support.fake_clock import FakeClock


def an_item(name: str, **fields) -> WorkItem:
    now = FakeClock().now()
    return WorkItem(id=name, **{"title": f"do {name}", "created_at": now, "updated_at": now, **fields})


def test_an_item_is_stored_with_its_links_and_its_log(store: Store, clock: FakeClock) -> None:
    """AL-29."""
    add_item(store, an_item("e", kind="epic"))
    full = an_item(
        "a", description="long\ntext", priority=0, parent="e", project="shop", labels=("bug",), run="r", action="k"
    )
    assert add_item(store, full) == full
    add_item(store, an_item("b", blocked_by=("a",)))
    add_item(store, an_item("c"), blocks=("a", "b"))
    known = store.work_items.all()
    assert known["a"] == replace(full, blocked_by=("c",))
    assert {name: each.blocked_by for name, each in known.items()} == {"e": (), "a": ("c",), "b": ("a", "c"), "c": ()}
    clock.advance(60)
    change_item(store, "a", lambda item, known: moved(item, "blocked", known, reason="no server"), "tried it")
    assert [each.text for each in store.work_items.logs("a")] == ["added", "blocked: no server", "tried it"]
    assert store.work_items.all()["a"].updated_at == clock.now()
    assert store.work_items.logs("nobody") == ()


def test_a_refused_change_changes_nothing(store: Store) -> None:
    """AL-29: of two links, none is stored if one would make a circle."""
    add_item(store, an_item("a"))
    add_item(store, an_item("b", blocked_by=("a",)))
    before = store.work_items.all()
    assert "circle" in add_item(store, an_item("c", blocked_by=("b",)), blocks=("a",))
    assert "circle" in change_item(store, "a", lambda item, _: replace(item, blocked_by=("b",)))
    assert change_item(store, "b", lambda item, known: moved(item, "in_progress", known)) == "it waits for a"
    assert store.work_items.all() == before
    assert len(store.work_items.logs("a")) == 1


def test_what_two_attempts_find_is_one_item(store: Store) -> None:
    """AL-32: the log says who else found it; an attempt that was ended files nothing."""
    action = an_action("x")
    store_run(store, action)
    attempt = an_attempt(action)
    claim(store, attempt)
    found = an_item("a", title="Leak in cache", action="x", by_agent=True)
    assert add_item(store, found, attempt=attempt) == found
    assert add_item(store, replace(found, id="b", title="leak in CACHE"), attempt=attempt) == found
    assert store.work_items.count_of_attempt(attempt.id) == 1
    assert [each.text for each in store.work_items.logs("a")] == ["filed in x", "also found in x"]
    with store.transaction():
        store.attempts.end(attempt.id, outcome="lost")
    with pytest.raises(StaleFence):
        add_item(store, replace(found, id="c", title="other"), attempt=attempt)
    assert [*store.work_items.all()] == ["a"]
