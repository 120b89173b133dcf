"""Commands that start more and more processes."""

import asyncio
import fcntl
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from scaffold.host.process.child import start_child
from scaffold.host.process.command_runner import Containment
from scaffold.host.process.forked_reapers import reaper_server
from scaffold.host.process_identity import is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the subreapers of Linux")
HYDRA = f"exec '{sys.executable}' -I -S '{Path(__file__).with_name('fork_bomb.py')}'"
BROOD = "for i in $(seq {}); do setsid sleep 60.75 & done; echo born; wait"


def held(folder):
    """Return how many places of a hydra are taken."""
    count = 0
    for path in folder.iterdir():
        with path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                count += 1
    return count


@pytest.fixture
def nest(tmp_path):
    folder = tmp_path / "nest"
    folder.mkdir()
    return folder


async def sleepers(sh):
    return int((await sh("ps -eo args | grep -c '^slee[p] 60.75'")).stdout)


async def test_a_command_with_too_many_processes_is_ended_completely(sh):
    """RA-4, BX-17."""
    finished = await sh(BROOD.format(300), containment=Containment(max_processes=100))
    assert (finished.too_many_processes, finished.timed_out, finished.exit_code) == (True, False, None)
    assert finished.signal == signal.SIGKILL
    assert await sleepers(sh) == 0


@pytest.mark.slow
async def test_a_command_may_have_as_many_processes_as_allowed(sh):
    finished = await sh(BROOD.format(90), containment=Containment(max_processes=100), timeout_s=1.5)
    assert (finished.too_many_processes, finished.timed_out, finished.stdout) == (False, True, b"born\n")
    assert await sleepers(sh) == 0


async def test_a_caller_with_many_open_files_can_still_supervise_a_command(sh):
    """BX-17: the descriptors of a reaper are as high as they happen to be, also if the limit was raised meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip(f"at most {hard} files may be open here (ulimit -Hn), and 2000 are needed")
    crowd = []
    reaper_server().close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    assert (await sh("echo first", containment=Containment())).exit_code == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (2_000, hard))
    try:
        crowd += [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
        finished = await sh("sleep 0.2; echo held", containment=Containment())
    finally:
        for each in crowd:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (finished.exit_code, finished.stdout) == (0, b"held\n")


async def test_the_kernel_refuses_processes_that_start_faster_than_they_are_ended(sh):
    """BX-17"""
    few, many = [
        await sh("grep 'Max processes' /proc/self/limits", containment=Containment(max_processes=most))
        for most in (10, 1_000)
    ]
    assert int(few.stdout.split()[2]) < int(many.stdout.split()[2])


async def test_many_processes_one_after_another_are_allowed(sh):
    finished = await sh("for i in $(seq 400); do /bin/true; done", containment=Containment(max_processes=20))
    assert (finished.too_many_processes, finished.exit_code) == (False, 0)


@pytest.mark.slow
async def test_a_fork_bomb_cannot_outrun_its_end(sh, nest):
    """RA-4, BX-17: 600 processes that start another for each that is killed."""
    finished = await sh(f"{HYDRA} {nest} 600 14", containment=Containment(), timeout_s=2)
    assert held(nest) == 0
    assert (finished.timed_out, finished.signal) == (True, signal.SIGKILL)
    assert len(list(nest.iterdir())) > 300


@pytest.mark.slow
async def test_a_fork_bomb_is_ended_when_it_has_too_many_processes(sh, nest):
    """RA-4, BX-17."""
    finished = await sh(f"{HYDRA} {nest} 600 14", containment=Containment(max_processes=300))
    assert held(nest) == 0
    assert (finished.too_many_processes, finished.timed_out, finished.signal) == (True, False, signal.SIGKILL)


ORCHESTRATOR = """
import asyncio, os, pathlib
from scaffold.host.process.command_runner import Containment, run_command
asyncio.run(run_command(["sh", "-c", os.environ["SCRIPT"]], cwd=pathlib.Path.cwd(), env=os.environ, timeout_s=60,
                        containment=Containment()))
"""


async def test_a_fork_bomb_ends_when_we_are_killed(tmp_path, env, nest, eventually):
    """BX-17"""
    us = await start_child(
        [sys.executable, "-c", ORCHESTRATOR],
        cwd=tmp_path,
        env=env | {"SCRIPT": f"{HYDRA} {nest} 100 14"},
        log=tmp_path / "log",
    )
    await eventually(lambda: len(list(nest.iterdir())) > 50)
    us.kill()
    assert await us.wait() == -signal.SIGKILL
    await eventually(lambda: held(nest) == 0)
    born = len(list(nest.iterdir()))
    assert born > 50
    assert (held(nest), len(list(nest.iterdir()))) == (0, born), "nobody is left who could start another"


async def test_a_terminated_reaper_ends_its_fork_bomb(sh, tmp_path, nest, eventually, process_in):
    """BX-17"""
    running = asyncio.create_task(sh(f"echo $PPID > keeper.pid; {HYDRA} {nest} 100 14", containment=Containment()))
    keeper = await process_in(tmp_path / "keeper.pid")
    await eventually(lambda: len(list(nest.iterdir())) > 50)
    os.kill(keeper.pid, signal.SIGTERM)
    finished = await running
    assert (finished.signal, finished.too_many_processes) == (signal.SIGKILL, False)
    assert held(nest) == 0
    # Its report ends a moment before it does.
    await eventually(lambda: not is_alive(keeper))


async def test_a_cancelled_fork_bomb_has_ended_when_the_cancellation_arrives(sh, nest, eventually):
    """BX-17, RA-19."""
    running = asyncio.create_task(sh(f"{HYDRA} {nest} 100 14", containment=Containment()))
    await eventually(lambda: len(list(nest.iterdir())) > 50)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert held(nest) == 0


async def test_stopped_processes_are_ended_too(sh, tmp_path, process_in):
    running = asyncio.create_task(sh("sleep 60 & echo $! > it.pid; kill -STOP $!; wait", containment=Containment()))
    stopped = await process_in(tmp_path / "it.pid")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(stopped)
