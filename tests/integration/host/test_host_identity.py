"""Identities of processes."""

import asyncio
import os
import signal
import sys

import msgspec
import pytest

from scaffold.host.process.command_runner import run_command
from scaffold.host.process_identity import identify, is_alive, is_stopped, own_identity


def test_our_own_process_is_alive():
    assert own_identity().pid == os.getpid()
    assert is_alive(own_identity())
    assert identify(os.getpid()) == own_identity()


@pytest.mark.parametrize("other", [{"started": "1"}, {"boot": "another"}])
def test_another_process_with_our_pid_is_not_ours(other):
    """BX-17"""
    assert not is_alive(msgspec.structs.replace(own_identity(), **other))


async def test_a_process_that_ended_has_no_identity(tmp_path, env):
    finished = await run_command(["sh", "-c", "echo $$"], cwd=tmp_path, env=env, timeout_s=10)
    assert identify(int(finished.stdout)) is None


async def test_a_zombie_is_not_alive(tmp_path, env, eventually):
    """BX-17"""
    script = (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0)\n"
        "open('zombie.pid', 'w').write(f'{child}\\n')\n"
        "os.read(0, 1)\n"
        "import signal; signal.pause()\n"
    )
    task = asyncio.create_task(run_command([sys.executable, "-c", script], cwd=tmp_path, env=env, timeout_s=30))
    pid_file = tmp_path / "zombie.pid"
    await eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    zombie = identify(int(pid_file.read_text()))
    assert zombie is not None
    await eventually(lambda: not is_alive(zombie))
    assert identify(zombie.pid) == zombie
    task.cancel()
    await asyncio.wait([task])


async def test_a_suspended_process_is_alive_and_stopped(tmp_path, env, eventually):
    """BX-13: it can ask nothing until it is continued."""
    script = ["sh", "-c", "echo $$ > pid; exec sleep 60"]
    task = asyncio.create_task(run_command(script, cwd=tmp_path, env=env, timeout_s=30))
    pid_file = tmp_path / "pid"
    await eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    process = identify(int(pid_file.read_text()))
    assert not is_stopped(process)
    for number, stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
        os.kill(process.pid, number)
        await eventually(lambda wanted=stopped: is_stopped(process) is wanted)
        assert is_alive(process)
    task.cancel()
    await asyncio.wait([task])
    await eventually(lambda: not is_alive(process))
    assert not is_stopped(process)
