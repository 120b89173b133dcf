"""Children forked from a warm process."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
from pathlib import Path

import pytest
from msgspec.json import decode, encode

from scaffold.host.process.child import start_child
from scaffold.host.process.zygote_client import UNKNOWN_EXIT_CODE, Zygote, ZygoteDied, can_fork, open_zygote
from scaffold.host.process.zygote_server import MAX_MESSAGE_BYTES, ChildExited, ExitAck, Forked, ForkRequest
from scaffold.host.process_identity import identify, is_alive, own_identity

pytestmark = pytest.mark.skipif(not can_fork(), reason="the fork server runs on Linux only")

PROGRAM = """
import os, pathlib, signal, socket, sys, time
from scaffold.host.process import zygote_server
from scaffold.host.process.async_runner import watch_lifeline

def tell(argument):
    print("told", argument)
    print("to errors", file=sys.stderr)
    return int(argument)

def last(argument):
    watch_lifeline()
    helper = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)
    pathlib.Path(argument + ".helper").write_text(f"{helper}\\n")
    pathlib.Path(argument).write_text(f"{os.getpid()}\\n")
    signal.pause()

def outlive(argument):
    while not os.path.exists(argument): time.sleep(0.01)
    return 3

def fail(argument):
    raise ValueError(argument)

born = zygote_server.serve(socket.socket(fileno=int(sys.argv[1])))
if born is not None:
    sys.exit(globals()[born.main](born.argument))
"""


@pytest.fixture
async def zygote(tmp_path, env):
    made = await open_zygote(
        lambda fd: [sys.executable, "-c", PROGRAM, str(fd)], cwd=tmp_path, env=env, log=tmp_path / "zygote.log"
    )
    yield made
    await made.close()


@pytest.fixture
def fork(zygote, tmp_path):
    async def begin(main, argument=""):
        return await zygote.fork(main, str(argument), log=tmp_path / "logs" / "child.log")

    return begin


def held_by(process):
    """Return the targets of a process's descriptors."""
    return [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]


async def forked_for_ever(zygote, folder):
    async with asyncio.timeout(5):
        while True:
            await zygote.fork("tell", "0", log=folder / "log")
            await asyncio.sleep(0.001)


async def test_a_child_runs_its_function_and_its_exit_code_is_reported(fork, tmp_path):
    """BX-17: both outputs are appended to its log."""
    assert [await (await fork("tell", code)).wait() for code in (0, 7)] == [0, 7]
    said = (tmp_path / "logs" / "child.log").read_text().splitlines()
    assert sorted(said) == ["to errors", "to errors", "told 0", "told 7"]


async def test_concurrent_children_are_reported_separately(fork):
    children = [await fork("tell", code) for code in range(40)]
    assert [await child.wait() for child in children] == list(range(40))


async def test_a_child_leads_its_own_session_and_has_none_of_its_zygotes_descriptors(
    fork, zygote, process_in, tmp_path
):
    child = await fork("last", tmp_path / "pid")
    inside = await process_in(tmp_path / "pid")
    assert (inside, os.getsid(inside.pid)) == (child.identity, inside.pid)
    assert not [name for name in held_by(inside) if name.startswith("socket:")]
    assert len(held_by(zygote._child.identity)) <= 6, "what was passed on is not kept"
    assert await child.end(0.1) < 0


async def test_a_failing_child_writes_the_reason_to_its_log(fork, tmp_path):
    assert await (await fork("fail", "a reason")).wait() == 1
    assert "ValueError: a reason" in (tmp_path / "logs" / "child.log").read_text()


async def test_a_killed_child_takes_its_process_group_with_it(fork, process_in, tmp_path, eventually):
    """BX-17"""
    child = await fork("last", tmp_path / "pid")
    helper = await process_in(tmp_path / "pid.helper")
    child.kill()
    assert await child.wait() == -signal.SIGKILL
    await eventually(lambda: not is_alive(helper))


async def test_a_pid_is_not_reused_before_its_end_is_reported(fork):
    child = await fork("tell", 0)
    for _ in range(1_000):  # without a pause: the end cannot be heard of meanwhile
        gone = not is_alive(child.identity)
    assert identify(child.identity.pid) == child.identity, "a zombie at least" if gone else "it lives"
    assert await child.wait() == 0


async def test_children_outlive_their_zygote_and_their_end_is_still_reported(fork, zygote, tmp_path):
    """BX-12: any process may be killed; starting another child then reports that a new zygote is needed."""
    child, go = await fork("outlive", tmp_path / "go"), tmp_path / "go"
    os.kill(zygote._child.identity.pid, signal.SIGKILL)
    with pytest.raises(ZygoteDied):
        await forked_for_ever(zygote, tmp_path)
    assert (zygote.alive, is_alive(child.identity), child.identity.pid > 0) == (False, True, True)
    go.touch()
    assert await child.wait() == UNKNOWN_EXIT_CODE


async def test_a_child_ends_when_its_lifeline_is_closed_but_not_with_the_zygote(zygote, tmp_path, process_in):
    child = await zygote.fork("last", str(tmp_path / "pid"), log=tmp_path / "log")
    inside = await process_in(tmp_path / "pid")
    await zygote.close()
    assert is_alive(inside)
    assert await child.end(0.1) == UNKNOWN_EXIT_CODE
    assert not is_alive(inside)


async def test_garbage_on_the_control_pipe_ends_the_zygote_without_a_hang(zygote, tmp_path):
    zygote._line.send(b"no message")
    with pytest.raises(ZygoteDied):
        await forked_for_ever(zygote, tmp_path)


ORPHANS = """
import asyncio, os, pathlib, sys
from scaffold.host.process.zygote_client import open_zygote
async def main():
    here = pathlib.Path.cwd()
    zygote = await open_zygote(lambda fd: [sys.executable, "-c", os.environ["PROGRAM"], str(fd)],
                               cwd=here, env=os.environ, log=here / "zygote.log")
    child = await zygote.fork("last", str(here / "pid"), log=here / "child.log")
    (here / "zygote").write_text(f"{zygote._child.identity.pid}\\n")
    await child.wait()
asyncio.run(main())
"""


async def test_nothing_is_left_when_we_are_killed(tmp_path, env, process_in, eventually):
    """BX-17: the zygote ends with its pipe, its children with their lifelines."""
    ours = await asyncio.create_subprocess_exec(  # noqa: TID251 - the one who is to be killed
        sys.executable, "-c", ORPHANS, cwd=tmp_path, env=env | {"PROGRAM": PROGRAM}
    )
    left = [await process_in(tmp_path / name) for name in ("pid", "pid.helper", "zygote")]
    assert all(map(is_alive, left))
    ours.kill()
    await ours.wait()
    await eventually(lambda: not any(map(is_alive, left)))


async def test_a_client_that_dies_before_it_has_read_a_reply_ends_the_zygote_in_order(tmp_path, env):
    """BX-15: that resets the connection instead of closing it."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv, log = [sys.executable, "-c", PROGRAM, str(far.fileno())], tmp_path / "log"
    with near, far:
        made = await start_child(argv, cwd=tmp_path, env=env, log=log, inherited_fds=(far.fileno(),))
        far.close()
        with log.open("ab") as sink:
            socket.send_fds(near, [encode(ForkRequest(0, "fail", ""))], [sink.fileno()] * 2)
        await asyncio.get_running_loop().run_in_executor(None, select.select, [near], [], [])
    assert await made.wait() == 0


@pytest.fixture
async def line(tmp_path, env):
    """A zygote whose other end the test plays, so that its socket can be full."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)
    with far:
        made = Zygote(await start_child(["sleep", "60"], cwd=tmp_path, env=env, log=tmp_path / "log"), near)
        yield made, near, far
        await made.close()


async def test_an_exit_is_acknowledged_even_if_the_socket_was_full_at_first(line, tmp_path):
    """The zygote keeps the child's pid until then; a lost acknowledgement would keep it for good."""
    made, near, far = line
    loop = asyncio.get_running_loop()
    asked = asyncio.create_task(made.fork("main", "", log=tmp_path / "child.log"))
    message, descriptors, *_ = await loop.run_in_executor(None, socket.recv_fds, far, MAX_MESSAGE_BYTES, 2)
    for fd in descriptors:
        os.close(fd)
    number = decode(message, type=ForkRequest).number
    far.send(encode(Forked(number, own_identity())))
    child = await asked
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            near.send(b"full")
            sent += 1
    far.send(encode(ChildExited(number, 0)))
    assert await child.wait() == 0
    received = [await loop.run_in_executor(None, far.recv, MAX_MESSAGE_BYTES) for _ in range(sent + 1)]
    assert decode(received[-1], type=ExitAck).number == number
