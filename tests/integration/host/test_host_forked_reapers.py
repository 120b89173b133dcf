"""The server that forks reapers, and what is left when it or its owner dies."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from scaffold.host.process.command_runner import Containment
from scaffold.host.process.forked_reapers import MAX_DESCRIPTORS, ReaperServer, reaper_server
from scaffold.host.process.pipes import ReaperPipe
from scaffold.host.process_identity import identify, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reapers are forked on Linux only")

PARENT_OF_REAPER = "ps -o ppid= -p $PPID"
OURS = f"""
import asyncio, os
from pathlib import Path
from scaffold.host.process.command_runner import Containment, run_command
daemon = "(setsid sh -c 'echo $$ > daemon; exec sleep 60' </dev/null >/dev/null 2>&1 &)"
script = "echo $PPID > keeper; {PARENT_OF_REAPER} > server; echo $$ > command; " + daemon + "; exec sleep 60"
asyncio.run(run_command(
    ["sh", "-c", script], cwd=Path.cwd(), env=dict(os.environ), timeout_s=60, containment=Containment()
))
"""
"""A process of ours that runs a command."""


@pytest.fixture
def contained(sh):
    """Run a shell script under a reaper."""

    async def run(script, **options):
        return await sh(script, containment=Containment(), **options)

    return run


@pytest.fixture
def null():
    """The descriptor of /dev/null."""
    with Path(os.devnull).open("r+b") as opened:
        yield opened.fileno()


async def server_of(contained):
    return identify(int((await contained(PARENT_OF_REAPER)).stdout))


async def test_commands_share_a_server_and_a_killed_one_is_replaced(contained, eventually):
    """BX-15, BX-17"""
    first = await server_of(contained)
    assert await server_of(contained) == first
    os.kill(first.pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(first))
    second = await server_of(contained)
    assert second != first
    assert is_alive(second)


async def test_a_command_goes_on_when_its_server_is_killed(contained, tmp_path, process_in):
    """BX-15"""
    running = asyncio.create_task(
        contained(f"{PARENT_OF_REAPER} > server; until [ -e go ]; do sleep 0.02; done; exit 3")
    )
    server = await process_in(tmp_path / "server")
    os.kill(server.pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert (await running).exit_code == 3


async def test_a_request_to_a_server_that_is_stopped_can_be_given_up(tmp_path, env, null):
    """BX-17: the command does not begin, and the next one has another server."""
    server = ReaperServer()

    async def code_of(argv, *, give_up=False):
        with contextlib.closing(ReaperPipe(argv)) as reaper:
            forked = server.fork(reaper, [null] * 3, [], cwd=tmp_path, env=env)
            reaper.hand_over()
            if give_up:
                assert (forked.pid, forked.returncode) == (0, None)
                forked.kill()
            await forked.wait()
            return reaper.code()

    assert await code_of(["true"]) == 0
    os.kill(server._pid, signal.SIGSTOP)
    assert await code_of(["touch", "begun"], give_up=True) == -signal.SIGKILL
    assert not (tmp_path / "begun").exists()
    assert await code_of(["true"]) == 0
    server.close()


async def test_a_command_with_very_many_descriptors_gets_a_reaper_of_its_own(tmp_path, env):
    with contextlib.closing(ReaperPipe(["true"])) as reaper:
        assert ReaperServer().fork(reaper, [0, 1, 2], range(MAX_DESCRIPTORS), cwd=tmp_path, env=env) is None


async def test_a_command_gets_none_of_our_descriptors_and_no_variable_of_ours(contained, tmp_path, env, monkeypatch):
    """BX-9: neither those that this process passes on to its children, nor those of the server."""
    monkeypatch.setenv("SECRET", "s3cret")
    reaper_server().close()
    with (tmp_path / "ours").open("wb") as ours:
        os.set_inheritable(ours.fileno(), True)
        found = await contained("ls /proc/self/fd; env; cat /proc/$PPID/environ", env=env)
    assert [int(word) for word in found.stdout.split() if word.isdigit()] == [0, 1, 2, 3]
    assert b"SECRET" not in found.stdout


async def test_a_missing_working_directory_is_reported_as_such(contained, tmp_path):
    found = await contained("true", cwd=tmp_path / "gone")
    assert found.exit_code == 127
    assert b"gone" in found.stderr


async def test_nothing_is_left_when_we_are_killed(tmp_path, env, process_in, eventually):
    """BX-17: the server ends with its socket, the reaper, its command and a daemon of that with their pipe."""
    ours = await asyncio.create_subprocess_exec(  # noqa: TID251 - the one who is to be killed
        sys.executable, "-c", OURS, cwd=tmp_path, env=env
    )
    left = [await process_in(tmp_path / name) for name in ("command", "daemon", "keeper", "server")]
    assert all(map(is_alive, left))
    ours.kill()
    await ours.wait()
    await eventually(lambda: not any(map(is_alive, left)))
