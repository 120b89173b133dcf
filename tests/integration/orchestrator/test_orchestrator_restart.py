"""A run between two owners: requests, progress, and giving up."""

import asyncio

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import RunBusy
from scaffold.core.states import Cancelled, Completed, Paused
from scaffold.git.checkouts import worktree
from scaffold.host.process_identity import identify, own_identity
from scaffold.orchestrator.owner.processes.crash_history import run_progress
from scaffold.orchestrator.owner.restart import give_up_restarts, recover_from_dead_owner
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.orchestrator.owner.run_lease import (
    LEASE_S,
    hand_over_run,
    require_run,
    take_over_run,
    take_over_run_when_free,
)
from scaffold.orchestrator.user_control.execution_control import halt_run
from scaffold.views.store_reader import display_status, executing_process
from support.fake_clock import FakeClock
from support.harness import DEAD_PROCESS, act, goal, poll_until

INIT = identify(1)


def taken_by(harness, run, owner):
    with harness.store.transaction():
        fence = require_run(harness.store, run.id).fence
        harness.store.runs.take(run.id, owner, expected_fence=fence)


def ask(harness, run, request):
    with harness.store.transaction():
        harness.store.runs.ask(run.id, request)


@pytest.mark.parametrize(("options", "left"), [({}, None), ({"restart": True}, "stop")])
async def test_a_request_to_a_dead_owner_reaches_only_the_one_that_is_started_for_it(harness, options, left):
    """OR-10, SC-17: whoever resumes by hand does not want to be stopped by an old request."""
    run = harness.orphan(await harness.open_run(goal("g", act("a"))))
    ask(harness, run, "stop")
    take_over_run(harness.context, run.id, **options)
    assert harness.store.runs.control_request(run.id) == left
    # A process that has planned a run claims it again to execute it.
    ask(harness, run, "cancel")
    take_over_run(harness.context, run.id)
    assert harness.store.runs.control_request(run.id) == "cancel"


async def test_a_run_is_taken_from_a_process_that_hands_it_over(harness):
    """AL-27: the owner that the restarter starts may be faster than the process that started both."""
    run = await harness.open_run(goal("g", act("a")))
    taken_by(harness, run, INIT)
    held = require_run(harness.store, run.id)
    waiting = asyncio.create_task(take_over_run_when_free(harness.context, run.id))
    await asyncio.sleep(0)
    hand_over_run(harness.store, held, INIT)
    taken = await waiting
    assert taken.owner == own_identity()
    assert taken.restarter == INIT


@pytest.mark.slow
async def test_a_paused_run_that_is_handed_over_is_active(harness):
    """AL-27: its first owner may be killed at once, and is replaced then."""
    run = await harness.own(goal("g", act("a")))
    finish_run(harness.store, run, "paused")
    hand_over_run(harness.store, take_over_run(harness.context, run.id), INIT)
    assert display_status(require_run(harness.store, run.id)) == "active"
    taken = take_over_run(harness.context, run.id, restart=True)
    assert (await harness.run_to_end(taken, a=["echo x > a"])).state == Completed()


async def test_a_run_without_an_owner_is_executed_while_its_restarter_lives(harness):
    run = await harness.own(goal("g", act("a")))
    hand_over_run(harness.store, run, INIT)
    assert display_status(require_run(harness.store, run.id)) == "active"
    harness.orphan(run)
    assert executing_process(require_run(harness.store, run.id)) == INIT
    hand_over_run(harness.store, require_run(harness.store, run.id), DEAD_PROCESS)
    assert display_status(require_run(harness.store, run.id)) == "interrupted"


async def test_a_request_reaches_an_owner_that_was_started_at_the_same_moment(harness):
    """SC-17, OR-10: the user sees neither an error nor a run that goes on."""
    run = harness.orphan(await harness.own(goal("g", act("a"))))
    taken_by(harness, run, INIT)
    asked = asyncio.create_task(halt_run(harness.context, run, "cancel", timeout_s=10))
    await poll_until(lambda: harness.store.runs.control_request(run.id) == "cancel")
    harness.orphan(run)
    assert await asked == Cancelled()


@pytest.mark.slow
async def test_an_owner_that_only_loses_attempts_makes_no_progress(harness):
    """SC-16: its next death counts; something that lands does not let it count."""
    run = await harness.own(goal("g", act("a"), act("b", needs=["a_done"])))
    start = run_progress(harness.store, run.id)
    for _ in range(2):
        attempt = await harness.queue(run, "a")
        run = await harness.take(harness.orphan(run))
        await recover_from_dead_owner(harness.context, run)
        assert harness.attempt(attempt.id).outcome == "lost"
        assert run_progress(harness.store, run.id) == start
    ending = await harness.run_to_end(run, a=["echo x > a"], b=["false"])
    assert ending.state != Completed()
    assert run_progress(harness.store, run.id) != start


@pytest.mark.slow
async def test_a_run_whose_owners_die_too_often_is_paused_and_says_why(harness):
    """SC-16, AL-27: nothing is left of them, and `resume` continues."""
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    await worktree.add(harness.context.repository, harness.context.landing_folder(run.id), run.base_sha)
    run = await harness.take(harness.orphan(run))
    state = await give_up_restarts(harness.context, run)
    assert (type(state), state.reason) == (
        Paused,
        snapshot("the process that executes it died too often without progress"),
    )
    assert harness.attempt(attempt.id).outcome == "lost"
    assert await harness.worktrees() == 0
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()


async def test_a_process_that_keeps_a_run_is_not_waited_for_long(harness):
    """OR-8: a live owner without a first heartbeat."""
    run = await harness.open_run(goal("g", act("a")))
    taken_by(harness, run, INIT)
    timed = msgspec.structs.replace(harness.context, clock=FakeClock())
    waiting = asyncio.create_task(take_over_run_when_free(timed, run.id))
    while not waiting.done():
        timed.clock.advance(0.5)
        await asyncio.sleep(0)
    with pytest.raises(RunBusy, match="process 1"):
        await waiting
    assert timed.clock.monotonic() < 2 * LEASE_S
