"""Runs: found again, moved by their transition table, owned by one process at a time."""

from contextlib import suppress
from itertools import product

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from builders import OWNER, RIVAL, SETTINGS, a_run, an_action, an_attempt, claim, events_of, store_run, with_settings
from integration.store.builders import race
from scaffold.core.errors import IllegalTransition, StaleFence
from scaffold.core.events import NoticeRaised, RunClaimed, RunStatusChanged
from scaffold.core.model import Usage
from scaffold.core.states import RUN_TRANSITIONS, Active, Paused, parse_run_state, status_of
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from support.fake_clock import FakeClock


def test_a_run_reads_back_as_it_was_stored(store: Store) -> None:
    run = a_run(base_branch=None, state=Paused("budget"), fence=3, owner=OWNER)
    with store.transaction():
        store.runs.add(run)
    assert store.runs.get(run.id) == run
    assert store.runs.get("nobody") is None


def test_runs_come_newest_first_even_if_the_clock_went_back(store: Store, clock: FakeClock) -> None:
    assert store.runs.latest() is None
    with store.transaction():
        store.runs.add(a_run("b", created_at=clock.now()))
        store.runs.add(a_run("a", created_at=clock.now().replace(year=2029), input_hash="other"))
        store.runs.add(a_run("c", created_at=clock.now().replace(year=2028)))
    assert [run.id for run in store.runs.all()] == ["c", "a", "b"]
    assert store.runs.latest() == store.runs.get("c")
    assert [run.id for run in store.runs.by_input("input-1")] == ["c", "b"]


def test_the_latest_run_is_the_one_in_which_something_happened_last(store: Store) -> None:
    """SC-19: whatever the clock says; a request to its owner counts, a heartbeat does not."""
    with store.transaction():
        for name in "abc":
            store.runs.add(a_run(name))
    for name, touch in (
        ("a", lambda: store.runs.move("a", Active())),
        ("b", lambda: store.runs.ask("b", "pause")),
        ("c", lambda: store.events.append("c", NoticeRaised("info", "x"))),
    ):
        with store.transaction():
            touch()
        assert store.runs.latest().id == name
    with store.transaction():
        store.runs.record_heartbeat("a", fence=0, at=5.0)
    assert [run.id for run in store.runs.all()] == ["c", "b", "a"]
    assert [run.id for run in store.runs.underway()] == ["c", "b", "a"]
    with store.transaction():
        store.runs.move("c", Paused("x"))
    assert [run.id for run in store.runs.underway()] == ["b", "a"]


def test_a_prefix_is_taken_literally(store: Store) -> None:
    with store.transaction():
        for run_id in ("ab-1", "ab-2", "a%-3", "AB-4"):
            store.runs.add(a_run(run_id))
    assert [run.id for run in store.runs.by_prefix("ab")] == ["ab-2", "ab-1"]
    assert [run.id for run in store.runs.by_prefix("a%")] == ["a%-3"]
    assert store.runs.by_prefix("b") == ()
    assert len(store.runs.by_prefix("")) == 4


def test_a_run_moves_by_its_table_and_records_an_event(store: Store, clock: FakeClock) -> None:
    """OR-8: several runs share one store, and none changes with another."""
    expected = {}
    for was, to in product(RUN_TRANSITIONS, RUN_TRANSITIONS):
        run = a_run(f"{was}-{to}", state=parse_run_state(was, "before"))
        target = parse_run_state(to, "a reason")
        with store.transaction():
            store.runs.add(run)
        with suppress(IllegalTransition), store.transaction():
            store.runs.move(run.id, target)
        moved = replace(run, state=target, updated_at=clock.now())
        event = RunStatusChanged(status_of(target), getattr(target, "reason", None))
        expected[run.id] = (moved, [event]) if was in RUN_TRANSITIONS[to] else (run, [])
    assert {run_id: (store.runs.get(run_id), events_of(store, run_id)) for run_id in expected} == expected


def test_each_owner_gets_a_higher_fence(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run())
    with store.transaction():
        assert store.runs.take("run-1", OWNER, expected_fence=0) == 1
    with store.transaction():
        assert store.runs.take("run-1", RIVAL, expected_fence=1) == 2
    assert store.runs.get("run-1").owner == RIVAL
    assert store.runs.get("run-1").fence == 2
    assert events_of(store) == [RunClaimed(OWNER.pid, 1), RunClaimed(RIVAL.pid, 2)]


def test_a_superseded_owner_is_refused_everywhere(store: Store) -> None:
    """BX-8: an older fence writes nothing."""
    with store.transaction():
        store.runs.add(a_run(fence=2, owner=RIVAL))
    late = [
        lambda: store.runs.move("run-1", Active(), fence=1),
        lambda: store.runs.take("run-1", OWNER, expected_fence=1),
        lambda: store.runs.release("run-1", fence=1),
        lambda: store.runs.check("run-1", fence=1),
    ]
    for change in late:
        with pytest.raises(StaleFence) as caught, store.transaction():
            change()
        assert (caught.value.what, caught.value.fix) == snapshot(
            (
                "this process no longer owns run 'run-1': its fence is 2, not 1",
                "Stop writing: another process has taken over, see `scaffold status`.",
            )
        )
    assert store.runs.get("run-1") == a_run(fence=2, owner=RIVAL)
    assert events_of(store) == []


def test_the_owner_may_move_check_and_release(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run(fence=2, owner=OWNER))
    with store.transaction():
        store.runs.check("run-1", fence=2)
        store.runs.move("run-1", Active(), fence=2)
        store.runs.release("run-1", fence=2)
    run = store.runs.get("run-1")
    assert (run.state, run.owner, run.fence) == (Active(), None, 2)


def test_one_of_many_concurrent_takeovers_of_a_run_wins(store: Store, place: StoreLocation) -> None:
    """BX-8: the fence is raised by compare-and-swap."""
    with store.transaction():
        store.runs.add(a_run())
    fences = race(place, StaleFence, lambda mine, _: mine.runs.take("run-1", OWNER, expected_fence=0))
    assert sorted(fences, key=str) == [1, None, None, None]
    assert store.runs.get("run-1").fence == 1


def test_settings_can_be_replaced(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run())
        store.runs.configure("run-1", with_settings(SETTINGS, agents=7, budget_usd=1.5))
    assert store.runs.get("run-1").settings == with_settings(SETTINGS, agents=7, budget_usd=1.5)


def test_a_control_request_is_visible_to_other_connections_and_can_be_withdrawn(store: Store, rival: Store) -> None:
    with store.transaction():
        store.runs.add(a_run())
    assert rival.runs.control_request("run-1") is None
    for request in ("stop", "pause", "cancel", None):
        with store.transaction():
            store.runs.ask("run-1", request)
        assert rival.runs.control_request("run-1") == request


def test_a_request_that_is_answered_is_withdrawn_unless_another_one_came_since(store: Store) -> None:
    """SC-17: a stop is not lost while the owner answers a resume."""
    with store.transaction():
        store.runs.add(a_run())
    for asked, left in (("resume", None), ("stop", "stop")):
        with store.transaction():
            store.runs.ask("run-1", asked)
        with store.transaction():
            store.runs.answer("run-1", "resume")
        assert store.runs.control_request("run-1") == left


def test_the_cost_of_a_run_is_the_sum_of_its_attempts_and_unknown_if_one_is(store: Store) -> None:
    store_run(store, *(an_action(key) for key in "abc"))
    total = Usage()
    assert store.runs.spent("run-1") == total
    used = Usage(input_tokens=10, cached_input_tokens=4, output_tokens=3, cost_usd=0.5, requests=1)
    for key, usage in (("a", used), ("b", used), ("c", Usage(cost_usd=None, requests=1))):
        attempt = an_attempt(an_action(key))
        claim(store, attempt)
        with store.transaction():
            store.attempts.account(attempt.id, fence=1, usage=usage)
        total += usage
        assert store.runs.spent("run-1") == total
    assert total.cost_usd is None
