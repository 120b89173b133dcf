"""The local engine with a small real worker."""

import asyncio

import pytest

from scaffold.host.process_identity import identify, is_alive, own_identity
from scaffold.orchestrator.owner.processes.engine import STOP_GRACE_S, AttemptExit, SupervisorExit
from scaffold.orchestrator.owner.processes.local_engine import (
    FAILED_EXIT_CODE,
    FreshProcessStarter,
    LocalEngine,
    ProcessMain,
)
from support.harness import act, goal, poll_until


@pytest.fixture
async def engine(tmp_path):
    """Workers and supervisors are shells; each runs a script named after it."""

    def argv(_part, name):
        return ["/bin/sh", str(tmp_path / f"{name}.sh")]

    main = ProcessMain(
        argv=argv,
        environ={"PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        log=lambda part, name: tmp_path / "logs" / f"{part} {name}",
    )
    made = LocalEngine(FreshProcessStarter(main))
    yield made
    await made.close(grace_s=0.1)


@pytest.fixture
async def attempt(harness):
    run = await harness.own(goal("g", act("a")))
    return await harness.queue(run, "a")


@pytest.fixture
def doing(tmp_path):
    """Make the attempt's worker, or the goal's supervisor, run this script."""

    def make(of, command):
        name = of if isinstance(of, str) else of.id
        (tmp_path / f"{name}.sh").write_text(command)
        return of

    return make


async def next_exit(engine):
    async with asyncio.timeout(10):
        return await engine.next_exit()


async def test_a_workers_exit_is_reported_and_its_output_goes_to_its_log(engine, attempt, doing, tmp_path):
    for command, code in (("echo out; echo err >&2", 0), ("exit 7", 7), ("kill -9 $$", -9)):
        await engine.start_attempt(doing(attempt, command))
        assert await next_exit(engine) == AttemptExit(attempt.id, code)
    assert sorted((tmp_path / "logs" / f"worker {attempt.id}").read_text().split()) == ["err", "out"]


async def test_stopping_a_worker_ends_its_process_group(engine, attempt, doing, tmp_path):
    """OR-10: TERM, then KILL, for all its processes."""
    await engine.start_attempt(doing(attempt, "trap '' TERM; sleep 60 & echo $! > pid; wait; sleep 60"))
    await poll_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    sleeper = identify(int((tmp_path / "pid").read_text()))
    await engine.stop_attempt(attempt.id, grace_s=0.05)
    assert await next_exit(engine) == AttemptExit(attempt.id, -9)
    await poll_until(lambda: sleeper is None or not is_alive(sleeper))
    await engine.stop_attempt(attempt.id, grace_s=0.05)


async def test_close_leaves_no_child(engine, attempt, doing):
    await engine.start_attempt(doing(attempt, "exec sleep 60"))
    await engine.start_supervisor((doing("goal", "exec sleep 60"),))
    await engine.close(grace_s=0.1)
    assert [await next_exit(engine), await next_exit(engine)] == [
        SupervisorExit(("goal",), -15),
        AttemptExit(attempt.id, -15),
    ]


async def test_a_supervisor_is_a_process_whose_exit_is_reported(engine, doing):
    """SC-14, SC-16: its identity is known while it lives, and its exit afterwards."""
    identity = await engine.start_supervisor((doing("goal", "read line; exit 4"),))
    assert is_alive(identity)
    await engine.stop_supervisor(("goal",), grace_s=0.1)
    assert await next_exit(engine) == SupervisorExit(("goal",), -15)
    assert not is_alive(identity)
    await engine.start_supervisor((doing("goal", "exit 4"),))
    assert await next_exit(engine) == SupervisorExit(("goal",), 4)
    doing("one,two", "exit 5")
    await engine.start_supervisor(("one", "two"))
    assert await next_exit(engine) == SupervisorExit(("one", "two"), 5)


async def test_a_goal_may_be_supervised_in_the_owners_process(tmp_path):
    """SC-22: for runs too small for a separate process; a stop ends it, and its errors are reported."""
    waiting = asyncio.Event()

    async def pursue(goals):
        if goals == ("broken",):
            raise LookupError
        if goals == ("long",):
            waiting.set()
            await asyncio.Event().wait()
        return 0

    made = LocalEngine(None, here=pursue)
    assert await made.start_supervisor(("short",)) == own_identity()
    assert await next_exit(made) == SupervisorExit(("short",), 0)
    await made.start_supervisor(("broken",))
    assert await next_exit(made) == SupervisorExit(("broken",), FAILED_EXIT_CODE)
    await made.start_supervisor(("long",))
    await waiting.wait()
    await made.stop_supervisor(("long",), grace_s=0)
    assert await next_exit(made) == SupervisorExit(("long",), FAILED_EXIT_CODE)


async def test_a_missing_program_cannot_be_started(tmp_path, attempt):
    main = ProcessMain(argv=lambda *_: ["/no/such"], environ={}, cwd=tmp_path, log=lambda _part, name: tmp_path / name)
    with pytest.raises(OSError, match="/no/such"):
        await LocalEngine(FreshProcessStarter(main)).start_attempt(attempt)


@pytest.mark.slow
async def test_a_worker_that_ignores_its_end_has_no_time_to_go_on(engine, attempt, doing, tmp_path):
    """SC-17, BX-17: SIGTERM, a tenth of a second, SIGKILL; with a grace of seconds it would write its file."""
    ready, late = tmp_path / "ready", tmp_path / "late"
    await engine.start_attempt(doing(attempt, f"trap '' TERM; echo > {ready}; sleep 2; echo > {late}"))
    await poll_until(ready.exists)
    await engine.stop_attempt(attempt.id, grace_s=STOP_GRACE_S)
    assert await next_exit(engine) == AttemptExit(attempt.id, -9)
    assert not late.exists()
