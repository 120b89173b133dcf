"""Forwarded ports from a sandbox to servers on this machine's loopback, used directly and from inside."""

import asyncio
import socket
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec import structs

from builders import bubblewrap_or_skip
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.port_forward import MAX_CONNECTIONS, forward_ports, is_listening
from scaffold.host.sandbox.sidecar import NOT_READY, with_services
from support.docker import free_port

MANY = """\
import socket, sys, threading
port = int(sys.argv[1])
kept = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
[each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0") for each in kept]
[each.close() for each in kept]  # all of them break off
answers = []
def ask(number):
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(str(number).encode() * 50_000)
        server.shutdown(socket.SHUT_WR)
        answers.append(server.makefile().read() == str(number) * 50_000)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(300)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(all(answers), len(answers))
"""


async def echo(reader, writer):
    """Answer with all that was said, once that has ended."""
    writer.write(await reader.read())
    writer.close()


async def expect_end(reader):
    """Nothing comes any more."""
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


@asynccontextmanager
async def way_to(folder, serve, **options):
    """Yield the port of a server and the socket that leads to it."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0, **options) as server:
        port = server.sockets[0].getsockname()[1]
        async with forward_ports(folder, [port]):
            yield port, folder / str(port)


async def test_a_client_that_closed_its_side_still_gets_the_answer(tmp_path):
    """Each direction ends by itself; no byte is lost."""
    said = bytes(range(256)) * 20_000
    async with way_to(tmp_path, echo) as (_, path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(said)
        writer.write_eof()
        assert await reader.read() == said
        writer.close()


async def test_unread_data_is_not_buffered_without_limit(tmp_path):
    """A server that sends endlessly is slowed down, and its data is not kept in memory."""
    sent = 0

    async def pour(_, writer):
        nonlocal sent
        with suppress(OSError):
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536

    async with way_to(tmp_path, pour) as (_, path):
        reader, writer = await asyncio.open_unix_connection(path, limit=65_536)
        await reader.readexactly(65_536)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        held_up_at = sent
        await reader.readexactly(held_up_at)
        writer.transport.abort()
    assert 0 < held_up_at < 40_000_000


@pytest.mark.parametrize("who", ["server", "client"])
async def test_if_one_side_breaks_off_so_does_the_other(tmp_path, who):
    ended = asyncio.Event()

    async def serve(reader, writer):
        if who == "server":
            writer.transport.abort()
        else:
            assert await reader.read() == b""
        ended.set()
        writer.close()

    async with way_to(tmp_path, serve) as (_, path):
        reader, writer = await asyncio.open_unix_connection(path)
        if who == "server":
            await expect_end(reader)
        else:
            writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 10)
        assert ended.is_set()
        writer.close()


async def test_leaving_the_block_ends_connections_and_the_forward(tmp_path):
    async def serve(reader, writer):
        writer.write(b"here")
        with suppress(OSError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with forward_ports(tmp_path, [port]):
            reader, writer = await asyncio.open_unix_connection(tmp_path / str(port))
            assert await reader.readexactly(4) == b"here"
        await expect_end(reader)
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_unix_connection(tmp_path / str(port))
        writer.close()


async def test_a_client_of_a_stopped_server_sees_the_end_of_the_stream(tmp_path):
    port = free_port()
    async with forward_ports(tmp_path, [port]):
        reader, writer = await asyncio.open_unix_connection(tmp_path / str(port))
        await expect_end(reader)
        writer.close()
    assert not await is_listening(port)


async def test_the_number_of_connections_is_limited_and_the_rest_waits(tmp_path, eventually):
    """Our descriptors are few, and a check could open any number."""
    served, leaving = 0, asyncio.Event()

    async def hold(_, writer):
        nonlocal served
        served += 1
        await leaving.wait()
        writer.close()

    async with way_to(tmp_path, hold, backlog=2 * MAX_CONNECTIONS) as (_, path):
        callers = []
        for _ in range(MAX_CONNECTIONS + 20):
            caller = socket.socket(socket.AF_UNIX)
            caller.setblocking(False)
            await asyncio.get_running_loop().sock_connect(caller, str(path))
            callers.append(caller)
            await asyncio.sleep(0.001)  # who finds the line full is turned away at once, as nobody can wait without us
        await eventually(lambda: served >= MAX_CONNECTIONS)
        await asyncio.sleep(0.05)
        at_once = served
        leaving.set()
        for caller in callers:
            caller.close()
        await eventually(lambda: served == len(callers))
    assert (at_once, served) == (MAX_CONNECTIONS, len(callers))


@pytest.fixture
async def sandboxed(tmp_path, env):
    """Run a Python script in a sandbox, beside services, with what lies behind socket_folder."""
    finding = await bubblewrap_or_skip()
    workspace = tmp_path.resolve() / "workspace"
    workspace.mkdir()
    zone = Confinement(writable=(workspace,), temporary=tmp_path.resolve() / "temporary")

    async def started(script, port, socket_folder, services=()):
        argv = with_services(
            services, [sys.executable, "-c", script, str(port)], top=workspace, socket_folder=socket_folder
        )
        shown = structs.replace(zone, readable=(socket_folder,), sockets=(socket_folder,))
        walls = SandboxSpec("bubblewrap", shown, program=finding.program)
        return await run_command(argv, cwd=workspace, env=env, timeout_s=60, containment=Containment(sandbox=walls))

    return started


@pytest.mark.slow
async def test_many_clients_in_the_sandbox_are_served_and_some_break_off(sandboxed, tmp_path):
    """AL-9: a check finds the machine's server on its own loopback; connections above the limit take turns."""
    socket_folder = tmp_path.resolve() / "socket_folder"
    async with way_to(socket_folder, echo, backlog=512):
        port = next(socket_folder.iterdir()).name
        ended = await sandboxed(MANY, port, socket_folder)
    assert (ended.exit_code, ended.stdout) == (0, b"True 300\n"), ended.stderr


async def test_a_forwarded_port_that_a_service_inside_uses_is_reported(sandboxed, tmp_path):
    socket_folder, port = tmp_path.resolve() / "socket_folder", free_port()
    socket_folder.mkdir()
    (socket_folder / str(port)).touch()
    taken = f"exec '{sys.executable}' -m http.server --bind 127.0.0.1 {port} @{port}"
    ended = await sandboxed("print('ran')", port, socket_folder, [taken])
    assert (ended.exit_code, ended.stdout) == (NOT_READY, b"")
    assert f"port {port} ".encode() in ended.stderr
