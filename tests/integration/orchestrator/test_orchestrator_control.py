"""What a human asks of a run from outside, with an owner or without one."""

import asyncio

import pytest

from fakes import act, goal, until
from scaffold.core.errors import RunBusy, UsageError
from scaffold.core.states import Cancelled, Completed, Failed, Paused, status_of
from scaffold.git import worktree
from scaffold.host.identity import identify
from scaffold.orchestrator.owner.control import halt_run, retry_action, retry_goal, retry_run
from scaffold.orchestrator.owner.run_end import finish_run, save_run, state_from_goals

CHAIN = (act("b", check="false"), act("c", needs=["b_done"]), act("d", needs=["c_done"]))


async def failed(house, *actions):
    run = await house.lay_out(goal("g", *(actions or CHAIN)), attempts=1)
    ending = await house.carry_out(run, b=["echo x > b"])
    assert isinstance(ending.state, Failed)
    return house.store.runs.get(run.id)


def of_goal(house, run):
    (found,) = house.store.goals.of_run(run.id)
    return found


@pytest.mark.parametrize(("wish", "reason"), [("stop", "stopped by the user"), ("pause", "paused by the user")])
async def test_a_run_whose_owner_is_dead_is_put_down_here(house, wish, reason):
    """SC-16: what it left is recovered, and `resume` goes on."""
    run = await house.own(goal("g", act("a")))
    attempt = await house.queue(run, "a")
    run = house.orphan(run)
    assert await halt_run(house.site, run, wish, patience_s=0.1) == Paused(reason)
    assert house.attempt(attempt.id).outcome == "lost"
    assert house.store.runs.get(run.id).owner is None
    assert (await house.carry_out(run, a=["echo x > a"])).state == Completed()


@pytest.mark.parametrize("wish", ["stop", "cancel"])
async def test_a_run_that_is_put_down_here_leaves_no_worktree(house, wish):
    """AL-15: neither the attempts' nor the one that merged trees are checked in."""
    run = await house.own(goal("g", act("a")))
    await worktree.add(house.site.repository, house.site.landing_folder(run.id), run.base_sha)
    await halt_run(house.site, house.orphan(run), wish, patience_s=0.1)
    assert await house.worktrees() == 0


async def test_cancelling_without_an_owner_ends_all_and_keeps_the_candidates_pin(house):
    """BX-3: what waited to land stays pinned."""
    run = await house.own(goal("g", act("a"), act("b", needs=["a_done"])))
    await house.work(run, "a", "echo x > a")
    run = house.orphan(run)
    assert await halt_run(house.site, run, "cancel", patience_s=0.1) == Cancelled()
    assert house.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert await house.sh("git for-each-ref --format='%(refname)' refs/scaffold/work") != ""
    with pytest.raises(UsageError, match="already cancelled"):
        await halt_run(house.site, house.store.runs.get(run.id), "stop", patience_s=0.1)


async def test_a_failed_run_can_be_cancelled_and_nothing_else(house):
    run = await failed(house)
    with pytest.raises(UsageError, match="already failed"):
        await halt_run(house.site, run, "pause", patience_s=0.1)
    assert await halt_run(house.site, run, "cancel", patience_s=0.1) == Cancelled()


async def test_an_owner_that_does_not_answer_is_busy(house):
    run = await house.lay_out(goal("g", act("a")))
    with house.store.transaction():
        house.store.runs.take(run.id, identify(1), expected_fence=0)
    with pytest.raises(RunBusy, match="asked to stop, but work is still running"):
        await halt_run(house.site, house.store.runs.get(run.id), "stop", patience_s=0.2)
    assert house.store.runs.control_request(run.id) == "stop"


async def test_a_wish_whose_owner_dies_over_it_is_carried_out_here(house):
    """OR-10: nobody has to ask twice."""
    run = await house.lay_out(goal("g", act("a")))
    with house.store.transaction():
        house.store.runs.take(run.id, identify(1), expected_fence=0)
    asked = asyncio.create_task(halt_run(house.site, house.store.runs.get(run.id), "cancel", patience_s=10))
    await until(lambda: house.store.runs.control_request(run.id))
    house.orphan(run)
    assert await asked == Cancelled()


async def test_a_living_owner_carries_a_wish_out(house):
    run = await house.lay_out(goal("g", act("a")))
    conductor = await house.conductor(run, {"a": ["sleep 60"]})
    carried = asyncio.create_task(conductor.carry_out())
    await until(lambda: house.statuses(run)["a"] == "running")
    assert await halt_run(house.site, house.store.runs.get(run.id), "cancel", patience_s=10) == Cancelled()
    assert (await carried).cause == "cancelled"


async def test_a_retried_action_has_all_its_attempts_again_and_unblocks_what_waited(house):
    """SC-20: the run is paused then, and goes on."""
    run = await failed(house)
    assert house.statuses(run) == {"b": "failed", "c": "blocked", "d": "blocked"}
    retry_action(house.store, run, house.action(run, "b"))
    assert house.statuses(run) == {"b": "pending", "c": "pending", "d": "pending"}
    assert house.store.actions.failures(house.action(run, "b").id) == 0
    assert (house.status(run), status_of(of_goal(house, run).state)) == ("paused", "paused")


@pytest.mark.parametrize("retry", ["goal", "run"])
async def test_a_goal_or_a_run_is_retried_whole(house, retry):
    run = await failed(house)
    if retry == "goal":
        retry_goal(house.store, run, of_goal(house, run))
    else:
        retry_run(house.store, run)
    assert set(house.statuses(run).values()) == {"pending"}
    assert house.status(run) == "paused"


async def test_what_another_failure_still_blocks_stays_blocked(house):
    """AL-19: the reason names the failure that is left."""
    run = await failed(
        house,
        act("b", check="false"),
        act("e", check="false"),
        act("c", needs=["b_done"]),
        act("d", needs=["c_done", "e_done"]),
    )
    (e, b) = (house.action(run, key) for key in "eb")
    assert status_of(e.state) == status_of(b.state) == "failed"
    retry_action(house.store, run, b)
    assert house.statuses(run) == {"b": "pending", "e": "failed", "c": "pending", "d": "blocked"}
    assert house.action(run, "d").state.reason == f"dependency_failed:{e.id}"
    with pytest.raises(UsageError, match="`d` is blocked") as caught:
        retry_action(house.store, run, house.action(run, "d"))
    assert caught.value.fix == "Retry `e` instead."


@pytest.mark.parametrize("key", ["phase", "b"])
async def test_a_compound_and_its_children_are_retried_together(house, key):
    """SC-5: a child cannot run while its parent has failed, and a parent not succeed while its child has."""
    run = await failed(
        house, act("phase", kind="compound", effects=("b_done",)), act("b", parent="phase", check="false")
    )
    assert house.statuses(run) == {"phase": "failed", "b": "failed"}
    retry_action(house.store, run, house.action(run, key))
    assert house.statuses(run) == {"phase": "pending", "b": "pending"}


async def test_only_what_failed_can_be_retried(house):
    run = await failed(house)
    with pytest.raises(UsageError, match="`c` is blocked") as caught:
        retry_action(house.store, run, house.action(run, "c"))
    assert caught.value.fix == "Retry `b` instead."
    retry_run(house.store, run)
    for again, named in (
        (lambda: retry_action(house.store, run, house.action(run, "b")), "`b` is pending, not failed"),
        (lambda: retry_goal(house.store, run, of_goal(house, run)), "the goal `g` is paused, not failed"),
        (lambda: retry_run(house.store, house.store.runs.get(run.id)), "is paused, not failed"),
    ):
        with pytest.raises(UsageError, match=named):
            again()


async def test_nothing_is_retried_in_a_run_that_has_ended_for_good(house):
    run = await failed(house)
    await halt_run(house.site, run, "cancel", patience_s=0.1)
    with pytest.raises(UsageError, match="nothing in it can be retried"):
        retry_action(house.store, run, house.action(run, "b"))
    assert house.statuses(run)["b"] == "failed", "the refusal left no trace"


async def test_a_run_ends_as_its_goals_did(house):
    """SC-3: completed when all are, failed when one is, open while one is."""
    run = await house.own(goal("g", act("a")), goal("h", act("b")))
    first, second = house.store.goals.of_run(run.id)
    assert state_from_goals(house.store, run.id) is None
    with house.store.transaction():
        house.store.goals.move(first.id, Completed())
    assert state_from_goals(house.store, run.id) is None
    with house.store.transaction():
        house.store.goals.move(second.id, Failed("no way"))
    assert state_from_goals(house.store, run.id) == Failed("h: no way")
    assert finish_run(house.store, run, "stopped") == Failed("h: no way"), "the verdict counts, whatever the cause"
    assert house.store.runs.get(run.id).owner is None


async def test_a_saved_run_waits_and_can_be_started(house):
    run = await house.lay_out(goal("g", act("a")))
    save_run(house.store, run)
    assert (house.status(run), status_of(of_goal(house, run).state)) == ("paused", "paused")
    assert (await house.carry_out(run, a=["echo x > a"])).state == Completed()
