"""Workers that are over their time, whatever the clock on the wall says."""

from datetime import timedelta

import msgspec

from scaffold.host.clock import FakeClock
from scaffold.orchestrator.owner.attempt_launcher import AttemptLauncher
from scaffold.orchestrator.owner.task_engine import TaskEngine
from scaffold.orchestrator.owner.worker_exits import OVERTIME_S, WorkerExitHandler
from support.harness import act, goal


class Jumping(FakeClock):
    """A clock whose time of day can be set."""

    def __init__(self):
        super().__init__()
        self.ahead = timedelta()

    def now(self):
        return super().now() + self.ahead


class Noting(TaskEngine):
    """An engine that notes which attempts it is to stop."""

    def __init__(self):
        super().__init__(None, None)
        self.stopped = []

    async def stop_attempt(self, attempt, *, grace_s):
        self.stopped.append(attempt)


async def test_a_worker_has_its_time_by_a_clock_that_does_not_jump(harness):
    """SC-16: somebody sets the clock, or the machine does; nobody's work is lost for that."""
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    clock, engine = Jumping(), Noting()
    site = msgspec.structs.replace(harness.site, clock=clock)
    reaping = WorkerExitHandler(site, run, engine, AttemptLauncher(harness.store, run.id, engine))
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
