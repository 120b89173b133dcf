"""Supervisors that die, hang or make no progress; owners without a heartbeat."""

import asyncio
import contextlib
import os

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import RunBusy, StaleFence
from scaffold.core.events import SupervisorEnded, SupervisorStarted
from scaffold.core.model import ProcessIdentity
from scaffold.core.states import Completed, Failed, Paused
from scaffold.host.process.child import start_child
from scaffold.host.process_identity import identify
from scaffold.host.wake_fifo import WakeFifo
from scaffold.orchestrator.owner.processes.crash_history import MAX_STRIKES
from scaffold.orchestrator.owner.processes.engine import SupervisorExit
from scaffold.orchestrator.owner.processes.supervisor_pool import (
    MAX_UNANSWERED_PROBES,
    PROBE_INTERVAL_S,
    SupervisorPool,
)
from scaffold.orchestrator.owner.run_end import RETRIED
from scaffold.orchestrator.owner.run_lease import (
    LEASE_S,
    is_lease_expired,
    renew_lease,
    take_over_run,
    take_over_run_when_free,
)
from scaffold.orchestrator.owner.run_loop import recover_run_owner
from scaffold.orchestrator.supervisor.goal_process import MAX_GOALS
from support.fake_clock import FakeClock
from support.harness import DEAD_PROCESS, act, goal, open_context, poll_until
from support.task_engine import TaskEngine

INIT = identify(1)


def supervisors(harness, run):
    """Return how the supervisors of a run ended, in order."""
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    return [event.code for event in events if isinstance(event, SupervisorEnded)]


async def carried(harness, run, pursue, work=None):
    run_owner = await recover_run_owner(
        harness.context, take_over_run(harness.context, run.id), TaskEngine(work, pursue)
    )
    async with asyncio.timeout(60):
        return await run_owner.execute()


def worker(harness, run, **turns):
    async def work(attempt):
        await harness.run_attempt(attempt, turns)
        return 0

    return work


@pytest.mark.slow
async def test_a_killed_supervisor_is_restarted(harness):
    """SC-16: the supervisor of an active goal is replaced after any end without completion."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])))
    deaths = iter([-9, 1, -15])

    async def pursue(goals):
        if (code := next(deaths, None)) is not None:
            return code
        return await harness.supervise(goals)

    ending = await carried(harness, run, pursue, worker(harness, run, a=["echo x > a"], b=["echo x > b"]))
    assert ending.state == Completed()
    assert supervisors(harness, run)[:3] == [-9, 1, -15], "the last one may end after the run has"
    begun = [each.event for each in harness.store.events.since(run.id, 0) if isinstance(each.event, SupervisorStarted)]
    assert len(begun) == 4
    assert harness.store.goals.for_run(run.id)[0].supervisor is None


@pytest.mark.slow
async def test_supervisors_without_progress_fail_their_goal_with_the_reason(harness):
    """SC-16: six in a row without a change are enough; other goals continue."""
    run = await harness.open_run(goal("bad", act("a")), goal("good", act("b")))
    bad = harness.store.goals.for_run(run.id)[0].id
    log = harness.context.process_log(run.id, bad)
    log.parent.mkdir(parents=True)
    log.write_text("MemoryError")

    async def pursue(goals):
        return 1 if bad in goals else await harness.supervise(goals)

    ending = await carried(harness, run, pursue, worker(harness, run, b=["echo x > b"]))
    assert isinstance(ending.state, Failed)
    assert supervisors(harness, run).count(1) == MAX_STRIKES + 2, "the first one was that of both goals"
    first, second = harness.store.goals.for_run(run.id)
    assert isinstance(first.state, Failed)
    assert (f"{MAX_STRIKES} times" in first.state.reason, "MemoryError" in first.state.reason) == (True, True)
    assert second.state == Completed()


@pytest.mark.slow
async def test_a_supervisor_that_dies_after_each_step_still_completes_its_goal(harness):
    """SC-16: changes in the store count, not the number of deaths."""
    names = [f"a{n}" for n in range(7)]
    chain = [
        act(name, needs=[f"{before}_done"] if before else []) for before, name in zip(["", *names], names, strict=False)
    ]
    run = await harness.open_run(goal("g", *chain))

    async def pursue(goals):
        task = asyncio.ensure_future(harness.supervise(goals))
        known = len(harness.store.attempts.for_run(run.id))
        await poll_until(lambda: task.done() or len(harness.store.attempts.for_run(run.id)) > known)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            return -9
        return task.result()

    ending = await carried(harness, run, pursue, worker(harness, run, **{name: [f"echo x > {name}"] for name in names}))
    assert ending.state == Completed()
    assert supervisors(harness, run).count(-9) >= len(names)
    assert all(len(harness.attempts(run, name)) == 1 for name in names)


@pytest.mark.slow
async def test_a_retried_goal_has_a_supervisor_again(harness):
    """SC-16, OR-10."""
    run = await harness.open_run(goal("g", act("a")))
    begun = []

    async def pursue(goals):
        begun.append(goals)
        if len(begun) == 1:
            with harness.store.transaction():
                harness.store.goals.move(goals[0], Failed("it seemed so"))
                harness.store.goals.move(goals[0], Paused(RETRIED))
            return 0
        return await harness.supervise(goals)

    assert (await carried(harness, run, pursue, worker(harness, run, a=["echo x > a"]))).state == Completed()
    assert len(begun) == 2


async def test_a_supervisor_that_exhausts_the_budget_pauses_the_run(harness):
    """AL-21: exit code 2, and resume continues."""
    run = await harness.open_run(goal("g", act("a")))

    async def pursue(goals):
        return 2

    ending = await carried(harness, run, pursue)
    assert (ending.cause, ending.state) == ("limit", Paused(snapshot("the budget is used up")))
    assert harness.goal(run).state == ending.state


@pytest.fixture
async def timed(harness):
    """The same harness with a clock that does not move."""
    context = await open_context(harness.repo, cache=harness.context.cache, environ=harness.context.environ)
    yield msgspec.structs.replace(context, clock=FakeClock())
    context.store.close()


@contextlib.contextmanager
def unread(path):
    """Listen at `path` like a stopped process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(descriptor)


async def test_a_process_that_no_longer_listens_is_ended(harness, timed):
    """SC-16: stopped, or stuck: its process lives, so there is no other sign. A responsive one is left alone."""
    run = await harness.own(*(goal(f"g{n}", act(f"a{n}")) for n in range(MAX_GOALS + 1)))
    *deaf, awake = (each.id for each in harness.store.goals.for_run(run.id))
    listening = set()

    async def pursue(goals):
        if deaf[0] in goals:
            with unread(timed.wake_fifo(run.id, goals[0])):
                listening.add(goals)
                await asyncio.Event().wait()
        bell = WakeFifo(timed.wake_fifo(run.id, goals[0]), lambda: None)
        listening.add(goals)
        try:
            await asyncio.Event().wait()
        finally:
            bell.close()

    engine = TaskEngine(None, pursue)
    supervision = SupervisorPool(timed, run, engine)
    chores = [asyncio.create_task(chore) for chore in (supervision.keep(), supervision.end_unresponsive())]
    await poll_until(lambda: listening == {tuple(deaf), (awake,)})
    exited = asyncio.create_task(engine.next_exit())
    glances = 0
    while not exited.done() and glances < 50:
        timed.clock.advance(PROBE_INTERVAL_S)
        glances += 1
        await asyncio.sleep(0.01)
    assert (exited.result().goals, exited.result().code) == (tuple(deaf), -9)
    assert glances > MAX_UNANSWERED_PROBES, "it was given time"
    for chore in chores:
        chore.cancel()
    await asyncio.wait(chores)
    await engine.close(grace_s=0)


async def test_a_start_that_was_cancelled_is_repeated(harness):
    """SC-16, AL-31: a run that is held while a process starts goes on later."""
    await harness.own(goal("g", act("a")))
    run = harness.store.runs.all()[0]
    starting, slow = [], asyncio.Event()

    class SlowEngine(TaskEngine):
        async def start_supervisor(self, goals):
            starting.append(goals)
            await slow.wait()
            return await super().start_supervisor(goals)

    async def pursue(goals):
        await asyncio.Event().wait()

    engine = SlowEngine(None, pursue)
    pool = SupervisorPool(harness.context, run, engine)
    for number in (1, 2):
        keeper = asyncio.create_task(pool.keep())
        await poll_until(lambda number=number: len(starting) == number)
        if number == 2:
            slow.set()
            await poll_until(lambda: harness.store.goals.for_run(run.id)[0].supervisor)
        keeper.cancel()
        await asyncio.wait([keeper])
    await pool.stop_all()
    assert await engine.next_exit() == SupervisorExit(starting[0], -9)


def owned_by(context, run, owner, beat):
    with context.store.transaction():
        fence = context.store.runs.take(run.id, owner, expected_fence=context.store.runs.get(run.id).fence)
        if beat is not None:
            context.store.runs.record_heartbeat(run.id, fence=fence, at=beat)


async def test_a_living_owner_with_a_heartbeat_keeps_its_run(harness, timed):
    """OR-8: two orchestrators on one repository; a day forward or back in wall time does not matter."""
    run = await harness.open_run(goal("g", act("a")))
    owned_by(timed, run, INIT, beat=0.0)
    timed.clock.advance(LEASE_S)
    for year in (2040, 2020):
        timed.clock._start = timed.clock._start.replace(year=year)
        assert not is_lease_expired(timed, timed.store.runs.get(run.id))
    with pytest.raises(RunBusy, match="process 1"):
        take_over_run(timed, run.id)


async def test_an_owner_without_a_heartbeat_loses_its_run_when_the_lease_expires(harness, timed):
    """SC-16, BX-17: stopped, not dead; when it continues it is refused."""
    run = await harness.open_run(goal("g", act("a")))
    owned_by(timed, run, INIT, beat=0.0)
    old = timed.store.runs.get(run.id)
    waiting = asyncio.create_task(take_over_run_when_free(timed, run.id))
    timed.clock.advance(2.5)
    await asyncio.sleep(0)
    while not waiting.done():
        timed.clock.advance(0.1)
        await asyncio.sleep(0)
    taken = await waiting
    assert taken.fence == old.fence + 1
    assert LEASE_S < timed.clock.monotonic() <= LEASE_S + 1
    with pytest.raises(StaleFence):
        await renew_lease(timed, old)


async def test_an_owner_that_recovers_in_time_is_left_alone(harness, timed):
    run = await harness.open_run(goal("g", act("a")))
    owned_by(timed, run, INIT, beat=0.0)
    timed.clock.advance(3.0)
    waiting = asyncio.create_task(take_over_run_when_free(timed, run.id))
    await asyncio.sleep(0)
    with timed.store.transaction():
        timed.store.runs.record_heartbeat(run.id, fence=timed.store.runs.get(run.id).fence, at=3.0)
    timed.clock.advance(0.2)
    with pytest.raises(RunBusy):
        await waiting


async def test_a_dead_owner_is_replaced_at_once(harness, timed):
    run = await harness.open_run(goal("g", act("a")))
    owned_by(timed, run, DEAD_PROCESS, beat=0.0)
    assert (await take_over_run_when_free(timed, run.id)).fence == 2
    assert timed.clock.monotonic() == 0


@pytest.mark.slow
async def test_supervisors_left_by_a_dead_owner_are_ended(harness, tmp_path):
    """SC-16, OR-10: a stale record is cleared, and no other supervisor runs beside the new one."""
    run = harness.orphan(await harness.open_run(goal("g", act("a"))))
    sleeper = await start_child(["sleep", "60"], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, log=tmp_path / "log")
    (the_goal,) = harness.store.goals.for_run(run.id)
    with harness.store.transaction():
        harness.store.goals.supervise(the_goal.id, sleeper.identity, was=None)
    ending = await harness.run_to_end(run, a=["echo x > a"])
    assert ending.state == Completed()
    async with asyncio.timeout(5):
        assert await sleeper.wait() == -9


async def test_a_supervisor_inside_the_dead_owner_is_only_forgotten(harness):
    run = await harness.open_run(goal("g", act("a")))
    ghost = ProcessIdentity(DEAD_PROCESS.pid, "another", DEAD_PROCESS.boot)
    with harness.store.transaction():
        harness.store.runs.take(run.id, ghost, expected_fence=0)
        harness.store.goals.supervise(harness.store.goals.for_run(run.id)[0].id, ghost, was=None)
    take_over_run(harness.context, run.id)
    assert harness.store.goals.for_run(run.id)[0].supervisor is None


@pytest.mark.slow
async def test_a_worker_without_a_heartbeat_is_ended_and_its_work_restarted(harness):
    """BX-12, SC-20: it was stopped, or stuck; that does not count as a failure."""
    run = await harness.open_run(goal("g", act("a")))
    tries = []

    async def work(attempt):
        tries.append(attempt.id)
        if len(tries) == 1:
            harness.claim(attempt)
            with harness.store.transaction():
                harness.store.attempts.record_heartbeat(
                    attempt.id, fence=attempt.fence, at=harness.clock.monotonic() - 3600, ends_at=0.0
                )
            await asyncio.Event().wait()
        await harness.run_attempt(attempt, {"a": ["echo x > a"]})
        return 0

    assert (await carried(harness, run, harness.supervise, work)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["lost", "landed"]
