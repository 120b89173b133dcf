"""What decides who gets the next slot, as the database counts it."""

from builders import OWNER, a_goal, an_action, an_attempt, events_of, store_run
from scaffold.core.events import AttemptWaitChanged
from scaffold.core.model import Action, Attempt, InboxItem
from scaffold.core.states import Completed, Paused
from scaffold.plan.slot_shares import SlotDemand, SlotUse
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
    assert (store.attempts.slots("run-1")[SHOP.id].candidates, store.attempts.waiting_to_land("run-1")) == (0, ())
    for attempt in reversed(attempts):
        with store.transaction():
            store.attempts.claim(attempt.id, fence=attempt.fence, worker=OWNER, worktree="/tree", log_file="/log")
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="candidate", head_sha="h")
    assert store.attempts.queued("run-1") == ()
    assert store.attempts.slot_demands("run-1", 9)[0].working == 0
    assert store.attempts.slots("run-1")[SHOP.id].candidates == 2
    assert store.attempts.waiting_to_land("run-1")[0].id == attempts[1].id, "it became a candidate first"


def _working(store: Store, *actions: Action, number: int = 1) -> list[Attempt]:
    attempts = [an_attempt(action, number) for action in actions]
    for attempt in attempts:
        with store.transaction():
            store.attempts.open(attempt)
            store.attempts.claim(attempt.id, fence=attempt.fence, worker=OWNER, worktree="/tree", log_file="/log")
    return attempts


def _asks(store: Store, attempt: Attempt, item: str, most: int = 9) -> bool:
    with store.transaction():
        store.inbox.ask(
            InboxItem(id=item, run_id="run-1", kind="question", text=item, created_at=attempt.queued_at, detail={})
        )
        return store.attempts.wait_for(attempt.id, item, fence=attempt.fence, most=most)


def _answer(store: Store, item: str) -> None:
    with store.transaction():
        store.inbox.decide(item, "answered", answer="yes")


def _goes_on(store: Store, attempt: Attempt, agents: int) -> bool:
    with store.transaction():
        possible = store.attempts.has_slot(attempt.id, agents=agents)
        assert store.attempts.take_slot(attempt.id, fence=attempt.fence, agents=agents) == possible
    return possible


def test_an_attempt_that_waits_for_a_human_takes_no_slot_and_the_answer_reserves_the_next_one(store: Store) -> None:
    """BX-13, SC-15: it counts as working all the time."""
    _run(store)
    first, second = _working(store, *ACTIONS[:2])
    assert _asks(store, first, "q")
    assert store.attempts.get(first.id).waits_for == "q"
    assert store.attempts.slots("run-1") == {SHOP.id: SlotUse(working=2, held=1, taken=1)}
    assert store.attempts.slot_demands("run-1", 9)[0] == _demand(SHOP.id, working=1, wanted=1)
    _answer(store, "q")
    assert store.attempts.slots("run-1") == {SHOP.id: SlotUse(working=2, held=1, taken=2)}
    assert store.attempts.slot_demands("run-1", 9)[0] == _demand(SHOP.id, working=2, wanted=0)
    assert not _goes_on(store, first, agents=1), "the other one has the only slot"
    assert _goes_on(store, first, agents=2)
    assert not store.attempts.waits(first.id)
    assert store.attempts.slots("run-1") == {SHOP.id: SlotUse(working=2, held=2, taken=2)}
    assert _goes_on(store, second, agents=1), "it never gave its slot back"
    waits = [event for event in events_of(store) if isinstance(event, AttemptWaitChanged)]
    assert waits == [AttemptWaitChanged("shop0", 1, "q"), AttemptWaitChanged("shop0", 1, None)]


def test_of_two_answered_at_once_the_second_goes_on_when_a_slot_is_free(store: Store) -> None:
    """SC-15: neither waits for the other's claim to the slot."""
    _run(store)
    attempts = _working(store, *ACTIONS[:2])
    for attempt in attempts:
        assert _asks(store, attempt, attempt.id)
        _answer(store, attempt.id)
    assert [_goes_on(store, attempt, agents=1) for attempt in attempts] == [True, False]
    with store.transaction():
        store.attempts.end(attempts[0].id, outcome="lost")
    assert _goes_on(store, attempts[1], agents=1)


def test_an_attempt_goes_on_within_the_cap_of_its_goal(store: Store) -> None:
    """SC-15, SC-16: a goal whose workers died has one at a time."""
    _run(store)
    first, second, third = _working(store, *ACTIONS[:3])
    assert _asks(store, first, "q")
    assert not _goes_on(store, first, agents=9)
    with store.transaction():
        store.attempts.end(second.id, outcome="lost")
    assert _goes_on(store, first, agents=9)
    assert _asks(store, first, "r")
    for number in (2, 3, 4):
        with store.transaction():
            store.attempts.end(third.id, outcome="lost", died=True)
        (third,) = _working(store, ACTIONS[2], number=number)
    assert not _goes_on(store, first, agents=9)


def test_as_many_attempts_wait_as_the_run_has_agents(store: Store) -> None:
    """BX-13: one that waits already may ask again; ended ones do not count."""
    _run(store)
    first, second, third = _working(store, *ACTIONS[:3])
    assert _asks(store, first, "q", most=1)
    assert not _asks(store, second, "r", most=1)
    assert store.attempts.get(second.id).waits_for is None
    assert _asks(store, first, "s", most=1)
    _answer(store, "s")
    assert not _asks(store, second, "r", most=1), "it still has its process"
    with store.transaction():
        store.attempts.end(first.id, outcome="waiting")
    assert _asks(store, third, "t", most=1)


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
