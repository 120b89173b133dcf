"""Stored subagents: numbered in their session, ended once."""

from datetime import timedelta

import pytest

from builders import ALIVE
from scaffold.core.errors import StoreError
from scaffold.core.model import Usage
from scaffold.store.user.subagents import StoredSubagent
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

TASK = {"task": "count", "context": "from 1", "spec": "{}", "timeout_s": 60.0}


@pytest.fixture(autouse=True)
def laid_out(user: UserStore) -> None:
    with user.transaction():
        for session in ("ann", "ben"):
            user.conversations.begin(session, cwd="/shop", model="m", title="t")


def add(user: UserStore, parent: str) -> str:
    number = user.subagents.next_number(parent)
    with user.transaction():
        user.conversations.begin(f"{parent}/sub-{number}", cwd="/shop", model="m", title="t", parent=parent)
        user.subagents.add(f"{parent}/sub-{number}", parent=parent, number=number, **TASK)
    return f"{parent}/sub-{number}"


def end(user: UserStore, subagent: str, status: str, error: str) -> bool:
    with user.transaction():
        return user.subagents.end(subagent, status, error=error)


def test_a_subagent_reads_back_with_every_field(user: UserStore, neighbour: UserStore, clock: FakeClock) -> None:
    """RA-11: id, task, status, result and usage."""
    one = add(user, "ann")
    with user.transaction():
        user.subagents.started(one, ALIVE)
        user.subagents.report(one, "success", result="7", error=None)
    clock.advance(9)
    assert end(user, one, "failure", "it crashed")
    assert neighbour.subagents.get(one) == StoredSubagent(
        id=one,
        parent="ann",
        number=1,
        model="m",
        status="success",
        outcome="success",
        result="7",
        error=None,
        process=ALIVE,
        usage=Usage(),
        started_at=clock.now() - timedelta(seconds=9),
        ended_at=clock.now(),
        **TASK,
    )
    assert user.subagents.get(one).name == "sub-1"


def test_each_session_has_its_own_numbers(user: UserStore) -> None:
    assert [add(user, parent) for parent in ("ann", "ben", "ann")] == ["ann/sub-1", "ben/sub-1", "ann/sub-2"]
    assert [each.id for each in user.subagents.for_parent("ann")] == ["ann/sub-1", "ann/sub-2"]
    assert end(user, "ann/sub-1", "timeout", "too long")
    assert (user.subagents.running("ann"), user.subagents.running("ben")) == (1, 1)


def test_a_subagent_ends_once_and_cannot_change_afterwards(user: UserStore, neighbour: UserStore) -> None:
    """RA-11: a second end, in any process, changes nothing."""
    one = add(user, "ann")
    assert end(neighbour, one, "timeout", "too long")
    assert not end(user, one, "cancelled", "over")
    with user.transaction():
        assert not user.subagents.report(one, "success", result="late", error=None)
    ended = user.subagents.get(one)
    assert (ended.status, ended.error, ended.result) == ("timeout", "too long", None)


def test_text_that_no_database_accepts_is_escaped(user: UserStore) -> None:
    one = add(user, "ann")
    with user.transaction():
        user.subagents.report(one, "failure", result="\ud800", error="\udcff")
    assert (user.subagents.get(one).result, user.subagents.get(one).error) == ("\\ud800", "\\udcff")


def test_a_missing_subagent_is_an_error(user: UserStore) -> None:
    with pytest.raises(StoreError, match="no subagent 'ann/sub-9'"):
        user.subagents.get("ann/sub-9")
