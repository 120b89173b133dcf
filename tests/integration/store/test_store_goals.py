"""Goals: stored in order, moved by their transition table, reached only by facts."""

from itertools import product

import pytest
from msgspec.structs import replace

from builders import OWNER, RIVAL, THEN, a_goal, a_run, events_of, some_evidence, store_run
from scaffold.core.errors import IllegalTransition, StaleFence
from scaffold.core.events import GoalStatusChanged
from scaffold.core.states import GOAL_TRANSITIONS, Planning, parse_goal_state, reason_of
from scaffold.store.database import Store
from support.fake_clock import FakeClock


def test_a_goal_reads_back_with_every_field(store: Store) -> None:
    """SC-9: id, name, description, goal state, summary, status, supervisor and times."""
    goal = a_goal(
        desired=("api_works", "store_works"),
        state=Planning(),
        summary="half way",
        persistent=True,
        worker_cap=7,
        supervisor=OWNER,
        supervisor_started_at=THEN,
    )
    store_run(store, goal=goal)
    assert store.goals.get(goal.id) == goal
    assert store.goals.get("nobody") is None


def test_goals_come_in_the_order_they_were_added(store: Store) -> None:
    with store.transaction():
        store.runs.add(a_run("run-1"))
        store.runs.add(a_run("run-2"))
        for name in ("web", "api", "shop"):
            store.goals.add(a_goal(name))
            store.goals.add(a_goal(name, run_id="run-2"))
    assert [goal.name for goal in store.goals.for_run("run-1")] == ["web", "api", "shop"]
    assert store.goals.by_name("run-2", "api") == a_goal("api", run_id="run-2")
    assert store.goals.by_name("run-2", "nobody") is None


def test_a_goal_moves_by_its_table_and_records_an_event(store: Store, clock: FakeClock) -> None:
    """SC-9."""
    before = {
        (was, to): a_goal(f"{was}-{to}", state=parse_goal_state(was, "before"))
        for was, to in product(GOAL_TRANSITIONS, GOAL_TRANSITIONS)
    }
    store_run(store)
    with store.transaction():
        for goal in before.values():
            store.goals.add(goal)
    refused = set()
    for (was, to), goal in before.items():
        try:
            with store.transaction():
                store.goals.move(goal.id, parse_goal_state(to, "a reason"))
        except IllegalTransition:
            refused.add((was, to))
    assert refused == {(was, to) for was, to in before if was not in GOAL_TRANSITIONS[to]}
    moved = {move: parse_goal_state(move[1], "a reason") for move in before if move not in refused}
    assert {move: store.goals.get(goal.id) for move, goal in before.items()} == {
        move: replace(goal, state=moved[move], updated_at=clock.now()) if move in moved else goal
        for move, goal in before.items()
    }
    assert events_of(store) == [
        GoalStatusChanged(before[move].name, move[1], reason_of(state)) for move, state in moved.items()
    ]


def test_missing_assertions_of_a_goal_come_in_its_own_order(store: Store) -> None:
    goal = a_goal(desired=("c", "a", "b"))
    store_run(store, goal=goal)
    assert store.goals.unmet(goal.id) == ("c", "a", "b")
    with store.transaction():
        for assertion in ("a", "b"):
            store.facts.record(goal.id, assertion, commit="c", paths=(), evidence=[some_evidence()])
        store.facts.invalidate(goal.id, "b", "stale")
    assert store.goals.unmet(goal.id) == ("c", "b")


def test_facts_of_another_goal_do_not_count(store: Store) -> None:
    store_run(store)
    with store.transaction():
        store.goals.add(a_goal("web"))
        store.facts.record("run-1/web", "done", commit="c", paths=(), evidence=())
    assert store.goals.unmet("run-1/web") == ()
    assert store.goals.unmet("run-1/shop") == ("done",)


def test_a_summary_is_replaced_only_by_a_writer_that_knows_the_last_one(store: Store, clock: FakeClock) -> None:
    """SC-9: the rolling summary; of two concurrent writers, the second is refused."""
    goal = a_goal(summary="half way")
    store_run(store, goal=goal)
    clock.advance(1)
    with store.transaction():
        store.goals.set_summary(goal.id, "nearly there", was="half way")
    assert store.goals.get(goal.id) == replace(goal, summary="nearly there", updated_at=clock.now())
    with pytest.raises(StaleFence), store.transaction():
        store.goals.set_summary(goal.id, "still half way", was="half way")
    assert store.goals.get(goal.id).summary == "nearly there"


def test_a_supervisor_takes_over_a_goal_only_from_the_expected_one(store: Store, clock: FakeClock) -> None:
    """SC-9: supervisor identity and start time; one at a time."""
    store_run(store)
    with store.transaction():
        store.goals.supervise("run-1/shop", OWNER, was=None)
    goal = store.goals.get("run-1/shop")
    assert (goal.supervisor, goal.supervisor_started_at, goal.updated_at) == (OWNER, clock.now(), clock.now())
    for by, was in ((RIVAL, None), (RIVAL, RIVAL), (None, RIVAL)):
        with pytest.raises(StaleFence), store.transaction():
            store.goals.supervise("run-1/shop", by, was=was)
    clock.advance(1)
    with store.transaction():
        store.goals.supervise("run-1/shop", RIVAL, was=OWNER)
    assert store.goals.get("run-1/shop").supervisor_started_at == clock.now()
    with store.transaction():
        store.goals.supervise("run-1/shop", None, was=RIVAL)
    goal = store.goals.get("run-1/shop")
    assert (goal.supervisor, goal.supervisor_started_at) == (None, None)
