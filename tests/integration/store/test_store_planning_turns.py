"""Turns of planners and supervisors, and control requests: results, costs, and fruitless turns."""

from datetime import UTC, datetime

import pytest

from builders import OWNER, an_action, store_run
from scaffold.core.errors import BudgetExceeded, StaleFence
from scaffold.core.events import PlanningTurnEnded, PlanningTurnStarted
from scaffold.core.ids import Commit, GoalId
from scaffold.core.model import ControlRequest, PlanningTurn, Usage
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import Spender
from scaffold.store.database import Store
from scaffold.store.spending.run_budget import RunBudget
from support.fake_clock import FakeClock

GOAL = GoalId("run-1/shop")
AT = datetime(2030, 1, 1, tzinfo=UTC)


def a_turn(name: str, **fields: object) -> PlanningTurn:
    plain = {
        "run_id": "run-1",
        "goal_id": GOAL,
        "action_id": None,
        "event": "replan",
        "usage": Usage(),
        "started_at": AT,
    }
    return PlanningTurn(id=name, **plain | fields)


def begin(store: Store, turn: PlanningTurn) -> None:
    with store.transaction():
        store.turns.begin(turn)


def end(store: Store, name: str, outcome: str) -> None:
    with store.transaction():
        store.turns.end(name, outcome, error=None if outcome == "done" else "why")


def show(store: Store, assertion: str) -> None:
    with store.transaction():
        store.facts.record(GOAL, assertion, commit=Commit("c" * 40), paths=(), evidence=())


def test_a_turn_records_events_when_it_begins_and_ends(store: Store) -> None:
    """SC-14: a supervisor's questions and their results are in the run's events."""
    store_run(store, an_action("a"))
    begin(store, a_turn("t1", action_id=an_action("a").id, event="decompose"))
    assert [turn.id for turn in store.turns.open_of_run("run-1")] == ["t1"]
    end(store, "t1", "refused")
    assert store.turns.open_of_run("run-1") == ()
    (kept,) = store.turns.for_run("run-1")
    assert (kept.outcome, kept.error, kept.ended_at is not None) == ("refused", "why", True)
    events = [recorded.event for recorded in store.events.since("run-1", 0)]
    assert PlanningTurnStarted("decompose", "shop", "a") in events
    assert PlanningTurnEnded("decompose", "shop", "a", "refused", "why") in events


def test_a_turn_ends_once(store: Store) -> None:
    store_run(store)
    begin(store, a_turn("t1"))
    end(store, "t1", "lost")
    with pytest.raises(StaleFence):
        end(store, "t1", "done")
    with pytest.raises(StaleFence):
        store.turns.check("t1")


def test_turns_are_fruitless_until_there_is_a_new_fact(store: Store) -> None:
    """OR-3: three replans without progress are enough; a fact that comes and goes is no progress."""
    store_run(store, an_action("a"))
    for name in ("t1", "t2"):
        begin(store, a_turn(name))
        end(store, name, "done")
    begin(store, a_turn("t3", action_id=an_action("a").id))
    end(store, "t3", "failed")
    begin(store, a_turn("t4"))
    end(store, "t4", "lost")
    assert store.turns.count_without_progress(GOAL, "replan", None) == 2
    assert store.turns.count_without_progress_of_goal(GOAL, "replan") == 3
    assert store.turns.count_without_progress(GOAL, "decompose", None) == 0
    show(store, "stocked")
    assert store.turns.count_without_progress_of_goal(GOAL, "replan") == 0
    begin(store, a_turn("t5"))
    end(store, "t5", "done")
    with store.transaction():
        store.facts.invalidate(GOAL, "stocked", "refuted")
    show(store, "stocked")
    assert store.turns.count_without_progress_of_goal(GOAL, "replan") == 1
    with store.transaction():
        store.turns.reset_progress_count(GOAL)
    assert store.turns.count_without_progress_of_goal(GOAL, "replan") == 0


@pytest.mark.asyncio
async def test_the_cost_of_a_turn_counts_against_the_runs_budget(store: Store, clock: FakeClock) -> None:
    """BX-11: the planner's money is the run's."""
    store_run(store)
    turn = a_turn("t1")
    begin(store, turn)
    limits = RunLimits(budget_usd=1.0)
    budget = RunBudget(store, turn, Spender("planner", "m1"), limits=limits, clock=clock, owner=OWNER)
    reservation = await budget.reserve(Usage(cost_usd=0.5))
    budget.settle(reservation, Usage(input_tokens=10, output_tokens=5, cost_usd=2.0, requests=1))
    assert store.runs.spent("run-1") == Usage(input_tokens=10, output_tokens=5, cost_usd=2.0, requests=1)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(Usage(cost_usd=0.1))
    end(store, "t1", "budget")
    with pytest.raises(StaleFence):
        await budget.reserve(Usage(cost_usd=0.1))


def test_control_requests_are_stored_until_they_are_executed(store: Store) -> None:
    """SC-17: a human's request concerning a goal or an action outlives the process that received it."""
    store_run(store, an_action("a"))
    requests = [
        ControlRequest(id="w1", run_id="run-1", kind="pause", goal_id=GOAL, created_at=AT),
        ControlRequest(id="w2", run_id="run-1", kind="stop", goal_id=GOAL, action_id=an_action("a").id, created_at=AT),
    ]
    with store.transaction():
        for request in requests:
            store.control_requests.add(request)
    assert store.control_requests.open_of_run("run-1") == tuple(requests)
    with store.transaction():
        store.control_requests.settle("w1")
        store.control_requests.settle("w1")
    assert store.control_requests.open_of_run("run-1") == (requests[1],)
