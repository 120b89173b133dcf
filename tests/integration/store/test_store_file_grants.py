"""File grants: added to an action's files, with an event, never changed or removed."""

import pytest

from builders import an_action, events_of, store_run
from scaffold.core.errors import StoreError
from scaffold.core.events import FilesGranted
from scaffold.core.model import FileGrant
from scaffold.run.attempts.assignment import read_declaration
from scaffold.store.database import Store
from support.fake_clock import FakeClock

ACTION = "run-1/x"


@pytest.fixture
def store(store: Store) -> Store:
    store_run(store, an_action("x", files=("a.py", "tests/")), an_action("y"))
    return store


def _grant(store: Store, *paths: str, by: str = "rule", reason: str = "needed") -> None:
    with store.transaction():
        store.file_grants.add(ACTION, paths, by=by, reason=reason)


def test_a_grant_is_stored_with_its_event(store: Store, clock: FakeClock) -> None:
    """AL-9, BX-13: the plan's own files stay as they are."""
    _grant(store, "b.py", "docs/")
    _grant(store, "conftest.py", by="human", reason="a fixture")
    assert store.file_grants.for_action(ACTION) == (
        FileGrant(path="b.py", by="rule", reason="needed", at=clock.now()),
        FileGrant(path="docs/", by="rule", reason="needed", at=clock.now()),
        FileGrant(path="conftest.py", by="human", reason="a fixture", at=clock.now()),
    )
    assert store.file_grants.for_run("run-1") == {ACTION: store.file_grants.for_action(ACTION)}
    assert store.actions.get(ACTION).files == ("a.py", "tests/")
    assert [event for event in events_of(store) if isinstance(event, FilesGranted)] == [
        FilesGranted("x", ("b.py", "docs/"), "rule", "needed"),
        FilesGranted("x", ("conftest.py",), "human", "a fixture"),
    ]


def test_a_repeated_grant_changes_nothing(store: Store) -> None:
    """BX-13: safe to repeat after a crash; a human's grant of what a rule granted in part is another one."""
    _grant(store, "b.py")
    _grant(store, "b.py", "c.py", reason="again")
    _grant(store, "b.py", by="human")
    grants = store.file_grants.for_action(ACTION)
    assert [(grant.path, grant.by, grant.reason) for grant in grants] == [
        ("b.py", "rule", "needed"),
        ("c.py", "rule", "again"),
        ("b.py", "human", "needed"),
    ]
    events = [event for event in events_of(store) if isinstance(event, FilesGranted)]
    assert [event.paths for event in events] == [("b.py",), ("c.py",), ("b.py",)]


def test_only_what_was_agreed_to_declares_everything(store: Store) -> None:
    """AL-9: a rule grants all but what judges the work."""
    _grant(store, "b.py")
    _grant(store, "conftest.py", by="reviewer")
    declaration = read_declaration(store, store.actions.get(ACTION))
    assert declaration.files == ("a.py", "tests/", "conftest.py")
    assert declaration.by_rule == ("b.py",)
    assert declaration.all == ("a.py", "tests/", "conftest.py", "b.py")
    assert declaration.planned == ("a.py", "tests/")


def test_an_unknown_action_is_granted_nothing(store: Store) -> None:
    with pytest.raises(StoreError), store.transaction():
        store.file_grants.add("nowhere", ["b.py"], by="rule", reason="")
