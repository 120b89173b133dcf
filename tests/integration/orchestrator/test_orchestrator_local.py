"""The local engine with a small real worker."""

import asyncio

import msgspec
import pytest

from fakes import act, goal, until
from scaffold.host.identity import alive, identify
from scaffold.orchestrator.engine import AttemptExit
from scaffold.orchestrator.local import LocalEngine
from scaffold.orchestrator.workers import FreshWorkers, WorkerMain


@pytest.fixture
async def engine(tmp_path):
    """Workers are shells; their attempt's briefing is the command."""

    def argv(attempt):
        return ["/bin/sh", "-c", attempt.briefing]

    main = WorkerMain(
        argv=argv, environ={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, log=lambda a: tmp_path / "logs" / a.id
    )
    made = LocalEngine(FreshWorkers(main))
    yield made
    await made.close(grace_s=0.1)


@pytest.fixture
async def attempt(house):
    run = await house.own(goal("g", act("a")))
    return await house.queue(run, "a")


def doing(attempt, command):
    return msgspec.structs.replace(attempt, briefing=command)


async def next_exit(engine):
    async with asyncio.timeout(10):
        return await engine.next_exit()


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_how_a_worker_ended_is_told(engine, attempt, command, code):
    await engine.start_attempt(doing(attempt, command))
    assert await next_exit(engine) == AttemptExit(attempt.id, code)


async def test_what_a_worker_prints_goes_to_its_log(engine, attempt, tmp_path):
    await engine.start_attempt(doing(attempt, "echo out; echo err >&2"))
    await next_exit(engine)
    assert sorted((tmp_path / "logs" / attempt.id).read_text().split()) == ["err", "out"]


async def test_a_stopped_worker_takes_its_group_along(engine, attempt, tmp_path):
    """OR-10: TERM, then KILL, for all it started."""
    await engine.start_attempt(doing(attempt, "trap '' TERM; sleep 60 & echo $! > pid; wait; sleep 60"))
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    sleeper = identify(int((tmp_path / "pid").read_text()))
    await engine.stop_attempt(attempt.id, grace_s=0.05)
    assert await next_exit(engine) == AttemptExit(attempt.id, -9)
    await until(lambda: sleeper is None or not alive(sleeper))
    await engine.stop_attempt(attempt.id, grace_s=0.05)


async def test_close_leaves_no_child(engine, attempt):
    await engine.start_attempt(doing(attempt, "exec sleep 60"))
    await engine.close(grace_s=0.1)
    assert await next_exit(engine) == AttemptExit(attempt.id, -15)


async def test_a_program_that_is_not_there_cannot_be_started(tmp_path, attempt):
    main = WorkerMain(argv=lambda _: ["/no/such"], environ={}, cwd=tmp_path, log=lambda a: tmp_path / a.id)
    with pytest.raises(OSError, match="/no/such"):
        await LocalEngine(FreshWorkers(main)).start_attempt(attempt)
