"""A supervisor's agent that decides every step: when it is woken, what it may do, and when it is given up."""

import pytest
from inline_snapshot import snapshot

from fakes import ScriptedAgentModel, create_actions, proposed_action
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import Commit
from scaffold.core.model import PlanningTurn, Usage
from scaffold.core.states import Completed, Landing, Pending, Running, Verifying
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.planning.agent_supervision import (
    EVENT_PAGE_SIZE,
    MAX_FRUITLESS_TURNS,
    MAX_WASTED_TURNS,
    give_up_reason,
    next_wake_reason,
)
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.planning.turn import PlanRejected, PlanWritten
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from support.harness import act, goal

COMMIT = Commit("c" * 40)


async def begun(harness, *goals, **settings):
    return await harness.own(*goals, **{"planner": True, "supervision": "agent"} | settings)


def why(harness, run, name="shop"):
    """Return why the agent is to be woken now."""
    return next_wake_reason(harness.store, run, harness.goal(run, name))


def a_turn(harness, run, name):
    """Return a turn of the goal's agent."""
    return PlanningTurn(
        id=name,
        run_id=run.id,
        goal_id=harness.goal(run, "shop").id,
        action_id=None,
        event="judge",
        usage=Usage(),
        started_at=harness.clock.now(),
    )


async def judge(harness, run, model, reason="the goal has started"):
    def dispatch(goal_id, action_id):
        return queue_attempt(harness.context, run, goal_id, action_id)

    return await SupervisorAgent(harness.context, run, model.opened).judge(
        harness.goal(run, "shop").id, reason, dispatch
    )


def dispatching(key):
    return ("goap_dispatch_action", {"action": key})


def land(harness, run, key):
    """Let the running attempt of an action land."""
    action, attempt = harness.action(run, key), harness.attempts(run, key)[-1]
    with harness.store.transaction():
        harness.store.attempts.end(attempt.id, outcome="landed")
        harness.store.actions.move_each((action,), Verifying(), Landing(), Completed())
        harness.store.facts.record_all(action.goal_id, action.effects, commit=COMMIT, paths=(), evidence=())


async def test_an_agent_is_woken_only_by_news_and_completes_the_goal(harness):
    """SC-14: an initial turn, then sleep until an attempt has ended, until the goal state holds."""
    run = await begun(harness, goal("shop", act("a"), act("b", needs=["a_done"])))
    assert why(harness, run) == snapshot("the goal has started")
    first = ScriptedAgentModel(dispatching("b"), dispatching("a"), "a is on its way")
    assert await judge(harness, run, first) == PlanWritten((), "a is on its way")
    assert "`a_done`" in first.input_text(2)
    assert '"attempt":1' in first.input_text(3).replace(" ", "")
    assert harness.statuses(run) == {"a": "running", "b": "pending"}
    assert why(harness, run) is None, "nothing happened, so nobody is asked"
    land(harness, run, "a")
    assert why(harness, run) == "attempt 1 of `a` ended: landed; `a_done` holds"
    assert isinstance(await judge(harness, run, ScriptedAgentModel(dispatching("b"), "and b")), PlanWritten)
    assert why(harness, run) is None
    land(harness, run, "b")
    assert why(harness, run) is None, "the goal state holds, which needs no agent to see"
    assert [(turn.event, turn.outcome) for turn in harness.store.turns.for_run(run.id)] == [("judge", "done")] * 2


async def test_earlier_news_is_read_from_the_store_by_the_next_supervisor(harness):
    """SC-16: news of an interrupted turn is not lost, however many events came in between."""
    run = await begun(harness, goal("shop", act("a"), act("b")), goal("blog", act("post")))
    await judge(harness, run, ScriptedAgentModel(dispatching("a"), dispatching("b"), "both"))
    attempt = harness.attempts(run, "a")[-1]
    end_attempt(harness.store, run, attempt.id, AttemptEnd("executor_failed", "no disk"))
    other = await harness.queue(run, "post")
    end_attempt(harness.store, run, other.id, AttemptEnd("lost", "gone"))
    with harness.store.transaction():
        harness.store.events.append_all(run.id, [NoticeRaised("info", "on we go")] * (3 * EVENT_PAGE_SIZE))
    assert why(harness, run) == "attempt 1 of `a` ended: executor_failed (no disk); `a` is pending"
    assert why(harness, run, "blog") == snapshot("the goal has started")
    await judge(harness, run, ScriptedAgentModel(), "an attempt ended")
    assert [turn.outcome for turn in harness.store.turns.for_run(run.id)] == ["done", "failed"]
    assert why(harness, run) == snapshot("your last turn was interrupted; the steps you took in it are done")


BUILD = act("build", kind="compound")
CHILDREN = create_actions("shop", proposed_action("x", gives=["build_done"]), parent="build")


async def test_an_agent_that_dispatches_children_is_not_woken_by_its_own_action(harness):
    """SC-5: the compound begins with the first of its children that is dispatched."""
    run = await begun(harness, goal("shop", BUILD, act("a")))
    model = ScriptedAgentModel([CHILDREN, dispatching("x"), dispatching("a")], "broken down")
    await judge(harness, run, model)
    assert '"action":"x","dispatched":true' in model.input_text(2)
    assert harness.statuses(run) == {"build": "running", "a": "running", "x": "running"}
    assert why(harness, run) is None


async def test_an_agent_that_retries_a_failure_is_not_woken_by_its_own_action(harness):
    """SC-20: another approach, and the attempt granted for it."""
    run = await begun(harness, goal("shop", act("a")), attempts=1)
    await judge(harness, run, ScriptedAgentModel(dispatching("a"), "go"))
    end_attempt(harness.store, run, harness.attempts(run, "a")[-1].id, AttemptEnd("executor_failed", "no disk"))
    again = ("goap_update_action", {"action": "a", "status": "pending", "result": "Use the other disk."})
    await judge(harness, run, ScriptedAgentModel([again, dispatching("a")], "once more"))
    assert harness.statuses(run) == {"a": "running"}
    assert why(harness, run) is None


@pytest.mark.parametrize("moment", [2, 3])
async def test_children_that_became_ready_without_the_agent_wake_it(harness, moment):
    """SC-5: a compound that begins by itself, during a turn or after it, leaves children to dispatch."""
    run = await begun(harness, goal("shop", BUILD, act("a")))

    def begin(at):
        if at == moment:
            harness.move(harness.action(run, "build"), Running())

    await judge(harness, run, ScriptedAgentModel([CHILDREN, dispatching("a")], "broken down", meanwhile=begin))
    begin(3)
    assert why(harness, run) == "`build` is running"


async def test_three_fruitless_turns_while_nothing_runs_fail_the_goal(harness):
    """OR-3: whatever it says, an agent without progress fails its goal, with the reason."""
    run = await begun(harness, goal("shop", act("a")))
    for at in range(MAX_WASTED_TURNS):
        assert give_up_reason(harness.store, run, harness.goal(run, "shop")) is None, f"after {at} turns"
        assert why(harness, run) is not None
        ending = await judge(harness, run, ScriptedAgentModel(("goap_get_goal", {"goal": "shop"}), "all is well"))
        assert isinstance(ending, PlanRejected)
    reason = give_up_reason(harness.store, run, harness.goal(run, "shop"))
    assert reason == snapshot(
        "3 turns in a row had no effect (last: nothing was changed although nothing is running; not proven yet: "
        "`a_done`)"
    )
    with harness.store.transaction():
        harness.store.turns.reset_progress_count(harness.goal(run, "shop").id)
    assert give_up_reason(harness.store, run, harness.goal(run, "shop")) is None, "a human gave it another chance"


async def test_a_productive_turn_resets_the_count(harness):
    run = await begun(harness, goal("shop", act("a")))
    for _ in range(MAX_WASTED_TURNS - 1):
        await judge(harness, run, ScriptedAgentModel("hm"))
    await judge(harness, run, ScriptedAgentModel(dispatching("a"), "go"))
    end_attempt(harness.store, run, harness.attempts(run, "a")[-1].id, AttemptEnd("lost", "gone"))
    await judge(harness, run, ScriptedAgentModel("hm"))
    assert give_up_reason(harness.store, run, harness.goal(run, "shop")) is None


async def test_many_turns_without_a_new_fact_fail_the_goal_too(harness):
    """OR-3: an agent cannot keep adding to the plan without ever dispatching."""
    run = await begun(harness, goal("shop", act("a")))
    for at in range(MAX_FRUITLESS_TURNS - 1):
        turn = a_turn(harness, run, f"t{at}")
        with harness.store.transaction():
            harness.store.turns.begin(turn)
            harness.store.turns.end(turn.id, "done")
    assert give_up_reason(harness.store, run, harness.goal(run, "shop")) is None
    busy = ScriptedAgentModel(create_actions("shop", proposed_action("more", gives=["a_done"])), "planned")
    assert await judge(harness, run, busy) == PlanWritten((), "planned"), "for once, to plan is to do something"
    assert give_up_reason(harness.store, run, harness.goal(run, "shop")) == snapshot("40 turns produced no new fact")


async def test_an_agents_claims_make_no_fact(harness):
    """SC-3: neither a proposal nor a status completes anything."""
    run = await begun(harness, goal("shop", act("a")))
    model = ScriptedAgentModel(
        ("goap_update_world_state", {"goal": "shop", "assertions": {"a_done": True}, "evidence": "I am sure"}),
        ("goap_update_action", {"action": "a", "status": "completed"}),
        ("goap_check_complete", {"goal": "shop"}),
        "complete",
    )
    assert isinstance(await judge(harness, run, model), PlanRejected)
    assert harness.facts(run) == set()
    assert harness.statuses(run) == {"a": "pending"}


async def test_a_decision_of_a_human_wakes_the_agent(harness):
    run = await begun(harness, goal("shop", act("a"), act("b")))
    await judge(harness, run, ScriptedAgentModel([dispatching("a"), dispatching("b")], "both"))
    assert why(harness, run) is None
    with harness.store.transaction():
        harness.store.attempts.end(harness.attempts(run, "a")[-1].id, outcome="waiting")
        harness.store.actions.move(harness.action(run, "a").id, Pending())
    assert why(harness, run) == "attempt 1 of `a` ended: waiting; `a` is pending"
