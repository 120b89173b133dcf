"""An agent that takes every step itself: when it is woken, what it may do, and when it has had its chances."""

import pytest

from fakes import act, goal
from minds import Mind, create, piece
from scaffold.core.errors import StaleFence
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import Commit
from scaffold.core.model import PlanningTurn, Usage
from scaffold.core.states import Completed, Landing, Pending, Running, Verifying
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.planning.agent_supervision import (
    EVENT_PAGE_SIZE,
    MAX_FRUITLESS_TURNS,
    MAX_WASTED_TURNS,
    give_up_reason,
    next_wake_reason,
)
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.planning.turn import PlanRejected, PlanWritten
from scaffold.run.attempt_end import end_attempt

COMMIT = Commit("c" * 40)


async def begun(house, *goals, **settings):
    return await house.own(*goals, **{"planner": True, "supervision": "agent"} | settings)


def goal_of(house, run, name="shop"):
    found = house.store.goals.by_name(run.id, name)
    assert found is not None
    return found


def why(house, run, name="shop"):
    """Return why the agent is to be woken now."""
    return next_wake_reason(house.store, run, goal_of(house, run, name))


def a_turn(house, run, name):
    """Return a turn of the goal's agent."""
    return PlanningTurn(
        id=name,
        run_id=run.id,
        goal_id=goal_of(house, run).id,
        action_id=None,
        event="judge",
        usage=Usage(),
        started_at=house.clock.now(),
    )


async def judge(house, run, mind, reason="the goal has started"):
    def dispatch(goal_id, action_id):
        return queue_attempt(house.site, run, goal_id, action_id)

    return await SupervisorAgent(house.site, run, mind.opened).judge(goal_of(house, run).id, reason, dispatch)


def dispatching(key):
    return ("goap_dispatch_action", {"action": key})


def land(house, run, key):
    """Let the running attempt of an action land."""
    action, attempt = house.action(run, key), house.attempts(run, key)[-1]
    with house.store.transaction():
        house.store.attempts.end(attempt.id, outcome="landed")
        house.store.actions.move_each((action,), Verifying(), Landing(), Completed())
        house.store.facts.show_all(action.goal_id, action.effects, commit=COMMIT, weak=False, paths=(), evidence=())


async def test_an_agent_that_drives_is_woken_by_news_alone_and_brings_the_goal_home(house):
    """SC-14: an initial turn, then sleep until an attempt has ended, until the goal state holds."""
    run = await begun(house, goal("shop", act("a"), act("b", needs=["a_done"])))
    assert why(house, run) == "the goal has started"
    first = Mind(dispatching("b"), dispatching("a"), "a is on its way")
    assert await judge(house, run, first) == PlanWritten((), "a is on its way")
    assert "`b` is not ready: `a_done` not shown yet" in first.said_to(2)
    assert '"attempt":1' in first.said_to(3).replace(" ", "")
    assert house.statuses(run) == {"a": "running", "b": "pending"}
    assert why(house, run) is None, "nothing happened, so nobody is asked"
    land(house, run, "a")
    assert why(house, run) == "attempt 1 of `a` ended: landed; `a_done` holds"
    assert isinstance(await judge(house, run, Mind(dispatching("b"), "and b")), PlanWritten)
    assert why(house, run) is None
    land(house, run, "b")
    assert why(house, run) is None, "the goal state holds, which needs no agent to see"
    assert [(turn.event, turn.outcome) for turn in house.store.turns.of_run(run.id)] == [("judge", "done")] * 2


async def test_what_was_known_is_read_from_the_store_so_that_the_next_supervisor_goes_on(house):
    """SC-16: news of a turn that was cut off are not lost, however many events came in between."""
    run = await begun(house, goal("shop", act("a"), act("b")), goal("blog", act("post")))
    await judge(house, run, Mind(dispatching("a"), dispatching("b"), "both"))
    attempt = house.attempts(run, "a")[-1]
    end_attempt(house.store, run, attempt.id, "executor_failed", error="no disk")
    other = await house.queue(run, "post")
    end_attempt(house.store, run, other.id, "lost", error="gone")
    with house.store.transaction():
        house.store.events.append_all(run.id, [NoticeRaised("info", "on we go")] * (3 * EVENT_PAGE_SIZE))
    assert why(house, run) == "attempt 1 of `a` ended: executor_failed (no disk); `a` is pending"
    assert why(house, run, "blog") == "the goal has started"
    await judge(house, run, Mind(), "an attempt ended")
    assert [turn.outcome for turn in house.store.turns.of_run(run.id)] == ["done", "failed"]
    assert why(house, run) == "your last turn was interrupted; the steps you took in it are done"


BUILD = act("build", kind="compound")
CHILDREN = create("shop", piece("x", gives=["build_done"]), parent="build")


async def test_an_agent_that_dispatches_the_children_it_made_is_not_told_of_its_own_doing(house):
    """SC-5: the compound has begun with the first of its children that is dispatched."""
    run = await begun(house, goal("shop", BUILD, act("a")))
    mind = Mind([CHILDREN, dispatching("x"), dispatching("a")], "broken down")
    await judge(house, run, mind)
    assert '"action":"x","dispatched":true' in mind.said_to(2)
    assert house.statuses(run) == {"build": "running", "a": "running", "x": "running"}
    assert why(house, run) is None


async def test_an_agent_that_tries_again_what_failed_is_not_told_of_its_own_doing(house):
    """SC-20: another approach, and the attempt that is granted for it."""
    run = await begun(house, goal("shop", act("a")), attempts=1)
    await judge(house, run, Mind(dispatching("a"), "go"))
    end_attempt(house.store, run, house.attempts(run, "a")[-1].id, "executor_failed", error="no disk")
    again = ("goap_update_action", {"action": "a", "status": "pending", "result": "Use the other disk."})
    await judge(house, run, Mind([again, dispatching("a")], "once more"))
    assert house.statuses(run) == {"a": "running"}
    assert why(house, run) is None


@pytest.mark.parametrize("moment", [2, 3])
async def test_children_that_became_ready_behind_the_agents_back_are_told_of(house, moment):
    """SC-5: a compound that begins by itself, during a turn or after it, leaves children to dispatch."""
    run = await begun(house, goal("shop", BUILD, act("a")))

    def begin(at):
        if at == moment:
            with house.store.transaction():
                house.store.actions.move(house.action(run, "build").id, Running())

    await judge(house, run, Mind([CHILDREN, dispatching("a")], "broken down", meanwhile=begin))
    begin(3)
    assert why(house, run) == "`build` is running"


async def test_a_turn_that_changes_nothing_while_nothing_runs_is_wasted_and_three_are_enough(house):
    """OR-3: whatever it says, an agent that gets nowhere fails its goal, with the reason."""
    run = await begun(house, goal("shop", act("a")))
    for at in range(MAX_WASTED_TURNS):
        assert give_up_reason(house.store, run, goal_of(house, run)) is None, f"after {at} turns"
        assert why(house, run) is not None
        ending = await judge(house, run, Mind(("goap_get_goal", {"goal": "shop"}), "all is well"))
        assert isinstance(ending, PlanRejected)
    reason = give_up_reason(house.store, run, goal_of(house, run))
    assert reason is not None
    assert reason.startswith("3 turns in a row had no effect")
    assert "nothing was changed although nothing is running; not shown yet: `a_done`" in reason
    with house.store.transaction():
        house.store.turns.forgive(goal_of(house, run).id)
    assert give_up_reason(house.store, run, goal_of(house, run)) is None, "a human gave it another chance"


async def test_a_turn_that_did_something_breaks_the_row(house):
    run = await begun(house, goal("shop", act("a")))
    for _ in range(MAX_WASTED_TURNS - 1):
        await judge(house, run, Mind("hm"))
    await judge(house, run, Mind(dispatching("a"), "go"))
    end_attempt(house.store, run, house.attempts(run, "a")[-1].id, "lost", error="gone")
    await judge(house, run, Mind("hm"))
    assert give_up_reason(house.store, run, goal_of(house, run)) is None


async def test_many_busy_turns_without_anything_shown_are_enough_as_well(house):
    """OR-3: an agent that adds to the plan and never dispatches is not busy for ever."""
    run = await begun(house, goal("shop", act("a")))
    for at in range(MAX_FRUITLESS_TURNS - 1):
        turn = a_turn(house, run, f"t{at}")
        with house.store.transaction():
            house.store.turns.begin(turn)
            house.store.turns.end(turn.id, "done")
    assert give_up_reason(house.store, run, goal_of(house, run)) is None
    busy = Mind(create("shop", piece("more", gives=["a_done"])), "planned")
    assert await judge(house, run, busy) == PlanWritten((), "planned"), "for once, to plan is to do something"
    assert give_up_reason(house.store, run, goal_of(house, run)) == "40 turns led to no new fact"


async def test_an_agent_that_says_so_makes_nothing_true(house):
    """SC-3: neither a proposal nor a status completes anything."""
    run = await begun(house, goal("shop", act("a")))
    mind = Mind(
        ("goap_update_world_state", {"goal": "shop", "assertions": {"a_done": True}, "evidence": "I am sure"}),
        ("goap_update_action", {"action": "a", "status": "completed"}),
        ("goap_check_complete", {"goal": "shop"}),
        "complete",
    )
    assert isinstance(await judge(house, run, mind), PlanRejected)
    assert house.facts(run) == set()
    assert house.statuses(run) == {"a": "pending"}


async def test_the_cap_is_kept_whoever_dispatches(house):
    """SC-13, SC-15: at the cap dispatching is an error that says to wait."""
    run = await begun(house, goal("shop", act("a"), act("b")), agents=1)
    mind = Mind([dispatching("a"), dispatching("b")], "one at a time")
    await judge(house, run, mind)
    assert "no worker is free: 1 running for goal `shop`" in mind.said_to(2)
    assert house.statuses(run) == {"a": "running", "b": "pending"}


async def test_a_driver_whose_run_was_taken_over_changes_nothing(house):
    """SC-16: its tools refuse, and its turn is not done."""
    run = await begun(house, goal("shop", act("a")))

    def meanwhile(at):
        if at == 1:
            house.orphan(run)
            take_over_run(house.site, run.id)

    mind = Mind([create("shop", piece("x", gives=["x"])), dispatching("a")], "done", meanwhile=meanwhile)
    with pytest.raises(StaleFence):
        await judge(house, run, mind)
    assert house.statuses(run) == {"a": "pending"}


async def test_a_decision_of_a_human_wakes_the_agent(house):
    run = await begun(house, goal("shop", act("a"), act("b")))
    await judge(house, run, Mind([dispatching("a"), dispatching("b")], "both"))
    assert why(house, run) is None
    with house.store.transaction():
        house.store.attempts.end(house.attempts(run, "a")[-1].id, outcome="waiting")
        house.store.actions.move(house.action(run, "a").id, Pending())
    assert why(house, run) == "attempt 1 of `a` ended: waiting; `a` is pending"
