"""Workers that exceed their time, whatever the wall clock says."""

from datetime import timedelta

import msgspec

from scaffold.orchestrator.owner.processes.engine import AttemptExit
from scaffold.orchestrator.owner.processes.worker_exits import OVERTIME_S, AttemptLauncher, WorkerExitHandler
from scaffold.orchestrator.owner.watch.machine_watch import MachineWatch
from scaffold.run.context import FAULT_EXIT_CODE
from support.fake_clock import FakeClock
from support.harness import act, goal
from support.task_engine import TaskEngine


class Jumping(FakeClock):
    """A clock whose time of day can be set."""

    def __init__(self):
        super().__init__()
        self.ahead = timedelta()

    def now(self):
        return super().now() + self.ahead


class Noting(TaskEngine):
    """An engine that records which attempts it is asked to stop."""

    def __init__(self):
        super().__init__(None, None)
        self.stopped = []

    async def stop_attempt(self, attempt, *, grace_s):
        self.stopped.append(attempt)


async def test_a_workers_deadline_uses_a_monotonic_clock(harness):
    """SC-16: a changed wall clock costs no work."""
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    clock, engine = Jumping(), Noting()
    context = msgspec.structs.replace(harness.context, clock=clock)
    launcher, disk = AttemptLauncher(harness.store, run, engine, lambda: None), MachineWatch(context, run, lambda: None)
    reaping = WorkerExitHandler(context, run, engine, launcher, disk)
    for ahead in (timedelta(days=400), timedelta(days=-400)):
        clock.ahead = ahead
        await reaping.end_overdue()
        assert engine.stopped == []
    clock.advance(run.settings.tier.timeout_s + OVERTIME_S)
    await reaping.end_overdue()
    assert engine.stopped == [], "to the second"
    clock.advance(1.0)
    await reaping.end_overdue()
    assert engine.stopped == [attempt.id]


ROOM, FULL = 10**12, 0
DEATHS = {(-9, ROOM): 1, (120, ROOM): 1, (FAULT_EXIT_CODE, ROOM): 0, (-7, FULL): 0, (120, FULL): 0}
"""The deaths that an exit code counts as, by what is free on the disk."""


async def test_only_what_is_no_fault_of_the_machine_is_a_death(harness):
    """SC-16, SC-20: none of them is a failure; on a full disk, writing ends in a signal or in exit code 120."""
    run = await harness.own(*(goal(f"g{n}", act(f"a{n}")) for n in range(len(DEATHS))), agents=9)
    engine, found = Noting(), {}
    launcher = AttemptLauncher(harness.store, run, engine, lambda: None)
    for n, (code, free) in enumerate(DEATHS):
        attempt = await harness.queue(run, f"a{n}")
        harness.claim(attempt)
        disk = MachineWatch(harness.context, run, lambda: None, free=lambda _, free=free: free)
        exits = WorkerExitHandler(harness.context, run, engine, launcher, disk)
        assert await exits.handle_exit(AttemptExit(attempt.id, code)) == "lost"
        assert harness.store.actions.failures(attempt.action_id) == 0
        found[code, free] = harness.goal(run, f"g{n}").deaths
    assert found == DEATHS
