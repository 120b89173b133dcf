"""Control requests for one goal or one action, executed by the owner, or here if there is none."""

import asyncio

import pytest
from inline_snapshot import snapshot

from integration.landing.builders import interrupted_landing
from scaffold.core.errors import RunBusy
from scaffold.core.ids import ControlRequestId
from scaffold.core.model import ControlRequest
from scaffold.core.states import PAUSED_BY_USER, Cancelled, Completed, Paused, status_of
from scaffold.host.process_identity import identify
from scaffold.host.random_ids import new_id
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.orchestrator.owner.goal_control import apply_control_requests
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.user_control.execution_control import submit_control_request
from support.harness import act, goal, poll_until


def control_request(harness, run, kind, goal_name="g", key=None):
    return ControlRequest(
        id=ControlRequestId(new_id()),
        run_id=run.id,
        kind=kind,
        goal_id=harness.goal(run, goal_name).id,
        action_id=harness.action(run, key).id if key else None,
        created_at=harness.clock.now(),
    )


def leave(harness, control):
    with harness.store.transaction():
        harness.store.control_requests.add(control)
    return control


def goals(harness, run):
    return {each.name: status_of(each.state) for each in harness.store.goals.for_run(run.id)}


def work_for(*keys):
    return {key: [f"echo begun > {key}; sleep 60"] for key in keys}


async def pins(harness):
    return (await harness.sh("git for-each-ref --format='%(refname)' refs/scaffold/rescue")).split()


async def wished(harness, run, kind, *args, **options):
    await submit_control_request(
        harness.context, run, control_request(harness, run, kind, *args, **options), timeout_s=10
    )


async def begun(harness, *goals_of_run, **settings):
    """Return a run executed by a task, as soon as an attempt runs in each of its goals."""
    run = await harness.open_run(*goals_of_run, **settings)
    run_owner = await harness.recover_owner(run, work_for("a", "b") | {"c": ["echo x > c"]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: {"a", "b"} & {key for key, status in harness.statuses(run).items() if status == "running"})
    return harness.store.runs.get(run.id), run_owner, carried


@pytest.mark.slow
async def test_a_stopped_action_is_cancelled_with_its_work_pinned_and_the_goal_continues(harness):
    """SC-17: its running attempt ends at once; its dependents can never become ready."""
    run, _, carried = await begun(
        harness, goal("g", act("a"), act("c"), act("d", needs=["a_done"]), wants=["c_done"]), agents=1
    )
    (attempt,) = harness.attempts(run, "a")
    folder = harness.context.attempt_folder(run.id, attempt.id)
    await poll_until((folder / "a").exists)
    await wished(harness, run, "stop", key="a")
    assert harness.statuses(run)["a"] == "cancelled"
    assert harness.attempt(attempt.id).outcome == "cancelled"
    ending = await asyncio.wait_for(carried, 20)
    assert ending.state == Completed()
    assert harness.statuses(run)["c"] == "completed"
    assert harness.statuses(run)["d"] in {"blocked", "skipped"}
    assert len(harness.attempts(run, "a")) == 1
    (pin,) = await pins(harness)
    assert await harness.show(f"{pin}:a") == "begun"


@pytest.mark.slow
async def test_a_paused_goal_waits_until_it_is_resumed_and_others_continue(harness):
    """SC-17: nothing new starts in it; the run pauses when nothing else is left, and the pause outlasts a resume."""
    run = await harness.open_run(goal("g", act("a")), goal("h", act("c")))
    await wished(harness, run, "pause", "g")
    ending = await harness.run_to_end(run, a=["echo x > a"], c=["echo x > c"])
    assert status_of(ending.state) == "paused"
    assert harness.statuses(run) == {"a": "pending", "c": "completed"}
    assert harness.goal(run).state == Paused(PAUSED_BY_USER)
    run = harness.store.runs.get(run.id)
    await wished(harness, run, "resume", "g")
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()


@pytest.mark.slow
async def test_a_goal_is_paused_and_resumed_while_its_run_is_active(harness):
    run, run_owner, carried = await begun(harness, goal("g", act("c"), act("d", needs=["c_done"])), goal("h", act("a")))
    await wished(harness, run, "pause", "g")
    assert goals(harness, run) == {"g": "paused", "h": "active"}
    await wished(harness, run, "resume", "g")
    assert goals(harness, run)["g"] == "active"
    run_owner.request_stop("cancelled")
    assert (await carried).cause == "cancelled"


@pytest.mark.slow
async def test_a_stopped_goal_ends_its_attempts_at_once_and_their_actions_wait(harness):
    """SC-20: a stopped attempt does not count as a failure."""
    run, run_owner, carried = await begun(harness, goal("g", act("a")), goal("h", act("b")))
    await poll_until(lambda: set(harness.statuses(run).values()) == {"running"})
    await wished(harness, run, "stop", "g")
    assert goals(harness, run) == {"g": "paused", "h": "active"}
    assert harness.statuses(run) == {"a": "pending", "b": "running"}
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.outcome, attempt.error) == snapshot(("cancelled", "stopped by the user"))
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0
    run_owner.request_stop("stopped")
    await carried


@pytest.mark.slow
async def test_a_cancelled_goal_is_final_and_the_run_ends_with_the_others(harness):
    """SC-17: the run is completed when all its other goals are."""
    run, _, carried = await begun(harness, goal("g", act("a"), act("d", needs=["a_done"])), goal("h", act("c")))
    await wished(harness, run, "cancel", "g")
    ending = await asyncio.wait_for(carried, 20)
    assert ending.state == Completed()
    assert goals(harness, run) == {"g": "cancelled", "h": "completed"}
    assert harness.statuses(run) == {"a": "cancelled", "d": "cancelled", "c": "completed"}
    assert await harness.worktrees() == 0


async def test_without_an_owner_a_request_is_executed_here(harness):
    """SC-16: what a dead owner left is recovered first; the run has no owner afterwards."""
    run = await harness.own(goal("g", act("a"), act("b")))
    attempt = await harness.queue(run, "a")
    run = harness.orphan(run)
    await wished(harness, run, "stop", key="b")
    assert harness.statuses(run) == {"a": "pending", "b": "cancelled"}
    assert harness.attempt(attempt.id).outcome == "lost"
    assert harness.store.runs.get(run.id).owner is None
    await wished(harness, run, "cancel")
    assert harness.goal(run).state == Cancelled()


async def test_an_owner_that_does_not_react_is_busy_and_the_request_stays(harness):
    run = await harness.open_run(goal("g", act("a")))
    with harness.store.transaction():
        harness.store.runs.take(run.id, identify(1), expected_fence=0)
    control = control_request(harness, run, "pause")
    with pytest.raises(RunBusy):
        await submit_control_request(harness.context, run, control, timeout_s=0.05)
    assert harness.store.control_requests.open_of_run(run.id) == (control,)


@pytest.mark.slow
async def test_a_candidate_under_check_is_cancelled_and_the_queue_continues(harness):
    """BX-3: it does not land, and stays pinned; the next one lands."""
    slow = act("a", check="test -e ../go || sleep 1; test -s a")
    run = await harness.own(goal("g", slow), goal("h", act("c")))
    await harness.work(run, "a", "echo x > a")
    await harness.work(run, "c", "echo x > c")
    queue = MergeQueue(harness.context, run)
    step = asyncio.create_task(queue.step())
    await asyncio.sleep(0)
    leave(harness, control_request(harness, run, "cancel"))
    await apply_control_requests(harness.context, run, None)
    await step
    assert goals(harness, run)["g"] == "cancelled"
    while harness.store.attempts.waiting_to_land(run.id):
        await queue.step()
    await queue.close()
    assert await harness.landed(run) == ["c"]
    assert await harness.sh("git for-each-ref --format='%(refname)' refs/scaffold/work") != ""


@pytest.mark.slow
async def test_a_landing_in_progress_completes_and_the_request_waits_for_it(harness):
    """A crash in between is recovered from the intent; a commit that may have landed is not cancelled."""
    run = await harness.own(goal("g", act("a"), act("b")))
    await harness.work(run, "a", "echo x > a")
    intent = await interrupted_landing(harness, run, "a", harness.attempts(run, "a")[0].head_sha)
    control = leave(harness, control_request(harness, run, "cancel"))
    await apply_control_requests(harness.context, run, None)
    assert harness.statuses(run) == {"a": "landing", "b": "cancelled"}
    assert harness.store.control_requests.open_of_run(run.id) == (control,)
    with harness.store.transaction():
        harness.store.intents.settle(intent.id, done=False)
    await apply_control_requests(harness.context, run, None)
    assert harness.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert harness.store.control_requests.open_of_run(run.id) == ()


async def test_a_stopped_compound_stops_all_its_descendants(harness):
    run = await harness.own(
        goal("g", act("phase", kind="compound", effects=("x",)), act("a", parent="phase"), act("c"), wants=["c_done"])
    )
    leave(harness, control_request(harness, run, "stop", key="phase"))
    await apply_control_requests(harness.context, run, None)
    assert harness.statuses(run) == {"phase": "cancelled", "a": "cancelled", "c": "pending"}


async def test_requests_are_executed_once_and_in_order(harness):
    run = await harness.own(goal("g", act("a")))
    for kind in ("pause", "resume", "pause", "pause"):
        leave(harness, control_request(harness, run, kind))
    await apply_control_requests(harness.context, run, None)
    before = harness.store.events.last_seq(run.id)
    await apply_control_requests(harness.context, run, None)
    assert harness.goal(run).state == Paused(PAUSED_BY_USER)
    assert harness.store.events.last_seq(run.id) == before


async def test_an_ended_goal_does_not_change(harness):
    run = await harness.own(goal("g", act("a")), goal("h", act("b")))
    harness.move(harness.goal(run), Completed())
    for kind in ("stop", "pause", "resume"):
        leave(harness, control_request(harness, run, kind))
        await apply_control_requests(harness.context, run, None)
        assert goals(harness, run)["g"] == "completed", kind
    assert harness.store.control_requests.open_of_run(run.id) == ()


class Cut:
    """An engine whose owner dies as soon as it is asked to stop an attempt."""

    async def stop_attempt(self, attempt, *, grace_s):
        raise KeyboardInterrupt(attempt, grace_s)


@pytest.mark.parametrize("kind", ["stop", "cancel"])
async def test_a_request_whose_owner_dies_midway_is_executed_once_by_the_next_one(harness, kind):
    """SC-16: ended attempts stay ended and pinned; the request is not executed twice."""
    run = await harness.own(goal("g", act("a")), goal("h", act("b")))
    attempt = await harness.queue(run, "a")
    leave(harness, control_request(harness, run, kind))
    with pytest.raises(KeyboardInterrupt):
        await apply_control_requests(harness.context, run, Cut())
    assert len(harness.store.control_requests.open_of_run(run.id)) == 1
    assert harness.attempt(attempt.id).outcome == "cancelled"
    run = await harness.take(harness.orphan(run))
    await recover_run(harness.context, run)
    await apply_control_requests(harness.context, run, None)
    assert harness.store.control_requests.open_of_run(run.id) == ()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["cancelled"]
    assert harness.statuses(run)["a"] == {"stop": "pending", "cancel": "cancelled"}[kind]
    assert harness.statuses(run)["b"] == "pending"


async def test_a_run_whose_goals_have_all_ended_is_not_paused(harness):
    """SC-17: also if the last goals end at this very moment."""
    run = await harness.open_run(goal("g", act("a")), goal("h", act("b")))
    run_owner = await harness.recover_owner(run, {})
    harness.move(harness.goal(run), Cancelled())
    assert not run_owner._all_goals_paused()
    harness.move(harness.goal(run, "h"), Cancelled())
    assert not run_owner._all_goals_paused()
