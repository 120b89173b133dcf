"""The wake event, and the engine whose workers are tasks."""

import asyncio

from builders import an_action, an_attempt
from scaffold.orchestrator.owner.processes.engine import AttemptExit, SupervisorExit
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from support.task_engine import TaskEngine

ATTEMPT = an_attempt(an_action("a"), id="a1")


async def endless(*_):
    await asyncio.Event().wait()
    return 0


async def test_a_wake_up_between_listening_and_waiting_is_not_missed():
    bell = Wakeup()
    rung = bell.next_event()
    bell.notify_all()
    async with asyncio.timeout(1):
        await rung.wait()
    assert not bell.next_event().is_set()


async def test_each_exit_is_reported_once_in_order_and_an_error_has_its_own_code():
    async def work(attempt):
        return {"a3": 3, "a4": 4}[attempt.id]

    engine = TaskEngine(work, endless)
    for name in ("a3", "a4", "raises"):
        await engine.start_attempt(an_attempt(an_action("a"), id=name))
    exits = [await engine.next_exit() for _ in range(3)]
    assert exits == [AttemptExit("a3", 3), AttemptExit("a4", 4), AttemptExit("raises", 1)]
    await engine.close(grace_s=0)


async def test_a_stopped_worker_counts_as_killed_and_stopping_twice_is_safe():
    engine = TaskEngine(endless, endless)
    await engine.start_attempt(ATTEMPT)
    await engine.stop_attempt("a1", grace_s=0)
    await engine.stop_attempt("a1", grace_s=0)
    assert await engine.next_exit() == AttemptExit("a1", -9)


async def test_a_supervisors_exit_is_reported():
    async def pursue(goals):
        return {("shop", "docs"): 0, ("broke",): 2}[goals]

    engine = TaskEngine(endless, pursue)
    groups = ("shop", "docs"), ("broke",), ("unknown",)
    for goals in groups:
        await engine.start_supervisor(goals)
    exits = [await engine.next_exit() for _ in range(3)]
    assert exits == [SupervisorExit(goals, code) for goals, code in zip(groups, (0, 2, 1), strict=True)]
    await engine.close(grace_s=0)


async def test_nothing_keeps_running_after_close():
    before = asyncio.all_tasks()
    engine = TaskEngine(endless, endless)
    await engine.start_supervisor(("g",))
    await engine.start_attempt(ATTEMPT)
    await engine.close(grace_s=0)
    assert asyncio.all_tasks() == before
