"""Dispatching by tool: the same readiness, caps and fences, and an error that names the violated one."""

import json
from functools import partial

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.states import Paused, Running
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.planning.proposal_tools import supervisor_tools
from scaffold.orchestrator.planning.proposals import LiveProposals
from scaffold.plan.edit.draft import ChangeRejected, CreateActions
from support.harness import act, goal

STORE, API = act("store"), act("api", needs=["store_done"])


@pytest.fixture
async def pursued(harness):
    """An active run, and the draft proposals of its supervisor's agent."""

    async def pursued(*actions, **settings):
        run = await harness.own(goal("shop", *actions), **settings)
        return run, LiveProposals(harness.context, run, partial(queue_attempt, harness.context, run))

    return pursued


async def dispatch(proposals, key):
    result = await Toolbox(supervisor_tools(proposals)).result(ToolCall("1", "goap_dispatch_action", {"action": key}))
    return result.content if result.failed else json.loads(result.content)


def named(harness, run, key):
    return harness.store.actions.by_key(run.id, key)


async def test_a_ready_action_is_started_and_its_attempt_named(harness, pursued):
    """SC-13."""
    run, proposals = await pursued(STORE, API)
    assert await dispatch(proposals, "store") == {"action": "store", "dispatched": True, "attempt": 1}
    (attempt,) = harness.store.attempts.open_of_run(run.id)
    assert (attempt.status, attempt.fence) == ("queued", run.fence)
    assert named(harness, run, "store").state == Running()
    assert "`store` is running" in await dispatch(proposals, "store")


async def test_an_action_that_is_not_ready_names_what_it_waits_for(harness, pursued):
    """SC-13: readiness is not decided by the model."""
    build = act("build", kind="compound", needs=["store_done"], effects=("x",))
    run, proposals = await pursued(STORE, API, build, act("part", parent="build", effects=("x",)))
    assert [await dispatch(proposals, key) for key in ("api", "part", "build", "sture")] == snapshot(
        [
            (
                "`api` is not ready: `store_done` not proven yet. First dispatch the actions that provide them, "
                "and wait until they have landed."
            ),
            "`part` is not ready: its parent is not running yet. Wait until it is.",
            (
                "`build` is a compound and cannot be dispatched itself. Dispatch its children; the compound starts "
                "automatically once it is ready and has children."
            ),
            "there is no action `sture`. Did you mean `store`? goap_list_actions lists the actions.",
        ]
    )
    assert harness.store.attempts.open_of_run(run.id) == ()


async def test_a_ready_compound_begins_with_its_first_child(harness, pursued):
    """SC-5, SC-13: after breaking it down, the agent need not wait for it to begin."""
    outer, inner = act("outer", kind="compound", effects=("x",)), act("inner", kind="compound", effects=("x",))
    inner = msgspec.structs.replace(inner, parent="outer")
    run, proposals = await pursued(outer, inner, act("part", parent="inner", effects=("x",)))
    assert (await dispatch(proposals, "part"))["attempt"] == 1
    assert harness.statuses(run) == {"outer": "running", "inner": "running", "part": "running"}


async def test_the_cap_error_says_how_many_attempts_run(harness, pursued):
    """SC-13, SC-15."""
    run, proposals = await pursued(act("a"), act("b"), act("c"), agents=2)
    assert (await dispatch(proposals, "a"))["attempt"] == (await dispatch(proposals, "b"))["attempt"] == 1
    assert await dispatch(proposals, "c") == snapshot(
        "no worker is free: 2 running for goal `shop`; the limit is 3 for the goal and 2 for the run. End your "
        "turn; you are woken when one ends."
    )
    assert len(harness.store.attempts.open_of_run(run.id)) == 2


async def test_a_goal_may_have_a_lower_cap_than_the_run(harness, pursued):
    """SC-15, SC-22: the lower of both caps counts; each goal has its own."""
    run, proposals = await pursued(act("a"), act("b"), agents=5, goal_agents=1)
    assert (await dispatch(proposals, "a"))["attempt"] == 1
    assert "1 for the goal and 5" in await dispatch(proposals, "b")
    assert len(harness.store.attempts.open_of_run(run.id)) == 1


async def test_nothing_starts_in_a_goal_that_is_not_active(harness, pursued):
    """SC-13, SC-17."""
    run, proposals = await pursued(STORE)
    with harness.store.transaction():
        harness.store.goals.move(named(harness, run, "store").goal_id, Paused("a break"))
    assert "goal `shop` is paused" in await dispatch(proposals, "store")


async def test_a_slot_taken_meanwhile_is_reported(harness, pursued):
    """SC-13: the transaction that opens the attempt decides."""
    run, _ = await pursued(STORE)

    async def nothing_left(goal_id, action_id):
        return None

    assert isinstance(await dispatch(LiveProposals(harness.context, run, nothing_left), "store"), str)
    assert harness.store.attempts.open_of_run(run.id) == ()


async def test_a_superseded_supervisor_writes_and_starts_nothing(harness, pursued):
    """SC-13, SC-16: the fence of the run applies to tools, too."""
    run, proposals = await pursued(STORE)
    harness.orphan(run)
    await harness.take(run)
    spec = act("more")
    assert "StaleFence" in await dispatch(proposals, "store")
    with pytest.raises(Exception, match="fence") as overtaken:
        proposals.change(CreateActions("shop", (spec,)))
    assert not isinstance(overtaken.value, ChangeRejected)
    assert named(harness, run, "more") is None
    assert harness.store.attempts.open_of_run(run.id) == ()


async def test_a_live_desk_stores_each_change_at_once(harness, pursued):
    """SC-12: the next call sees it, and it is stored only once."""
    run, proposals = await pursued(STORE)
    assert proposals.change(CreateActions("shop", (act("more"),)))
    assert not proposals.change(CreateActions("shop", (act("more"),)))
    assert named(harness, run, "more") is not None
    assert proposals.draft.action("more") is not None
