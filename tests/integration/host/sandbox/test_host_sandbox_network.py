"""Network access of a command in a sandbox."""

import asyncio
import sys

import pytest

from scaffold.host.sandbox.proxy import serve_proxy

ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3) as line:
        print(line.recv(100).decode())
except OSError as error:
    print("refused:", error.errno)
"""
BY_ITSELF = """
import socket, threading
with socket.create_server(("127.0.0.1", 0)) as server:
    threading.Thread(target=lambda: server.accept()[0].sendall(b"own loopback")).start()
    with socket.create_connection(server.getsockname(), timeout=3) as line:
        print(line.recv(100).decode())
"""
BY_ADDRESS = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1].replace("@", chr(0)))
print(line.recv(9))
"""
KINDS = """
import socket
for name, family, kind, protocol in (
    ("unix", socket.AF_UNIX, socket.SOCK_STREAM, 0), ("inet", socket.AF_INET, socket.SOCK_STREAM, 0),
    ("inet6", socket.AF_INET6, socket.SOCK_DGRAM, 0), ("route", socket.AF_NETLINK, socket.SOCK_RAW, 0),
    ("audit", socket.AF_NETLINK, socket.SOCK_RAW, 9), ("packet", socket.AF_PACKET, socket.SOCK_RAW, 3),
    ("vsock", socket.AF_VSOCK, socket.SOCK_STREAM, 0), ("alg", socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
    ("raw", socket.AF_INET, socket.SOCK_RAW, 1),
):
    try:
        socket.socket(family, kind, protocol).close()
        print(name)
    except OSError:
        pass
"""


@pytest.fixture
async def host():
    """Yield the port of a server on this machine's loopback that greets every client."""

    async def greet(_reader, writer):
        writer.write(b"canary")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("network", ["none", "loopback", "hosts"])
async def test_neither_the_machines_loopback_nor_an_outside_address_can_be_reached(inside, host, network):
    """BX-9: and the attempts fail at once."""
    outside = [f"{address} 80" for address in ("192.0.2.1", "169.254.169.254", "10.0.0.1", "::ffff:192.0.2.1")]
    asked = [f"{sys.executable} -c '{ASK}' {each}" for each in (f"127.0.0.1 {host}", *outside)]
    finished = await inside("\n".join(asked), changes={"network": network})
    assert finished.stdout.count(b"refused:") == len(asked), finished.stderr


async def test_names_are_not_resolved(inside):
    finished = await inside([sys.executable, "-c", "import socket; socket.getaddrinfo('example.org', 80)"])
    assert b"gaierror" in finished.stderr


async def test_a_command_may_have_its_own_loopback(inside):
    granted = await inside([sys.executable, "-c", BY_ITSELF], changes={"network": "loopback"})
    refused = await inside([sys.executable, "-c", BY_ITSELF], changes={"network": "none"})
    assert granted.stdout == b"own loopback\n"
    assert b"PermissionError" in refused.stderr


async def test_other_kinds_of_sockets_are_refused(inside):
    """BX-9"""
    loopback = await inside([sys.executable, "-c", KINDS], changes={"network": "loopback"})
    none = await inside([sys.executable, "-c", KINDS], changes={"network": "none"})
    assert loopback.stdout.decode().split() == ["unix", "inet", "inet6", "route"]
    assert none.stdout.decode().split() == ["unix", "route"]


async def test_unix_sockets_of_other_programs_cannot_be_reached(inside, tmp_path, workspace):
    """BX-9: by path in a temporary folder, and abstract ones."""

    async def greet(_reader, writer):
        writer.write(b"canary")
        writer.close()

    path = str(tmp_path / "s")
    abstract = "\0scaffold-" + path
    async with await asyncio.start_unix_server(greet, path), await asyncio.start_unix_server(greet, abstract):
        for address in (path, abstract.replace("\0", "@")):
            finished = await inside([sys.executable, "-c", BY_ADDRESS, address])
            assert (finished.exit_code, finished.stdout) == (1, b"")


async def test_a_unix_socket_in_a_readable_folder_cannot_be_reached_unless_it_is_named(inside, tmp_path, workspace):
    """BX-9, RA-14: a read-only mount does not prevent that. Sockets in the workspace are the command's own."""

    async def greet(_reader, writer):
        writer.write(b"canary")
        writer.close()

    shown = tmp_path.resolve() / "shown"
    shown.mkdir()
    sockets = [folder / "odd name" for folder in (shown, workspace)]
    async with await asyncio.start_unix_server(greet, sockets[0]), await asyncio.start_unix_server(greet, sockets[1]):

        async def answer(path, **changes):
            connect = [sys.executable, "-c", BY_ADDRESS, str(path)]
            return (await inside(connect, changes={"readable": (shown,), **changes})).stdout

        assert await answer(sockets[0]) == b""
        assert await answer(sockets[0], sockets=(shown,)) == b"b'canary'\n"
        assert await answer(sockets[1]) == b"b'canary'\n"


FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
except OSError as error:
    print("refused:", error)
"""


@pytest.fixture
async def site():
    """Yield the port of a web site on this machine's loopback."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_only_allowed_hosts_can_be_reached(inside, site, tmp_path):
    """BX-9"""

    async def resolve(_host, _port):
        return ["127.0.0.1"]

    async with serve_proxy(tmp_path / "proxy", (f"named.test:{site}",), is_public=lambda _: True, resolve=resolve) as (
        proxy,
        _,
    ):
        options = {"changes": {"network": "hosts"}, "proxy": proxy}
        named = await inside([sys.executable, "-c", FETCH, f"http://named.test:{site}/"], **options)
        other = await inside([sys.executable, "-c", FETCH, f"http://other.test:{site}/"], **options)
        ended = await inside("exit 7", **options)
    assert named.stdout == b"hello\n", named.stderr
    assert other.stdout.startswith(b"refused: HTTP Error 403")
    assert ended.exit_code == 7


async def test_a_missing_program_is_reported_with_allowed_hosts_too(inside, tmp_path):
    async with serve_proxy(tmp_path / "proxy", (), is_public=lambda _: True) as (proxy, _):
        finished = await inside(["no-such-program"], changes={"network": "hosts"}, proxy=proxy)
    assert (finished.exit_code, b"no-such-program" in finished.stderr) == (127, True)


async def test_without_allowed_hosts_the_proxy_is_not_visible(inside, tmp_path):
    async with serve_proxy(tmp_path / "proxy", (), is_public=lambda _: True) as (proxy, _):
        finished = await inside(f"ls {proxy}; env | grep -c 127.0.0.1:", proxy=proxy, env={"PATH": "/usr/bin:/bin"})
    assert finished.stdout == b"0\n"
