"""Workers, fresh and forked."""

import os
import signal
import sys

import msgspec
import pytest

from fakes import act, goal
from scaffold.host.environment import child_environment
from scaffold.host.zygote import usable
from scaffold.orchestrator.workers import MOST_ZYGOTES, FreshWorkers, WarmWorkers, WorkerMain

pytestmark = pytest.mark.skipif(not usable(), reason="a fork is not safe on this system")

WARM = """
import os, socket, sys
from scaffold.host import nursery
born = nursery.serve(socket.socket(fileno=int(sys.argv[1])))
if born is not None:
    print("forked for", born.main, born.argument, "by", os.getppid())
"""
ONCE = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(9)"
"""Ends when it is asked for the first time."""


@pytest.fixture
async def attempt(house):
    run = await house.own(goal("g", act("a")))
    return await house.queue(run, "a")


@pytest.fixture
def main(tmp_path):
    return WorkerMain(
        argv=lambda attempt: [sys.executable, "-c", f"print('fresh for', {attempt.id!r})"],
        environ=child_environment(os.environ),
        cwd=tmp_path,
        log=lambda attempt: tmp_path / attempt.id,
    )


@pytest.fixture
async def warm(main, tmp_path):
    """Make workers whose zygote is this program."""
    made = []

    def make(program, **options):
        workers = WarmWorkers(
            main, zygote=lambda line: [sys.executable, "-c", program, str(line)], log=tmp_path / "zygote", **options
        )
        made.append(workers)
        return workers

    yield make
    for workers in made:
        await workers.close()


async def told(workers, attempt):
    """Have one worker do its work; return what it printed."""
    log = workers._main.log(attempt)
    log.unlink(missing_ok=True)
    assert await (await workers.start(attempt)).wait() == 0
    return log.read_text()


async def test_a_fresh_worker_is_a_program_of_its_own(main, attempt):
    assert await told(FreshWorkers(main), attempt) == f"fresh for {attempt.id}\n"


async def test_warm_workers_are_forked_by_one_process(warm, attempt):
    """OR-1: each is told which attempt it is for."""
    workers = warm(WARM)
    other = msgspec.structs.replace(attempt, id="other")
    first, second = [await told(workers, each) for each in (attempt, other)]
    assert first.startswith(f"forked for worker {attempt.id} by ")
    assert second.removeprefix("forked for worker other by ") == first.rpartition(" by ")[2]


async def test_a_zygote_that_was_killed_is_replaced(warm, attempt):
    """BX-12: its death costs nobody anything."""
    workers = warm(WARM)
    await workers.warm()
    before = workers._zygote.identity
    os.kill(before.pid, signal.SIGKILL)
    said = [await told(workers, attempt) for _ in range(3)]
    assert said[-1].startswith("forked for")
    assert workers._zygote.identity != before


async def test_where_zygotes_die_again_and_again_workers_are_fresh_in_the_end(warm, attempt):
    workers = warm(ONCE)
    for _ in range(MOST_ZYGOTES + 2):
        assert await told(workers, attempt) == f"fresh for {attempt.id}\n"
    assert workers._made == MOST_ZYGOTES


async def test_a_zygote_that_hangs_is_given_up(warm, attempt):
    workers = warm("import time; time.sleep(60)", patience_s=0.2)
    assert await told(workers, attempt) == f"fresh for {attempt.id}\n"
