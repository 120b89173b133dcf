"""What a human wishes of one goal or one action: by the run's owner, or here where it has none."""

import asyncio

import pytest

from fakes import act, goal, until
from scaffold.core.errors import RunBusy
from scaffold.core.ids import ControlRequestId
from scaffold.core.model import ControlRequest, Intent
from scaffold.core.states import Cancelled, Completed, Paused, status_of
from scaffold.host.identity import identify
from scaffold.host.random_ids import new_id
from scaffold.landing.merge_queue import MergeQueue
from scaffold.landing.record import session_ref
from scaffold.orchestrator.owner.control import submit_control_request
from scaffold.orchestrator.owner.control_requests import PAUSED_BY_USER, apply_control_requests
from scaffold.orchestrator.owner.recovery import recover_run


def a_wish(house, run, kind, goal_name="g", key=None):
    return ControlRequest(
        id=ControlRequestId(new_id()),
        run_id=run.id,
        kind=kind,
        goal_id=goal_of(house, run, goal_name).id,
        action_id=house.action(run, key).id if key else None,
        created_at=house.clock.now(),
    )


def leave(house, wish):
    with house.store.transaction():
        house.store.wishes.add(wish)
    return wish


def goal_of(house, run, name):
    return house.store.goals.by_name(run.id, name)


def goals(house, run):
    return {each.name: status_of(each.state) for each in house.store.goals.of_run(run.id)}


def work_for(*keys):
    return {key: [f"echo begun > {key}; sleep 60"] for key in keys}


async def pins(house):
    return (await house.sh("git for-each-ref --format='%(refname)' refs/scaffold/rescue")).split()


async def wished(house, run, kind, *args, **options):
    await submit_control_request(house.site, run, a_wish(house, run, kind, *args, **options), patience_s=10)


async def begun(house, *goals_of_run, **settings):
    """Return a run under way in a task of its own, as soon as something runs in each of its goals."""
    run = await house.lay_out(*goals_of_run, **settings)
    conductor = await house.conductor(run, work_for("a", "b") | {"c": ["echo x > c"]})
    carried = asyncio.create_task(conductor.carry_out())
    await until(lambda: {"a", "b"} & {key for key, status in house.statuses(run).items() if status == "running"})
    return house.store.runs.get(run.id), conductor, carried


async def test_a_stopped_action_is_cancelled_with_its_work_pinned_and_the_goal_goes_on(house):
    """SC-17: its running attempt ends at once; what needs it can never become ready."""
    run, _, carried = await begun(
        house, goal("g", act("a"), act("c"), act("d", needs=["a_done"]), wants=["c_done"]), agents=1
    )
    (attempt,) = house.attempts(run, "a")
    folder = house.site.attempt_folder(run.id, attempt.id)
    await until((folder / "a").exists)
    await wished(house, run, "stop", key="a")
    assert house.statuses(run)["a"] == "cancelled"
    assert house.attempt(attempt.id).outcome == "cancelled"
    ending = await asyncio.wait_for(carried, 20)
    assert ending.state == Completed()
    assert house.statuses(run)["c"] == "completed"
    assert house.statuses(run)["d"] in {"blocked", "skipped"}
    assert len(house.attempts(run, "a")) == 1
    (pin,) = await pins(house)
    assert await house.show(f"{pin}:a") == "begun"


async def test_a_paused_goal_is_set_aside_until_it_is_resumed_and_others_go_on(house):
    """SC-17: nothing new starts in it; the run pauses when nothing else is left, and stays so when it is resumed."""
    run = await house.lay_out(goal("g", act("a")), goal("h", act("c")))
    await wished(house, run, "pause", "g")
    ending = await house.carry_out(run, a=["echo x > a"], c=["echo x > c"])
    assert status_of(ending.state) == "paused"
    assert house.statuses(run) == {"a": "pending", "c": "completed"}
    assert goal_of(house, run, "g").state == Paused(PAUSED_BY_USER)
    run = house.store.runs.get(run.id)
    await wished(house, run, "resume", "g")
    assert (await house.carry_out(run, a=["echo x > a"])).state == Completed()


async def test_a_goal_is_paused_and_resumed_while_its_run_is_carried_out(house):
    run, conductor, carried = await begun(house, goal("g", act("c"), act("d", needs=["c_done"])), goal("h", act("a")))
    await wished(house, run, "pause", "g")
    assert goals(house, run) == {"g": "paused", "h": "active"}
    await wished(house, run, "resume", "g")
    assert goals(house, run)["g"] == "active"
    conductor.request_stop("cancelled")
    assert (await carried).cause == "cancelled"


async def test_a_stopped_goal_ends_its_attempts_at_once_and_their_actions_wait(house):
    """SC-20: an attempt that was stopped is nobody's failure."""
    run, conductor, carried = await begun(house, goal("g", act("a")), goal("h", act("b")))
    await until(lambda: set(house.statuses(run).values()) == {"running"})
    await wished(house, run, "stop", "g")
    assert goals(house, run) == {"g": "paused", "h": "active"}
    assert house.statuses(run) == {"a": "pending", "b": "running"}
    (attempt,) = house.attempts(run, "a")
    assert (attempt.outcome, attempt.error) == ("cancelled", "stopped by the user")
    assert house.store.actions.failures(house.action(run, "a").id) == 0
    conductor.request_stop("stopped")
    await carried


async def test_a_cancelled_goal_ends_for_good_and_the_run_ends_with_the_others(house):
    """SC-17: the run is completed when all its other goals are."""
    run, _, carried = await begun(house, goal("g", act("a"), act("d", needs=["a_done"])), goal("h", act("c")))
    await wished(house, run, "cancel", "g")
    ending = await asyncio.wait_for(carried, 20)
    assert ending.state == Completed()
    assert goals(house, run) == {"g": "cancelled", "h": "completed"}
    assert house.statuses(run) == {"a": "cancelled", "d": "cancelled", "c": "completed"}
    assert await house.worktrees() == 0


async def test_without_an_owner_a_wish_is_done_here(house):
    """SC-16: what a dead owner left is recovered first; the run is nobody's afterwards."""
    run = await house.own(goal("g", act("a"), act("b")))
    attempt = await house.queue(run, "a")
    run = house.orphan(run)
    await wished(house, run, "stop", key="b")
    assert house.statuses(run) == {"a": "pending", "b": "cancelled"}
    assert house.attempt(attempt.id).outcome == "lost"
    assert house.store.runs.get(run.id).owner is None
    await wished(house, run, "cancel")
    assert goal_of(house, run, "g").state == Cancelled()


async def test_an_owner_that_does_not_come_to_it_is_busy_and_the_wish_stays(house):
    run = await house.lay_out(goal("g", act("a")))
    with house.store.transaction():
        house.store.runs.take(run.id, identify(1), expected_fence=0)
    wish = a_wish(house, run, "pause")
    with pytest.raises(RunBusy, match="has not applied it yet"):
        await submit_control_request(house.site, run, wish, patience_s=0.2)
    assert house.store.wishes.open_of_run(run.id) == (wish,)


async def test_a_candidate_that_is_being_checked_is_cancelled_and_the_queue_goes_on(house):
    """BX-3: it does not land, and stays pinned; the next one lands."""
    slow = act("a", check="test -e ../go || sleep 1; test -s a")
    run = await house.own(goal("g", slow), goal("h", act("c")))
    await house.work(run, "a", "echo x > a")
    await house.work(run, "c", "echo x > c")
    queue = MergeQueue(house.site, run)
    step = asyncio.create_task(queue.step())
    await asyncio.sleep(0)
    leave(house, a_wish(house, run, "cancel"))
    await apply_control_requests(house.site, run, None)
    refused = await step
    assert (refused.outcome, goals(house, run)["g"]) == ("cancelled", "cancelled")
    await queue.step()
    await queue.close()
    assert await house.landed(run) == ["c"]
    assert await house.sh("git for-each-ref --format='%(refname)' refs/scaffold/work") != ""


async def test_what_moves_the_branch_just_now_lands_and_the_wish_waits_for_it(house):
    """A crash in between is read back from the intent; nobody cancels what may have landed."""
    run = await house.own(goal("g", act("a"), act("b")))
    await house.work(run, "a", "echo x > a")
    (attempt,) = house.attempts(run, "a")
    intent = Intent(
        id=new_id(),
        run_id=run.id,
        attempt_id=attempt.id,
        fence=run.fence,
        ref=session_ref(run),
        old=run.base_sha,
        new=attempt.head_sha,
    )
    with house.store.transaction():
        house.store.attempts.advance(attempt.id, fence=attempt.fence, phase="landing")
        house.store.intents.add(intent)
    wish = leave(house, a_wish(house, run, "cancel"))
    await apply_control_requests(house.site, run, None)
    assert house.statuses(run) == {"a": "landing", "b": "cancelled"}
    assert house.store.wishes.open_of_run(run.id) == (wish,)
    with house.store.transaction():
        house.store.intents.settle(intent.id, done=False)
    await apply_control_requests(house.site, run, None)
    assert house.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert house.store.wishes.open_of_run(run.id) == ()


async def test_a_stopped_compound_takes_all_below_it_along(house):
    run = await house.own(
        goal("g", act("phase", kind="compound", effects=("x",)), act("a", parent="phase"), act("c"), wants=["c_done"])
    )
    leave(house, a_wish(house, run, "stop", key="phase"))
    await apply_control_requests(house.site, run, None)
    assert house.statuses(run) == {"phase": "cancelled", "a": "cancelled", "c": "pending"}


async def test_wishes_are_done_once_and_in_order(house):
    run = await house.own(goal("g", act("a")))
    for kind in ("pause", "resume", "pause", "pause"):
        leave(house, a_wish(house, run, kind))
    await apply_control_requests(house.site, run, None)
    before = house.store.events.last_seq(run.id)
    await apply_control_requests(house.site, run, None)
    assert goal_of(house, run, "g").state == Paused(PAUSED_BY_USER)
    assert house.store.events.last_seq(run.id) == before


@pytest.mark.parametrize("kind", ["stop", "pause", "resume"])
async def test_a_goal_that_has_ended_stays_as_it_is(house, kind):
    run = await house.own(goal("g", act("a")), goal("h", act("b")))
    with house.store.transaction():
        house.store.goals.move(goal_of(house, run, "g").id, Completed())
    leave(house, a_wish(house, run, kind))
    await apply_control_requests(house.site, run, None)
    assert goals(house, run)["g"] == "completed"
    assert house.store.wishes.open_of_run(run.id) == ()


class Cut:
    """An engine whose owner dies as soon as it is told to stop an attempt."""

    async def stop_attempt(self, attempt, *, grace_s):
        raise KeyboardInterrupt(attempt, grace_s)


@pytest.mark.parametrize("kind", ["stop", "cancel"])
async def test_a_wish_whose_owner_dies_in_the_middle_is_done_once_by_the_next_one(house, kind):
    """SC-16: what was ended stays ended and is pinned; the wish is not done twice."""
    run = await house.own(goal("g", act("a")), goal("h", act("b")))
    attempt = await house.queue(run, "a")
    leave(house, a_wish(house, run, kind))
    with pytest.raises(KeyboardInterrupt):
        await apply_control_requests(house.site, run, Cut())
    assert len(house.store.wishes.open_of_run(run.id)) == 1
    assert house.attempt(attempt.id).outcome == "cancelled"
    run = await house.take(house.orphan(run))
    await recover_run(house.site, run)
    await apply_control_requests(house.site, run, None)
    assert house.store.wishes.open_of_run(run.id) == ()
    assert [each.outcome for each in house.attempts(run, "a")] == ["cancelled"]
    assert house.statuses(run)["a"] == {"stop": "pending", "cancel": "cancelled"}[kind]
    assert house.statuses(run)["b"] == "pending"


async def test_goals_that_have_all_ended_are_not_set_aside(house):
    """SC-17: a run whose last goals ended in this very moment is not put down as paused."""
    run = await house.lay_out(goal("g", act("a")), goal("h", act("b")))
    conductor = await house.conductor(run, {})
    with house.store.transaction():
        house.store.goals.move(goal_of(house, run, "g").id, Cancelled())
    assert not conductor._all_goals_paused()
    with house.store.transaction():
        house.store.goals.move(goal_of(house, run, "h").id, Cancelled())
    assert not conductor._all_goals_paused()
