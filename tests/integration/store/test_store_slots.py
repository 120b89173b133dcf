"""What decides who gets the next slot, as the database counts it."""

from builders import OWNER, a_goal, an_action, an_attempt, store_run
from scaffold.core.states import Completed, Paused
from scaffold.plan.slot_shares import SlotDemand
from scaffold.store.database import Store

SHOP, DOCS = a_goal("shop", worker_cap=2), a_goal("docs", worker_cap=9)
ACTIONS = [
    *(an_action(f"shop{n}", goal=SHOP, position=n) for n in range(3)),
    *(an_action(f"docs{n}", goal=DOCS, position=10 + n) for n in range(2)),
    an_action("big", goal=DOCS, kind="compound", position=20),
    an_action("late", goal=DOCS, preconditions=("never",), position=21),
]


def _run(store: Store) -> None:
    store_run(store, goal=SHOP)
    with store.transaction():
        store.goals.add(DOCS)
        store.actions.add(ACTIONS)


def _demand(goal_id: str, **fields: int) -> SlotDemand:
    return SlotDemand(**({"goal": goal_id, "working": 0, "wanted": 2, "served": 0} | fields))


def test_a_goal_wants_a_slot_for_each_ready_primitive_below_its_cap(store: Store) -> None:
    """SC-15: no more than are free, and neither compounds nor what waits for something."""
    _run(store)
    assert store.attempts.slot_demands("run-1", 9) == (_demand(SHOP.id), _demand(DOCS.id))
    assert store.attempts.slot_demands("run-1", 1) == (_demand(SHOP.id, wanted=1), _demand(DOCS.id, wanted=1))
    with store.transaction():
        store.goals.move(SHOP.id, Paused("a break"))
    assert store.attempts.slot_demands("run-1", 9) == (_demand(DOCS.id),)


def test_a_slot_is_taken_until_its_candidate_is_handed_in_and_goals_remember_their_turn(store: Store) -> None:
    """SC-15, AL-13: a queued attempt takes a slot; a candidate waits to land instead."""
    _run(store)
    attempts = [an_attempt(action) for action in ACTIONS[:2]]
    served = []
    for attempt in attempts:
        with store.transaction():
            store.goals.record_slot(SHOP.id)
            store.attempts.open(attempt)
        served.append(store.goals.last_slot(SHOP.id))
    assert 0 < served[0] < served[1]
    assert [each.id for each in store.attempts.queued("run-1")] == [each.id for each in attempts]
    assert store.attempts.slot_demands("run-1", 9)[0] == _demand(SHOP.id, working=2, wanted=0, served=served[1])
    assert (store.attempts.count_waiting_to_land("run-1"), store.attempts.next_to_land("run-1")) == (0, None)
    for attempt in reversed(attempts):
        with store.transaction():
            store.attempts.claim(attempt.id, fence=attempt.fence, worker=OWNER, worktree="/tree", log_file="/log")
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="candidate", head_sha="h")
    assert store.attempts.queued("run-1") == ()
    assert store.attempts.slot_demands("run-1", 9)[0].working == 0
    assert store.attempts.count_waiting_to_land("run-1") == 2
    assert store.attempts.next_to_land("run-1").id == attempts[1].id, "it became a candidate first"


def test_goals_are_unfinished_until_they_end(store: Store) -> None:
    _run(store)
    assert store.goals.count_unfinished("run-1") == 2
    with store.transaction():
        store.goals.move(SHOP.id, Completed())
        store.goals.move(DOCS.id, Paused("a break"))
    assert store.goals.count_unfinished("run-1") == 1
    assert store.goals.count_unfinished("another") == 0


def test_stale_facts_of_all_goals_come_in_one_answer(store: Store) -> None:
    """BX-1: those whose provider is completed, by goal and name."""
    _run(store)
    done = [an_action(f"done{goal.name}", goal=goal, effects=("b", "a"), state=Completed()) for goal in (DOCS, SHOP)]
    with store.transaction():
        store.actions.add(done)
        for goal in (DOCS, SHOP):
            for name in ("a", "b", "c"):
                store.facts.record(goal.id, name, commit="c", paths=(), evidence=())
                store.facts.invalidate(goal.id, name, "stale")
    found = [(fact.goal_id, fact.assertion) for fact in store.facts.unchecked_stale_of_run("run-1")]
    assert found == [(SHOP.id, "a"), (SHOP.id, "b"), (DOCS.id, "a"), (DOCS.id, "b")]
    assert store.facts.unchecked_stale_of_run("another") == ()
