from contextlib import closing

import pytest

from scaffold.core.errors import ConversationBusy
from scaffold.host.process_identity import own_identity
from scaffold.session.open_conversation import (
    open_conversation,
    store_effort,
    stored_effort,
    stored_modes,
    stored_todos,
)
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock


@pytest.fixture
def store(tmp_path):
    with closing(UserStore.open(tmp_path / "user.db", clock=FakeClock())) as store:
        yield store


@pytest.fixture
def seat(store):
    """A new conversation, claimed."""
    with open_conversation(store, None, cwd="/shop", model="m", title="t", me=own_identity()) as seat:
        yield seat


def test_mode_and_todos_are_stored_as_soon_as_they_change(seat):
    """RA-5."""
    modes, todos = stored_modes(seat, None), stored_todos(seat)
    assert (modes.current, todos.entries) == ("default", ())
    modes.switch("debug")
    todos.change("create", [{"content": "mend the clock"}])
    assert stored_modes(seat, None).current == "debug"
    assert stored_todos(seat).render() == "[ ] 1. mend the clock"


def test_the_requested_mode_wins_and_is_stored_and_an_unknown_one_counts_as_the_default(seat):
    """RA-5."""
    assert stored_modes(seat, "plan").current == "plan"
    assert stored_modes(seat, None).current == "plan"
    with seat.store.transaction():
        seat.store.conversations.keep_mode(seat.id, "zen", me=seat.owner)
    assert stored_modes(seat, None).current == "default"
    assert seat.store.conversations.state(seat.id).mode == "zen"


def test_a_chosen_effort_is_stored(seat):
    """RA-5, RA-10: none until the user chooses one; one that only a newer program knows counts as none."""
    assert stored_effort(seat.store, seat.id) is None
    store_effort(seat, "high")
    assert stored_effort(seat.store, seat.id) == "high"
    store_effort(seat, "auto")
    assert stored_effort(seat.store, seat.id) == "auto"
    with seat.store.transaction():
        seat.store.conversations.keep_effort(seat.id, "utmost", me=seat.owner)
    assert stored_effort(seat.store, seat.id) is None
    assert seat.store.conversations.state(seat.id).effort == "utmost"


def test_a_conversation_of_another_process_is_not_changed(seat):
    """RA-10."""
    todos = stored_todos(seat)
    with seat.store.transaction():
        seat.store.conversations.release(seat.id, seat.owner)
    with pytest.raises(ConversationBusy):
        todos.change("create", [{"content": "a"}])
    assert todos.entries == ()
