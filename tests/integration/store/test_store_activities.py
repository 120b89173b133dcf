"""Steps: what each attempt and the owner are doing, and how long commands took before."""

import pytest

from builders import an_action, store_run
from scaffold.core.model import Activity, CurrentActivity
from scaffold.store.database import Store
from support.fake_clock import FakeClock

GATE = Activity(label="test", command="pytest -q", folder="api")
CHECK = Activity(label="check", command="pytest -q")
WAIT = Activity(label="waits for another gate", is_whole=False)


@pytest.fixture
def store(store: Store) -> Store:
    store_run(store, an_action("x"))
    return store


def _step(clock: FakeClock, work: Activity, attempt_id: str | None = "a1", fence: int = 1) -> CurrentActivity:
    stage = "" if attempt_id else "preparing"
    return CurrentActivity(
        run_id="run-1", attempt_id=attempt_id, fence=fence, stage=stage, work=work, since=clock.now()
    )


def _set(store: Store, step: CurrentActivity) -> None:
    with store.transaction():
        store.activities.set(step)


def test_each_attempt_and_the_owner_have_one_step(store: Store, clock: FakeClock) -> None:
    """AL-26."""
    own, first = _step(clock, GATE, None), _step(clock, CHECK)
    for step in (_step(clock, WAIT), own, first):
        _set(store, step)
    assert store.activities.for_run("run-1", fence=1) == (own, first)
    with store.transaction():
        store.activities.clear(first)
    assert store.activities.for_run("run-1", fence=1) == (own,)


def test_what_a_process_of_an_earlier_owner_did_does_not_count(store: Store, clock: FakeClock) -> None:
    """AL-27: a killed process leaves its step behind; clearing it later leaves that of the next one alone."""
    dead = _step(clock, CHECK, fence=1)
    _set(store, dead)
    assert store.activities.for_run("run-1", fence=2) == ()
    living = _step(clock, GATE, fence=2)
    _set(store, living)
    with store.transaction():
        store.activities.clear(dead)
    assert store.activities.for_run("run-1", fence=2) == (living,)
    _set(store, dead)
    assert store.activities.for_run("run-1", fence=2) == (living,), "it was late"


def test_a_step_tells_how_long_the_same_command_took_last(store: Store, clock: FakeClock) -> None:
    """AL-26: in the same folder; a wait and a part of the tests tell nothing."""
    with store.transaction():
        store.activities.keep_duration(GATE, 12.0)
        store.activities.keep_duration(GATE, 9.25)
    assert (store.activities.duration(GATE), store.activities.duration(CHECK)) == (9.25, None)
    part = Activity(label="a part of test", command=GATE.command, folder=GATE.folder, is_whole=False)
    for number, work in enumerate((GATE, CHECK, part, WAIT)):
        _set(store, _step(clock, work, f"a{number}"))
    assert [step.last_s for step in store.activities.for_run("run-1", fence=1)] == [9.25, None, None, None]
