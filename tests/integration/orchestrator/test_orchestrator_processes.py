"""Workers as fresh and as forked processes."""

import os
import signal
import sys

import pytest

from scaffold.host.child_environment import child_environment
from scaffold.host.process.zygote_client import can_fork
from scaffold.orchestrator.owner.processes.local_engine import (
    MAX_ZYGOTES,
    FreshProcessStarter,
    ProcessMain,
    ZygoteProcessStarter,
)

pytestmark = pytest.mark.skipif(not can_fork(), reason="the fork server runs on Linux only")

WARM = """
import os, socket, sys
from scaffold.host.process import zygote_server
born = zygote_server.serve(socket.socket(fileno=int(sys.argv[1])))
if born is not None:
    print("forked", born.main, born.argument, os.getppid())
"""
ONCE = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(9)"
"""Ends when it is asked for the first time."""


@pytest.fixture
def main(tmp_path):
    return ProcessMain(
        argv=lambda part, name: [sys.executable, "-c", f"print('fresh', {part!r}, 'for', {name!r})"],
        environ=child_environment(os.environ),
        cwd=tmp_path,
        log=lambda part, name: tmp_path / f"{part} {name}",
    )


@pytest.fixture
async def warm(main, tmp_path):
    """Make workers whose zygote is this program."""
    made = []

    def make(program, **options):
        workers = ZygoteProcessStarter(
            main, zygote=lambda line: [sys.executable, "-c", program, str(line)], log=tmp_path / "zygote", **options
        )
        made.append(workers)
        return workers

    yield make
    for workers in made:
        await workers.close()


async def output_of(processes, name="a", part="worker"):
    """Have one process do its part; return what it printed."""
    log = processes._main.log(part, name)
    log.unlink(missing_ok=True)
    assert await (await processes.start(part, name)).wait() == 0
    return log.read_text()


async def test_a_fresh_worker_is_a_separate_program(main):
    assert await output_of(FreshProcessStarter(main)) == "fresh worker for a\n"


async def test_one_zygote_forks_warm_processes(warm):
    """OR-1: each gets its role, and its attempt or goal."""
    processes = warm(WARM)
    first, second = await output_of(processes), await output_of(processes, "shop", "supervisor")
    assert first.split()[:-1] == ["forked", "worker", "a"]
    assert second.split() == ["forked", "supervisor", "shop", first.split()[-1]]


async def test_a_killed_zygote_is_replaced(warm):
    """BX-12: its death has no other effect."""
    workers = warm(WARM)
    await workers.preload()
    before = workers._zygote._child.identity
    os.kill(before.pid, signal.SIGKILL)
    outputs = [await output_of(workers) for _ in range(3)]
    assert outputs[-1].startswith("forked ")
    assert workers._zygote._child.identity != before


async def test_after_repeated_deaths_of_zygotes_workers_start_fresh(warm):
    workers = warm(ONCE)
    for _ in range(MAX_ZYGOTES + 2):
        assert await output_of(workers) == "fresh worker for a\n"
    assert workers._made == MAX_ZYGOTES


async def test_a_hanging_zygote_is_given_up(warm):
    workers = warm("import time; time.sleep(60)", timeout_s=0.2)
    assert await output_of(workers) == "fresh worker for a\n"
