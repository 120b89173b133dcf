"""The proxy for allowed hosts, used as a command would, and the relay that leads to it out of a sandbox."""

import asyncio
import contextlib
import os
import stat
import sys

import pytest

from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox import relay
from scaffold.host.sandbox.proxy import ANY_HOST, ConnectionAttempt, ProxyLimits, serve_proxy
from scaffold.host.sandbox.proxy_request import HostPort, OuterProxy

BODY = os.urandom(1 << 20) * 10
PLACES = {"named.test": "127.0.0.1", "other.test": "127.0.0.1", "inner.test": "10.1.2.3", "two.test": "10.1.2.3"}


@pytest.fixture
async def echo():
    """A server that returns its input once that has ended, and the same for a plain HTTP request."""

    async def answer(reader, writer):
        got = await reader.read(4)
        if got == b"GET ":
            got += await reader.readuntil(b"\r\n\r\n")
            body = BODY if b"/big" in got else got
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        else:
            writer.write(got + await reader.read(-1))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


class Way:
    """A proxy that allows `named.test`, which is the echo server, and what it reported."""

    def __init__(self, path, port, attempts):
        self.path, self.port, self.attempts = path, port, attempts
        self._writers = []

    async def open(self):
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        self._writers.append(writer)
        return reader, writer

    async def leave(self):
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def say(self, text):
        """Send `text`; return the whole answer."""
        reader, writer = await self.open()
        writer.write(text)
        return await reader.read(-1)

    async def tunnel(self):
        reader, writer = await self.open()
        writer.write(f"CONNECT named.test:{self.port} HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        return reader, writer


async def resolve(host, port):
    if host not in PLACES:
        raise OSError("no such name")
    return ["10.1.2.3", "127.0.0.1"] if host == "two.test" else [PLACES[host]]


@pytest.fixture
def proxied(tmp_path, echo):
    @contextlib.asynccontextmanager
    async def opened(*hosts, public=("127.0.0.1",), folder=tmp_path / "proxy", **bounds):
        messages = []
        async with serve_proxy(
            folder,
            hosts or (f"named.test:{echo}", f"inner.test:{echo}", f"two.test:{echo}", f"gone.test:{echo}"),
            is_public=lambda address: address in public,
            resolve=resolve,
            tell=messages.append,
            bounds=ProxyLimits(**bounds),
        ) as (path, _):
            way = Way(path, echo, messages)
            try:
                yield way
            finally:
                await way.leave()

    return opened


async def test_an_allowed_host_is_reached_through_a_tunnel_with_half_close(proxied):
    async with proxied() as way:
        reader, writer = await way.tunnel()
        writer.write(b"question")
        writer.write_eof()
        assert await reader.read(-1) == b"question"
        assert way.attempts == [ConnectionAttempt(f"named.test:{way.port}", "")]


async def test_an_allowed_host_is_reached_by_a_plain_request(proxied):
    async with proxied() as way:
        answer = await way.say(b"GET http://named.test:%d/x HTTP/1.1\r\nHost: elsewhere\r\n\r\n" % way.port)
        assert answer.endswith(b"GET /x HTTP/1.1\r\nHost: named.test:%d\r\nConnection: close\r\n\r\n" % way.port)


async def test_a_host_that_is_not_allowed_or_not_public_is_refused_with_a_reason(proxied):
    """BX-9"""
    async with proxied() as way:
        for place, code, reason in (
            ("other.test:{}", 403, "hosts"),
            ("127.0.0.1:{}", 403, "hosts"),
            ("named.test:1", 403, "hosts"),
            ("inner.test:{}", 403, "public"),
            ("gone.test:{}", 502, "resolved"),
        ):
            asked = place.format(way.port)
            tunnelled = await way.say(f"CONNECT {asked} HTTP/1.1\r\n\r\n".encode())
            plain = await way.say(f"GET http://{asked}/ HTTP/1.1\r\n\r\n".encode())
            assert [answer.split()[1] for answer in (tunnelled, plain)] == [b"%d" % code] * 2
            assert [contact.destination for contact in way.attempts[-2:]] == [asked, asked]
            assert reason in way.attempts[-1].refusal
            assert way.attempts[-1].refusal.encode() in tunnelled


async def test_only_public_addresses_of_a_name_are_connected_to(proxied):
    async with proxied() as way:
        answer = await way.say(b"GET http://two.test:%d/ HTTP/1.1\r\n\r\n" % way.port)
        assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_an_allowed_literal_address_may_be_private(proxied, echo):
    async with proxied(f"named.test:{echo}", f"127.0.0.1:{echo}", public=()) as way:
        answer = await way.say(b"GET http://named.test:%d/ HTTP/1.1\r\n\r\n" % echo)
        assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_garbage_is_answered_and_the_next_request_is_served(proxied):
    async with proxied() as way:
        for rubbish in (b"\r\n\r\n", b"\0" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\r\n\r\n"):
            assert (await way.say(rubbish)).startswith(b"HTTP/1.1 400 Bad Request")
            await way.tunnel()


async def test_an_endless_request_head_is_refused(proxied):
    async with proxied() as way:
        answer = await way.say(b"GET http://named.test/ HTTP/1.1\r\n" + b"a: b\r\n" * 10_000)
        assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_slow_request_is_refused(proxied):
    async with proxied(head_s=0.1) as way:
        assert (await way.say(b"GET http://named.t")).startswith(b"HTTP/1.1 408 ")


async def test_an_idle_tunnel_is_closed(proxied):
    async with proxied(idle_s=0.1) as way:
        reader, _ = await way.tunnel()
        assert await reader.read(-1) == b""


async def test_connections_above_the_limit_are_refused(proxied):
    async with proxied(connections=2) as way:
        held = [await way.tunnel() for _ in range(2)]
        assert (await way.say(b"x")).startswith(b"HTTP/1.1 503 ")
        held[0][1].close()
        await held[0][0].read(-1)


async def test_fifty_connections_are_served_at_once(proxied):
    async with proxied() as way:
        pairs = [await way.tunnel() for _ in range(50)]
        for number, (_, writer) in enumerate(pairs):
            writer.write(b"nr %d" % number)
            writer.write_eof()
        assert [await reader.read(-1) for reader, _ in pairs] == [b"nr %d" % number for number in range(50)]


async def test_leaving_the_block_ends_open_tunnels_and_removes_the_socket(tmp_path, echo):
    hosts = [f"named.test:{echo}"]
    async with serve_proxy(tmp_path, hosts, is_public=lambda _address: True, resolve=resolve) as (path, _):
        way = Way(path, echo, [])
        reader, _ = await way.tunnel()
    assert await reader.read(-1) == b""
    assert not path.exists()
    await way.leave()


async def test_any_host_is_reached_unless_its_address_is_private(tmp_path, echo):
    """BX-9: also at a port of loopback, for sandboxes in which a tool cannot use a Unix socket."""
    hosts, public = [ANY_HOST], ["127.0.0.1"]
    async with serve_proxy(None, hosts, is_public=public.__contains__, resolve=resolve) as (_, port):
        answers = []
        for name in ("other.test", "inner.test", "10.1.2.3"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT {name}:{echo} HTTP/1.1\r\n\r\n".encode())
            answers.append((await reader.readuntil(b"\r\n"))[9:12])
            writer.close()
    assert answers == [b"200", b"403", b"502"]


async def test_the_users_own_proxy_leads_to_allowed_hosts_alone(tmp_path, echo):
    """The user's proxy resolves the names: this machine may not be able to."""
    allowed = [f"named.test:{echo}", f"inner.test:{echo}"]
    async with serve_proxy(None, allowed[:1], is_public=lambda _: True, resolve=resolve) as (_, outer):
        via = OuterProxy(HostPort("127.0.0.1", outer), "dTpw")
        async with serve_proxy(tmp_path, allowed, is_public=lambda _: False, via=lambda _: via) as (path, _):
            way = Way(path, echo, [])
            _, writer = await way.tunnel()
            writer.write_eof()
            refused = await way.say(f"CONNECT inner.test:{echo} HTTP/1.1\r\n\r\n".encode())
            unlisted = await way.say(f"CONNECT other.test:{echo} HTTP/1.1\r\n\r\n".encode())
            await way.leave()
    assert f"your proxy 127.0.0.1:{outer} refused inner.test".encode() in refused
    assert unlisted.startswith(b"HTTP/1.1 403 ")


async def test_an_error_in_the_block_is_raised_unchanged(proxied):
    async def failing():
        async with proxied() as way:
            await way.tunnel()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()


async def test_the_socket_is_private_however_long_its_path(proxied, tmp_path):
    async with proxied(folder=tmp_path / ("long" * 30)) as way:
        assert stat.S_IMODE(way.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(way.path.parent.stat().st_mode) == 0o700


FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(len(urllib.request.urlopen(url, timeout=10).read()))
    except OSError as error:
        print(getattr(error, "code", error.__class__.__name__))
"""


async def relayed(way, *command, inside=(), **options):
    env = child_environment(os.environ)
    argv = (*inside, *relay.argv(way.path, command))
    return await run_command(
        argv, **({"cwd": way.path.parent, "env": env, "timeout_s": 30, "containment": Containment()} | options)
    )


async def test_the_relay_leads_to_the_proxy_wherever_it_listens(proxied, tmp_path):
    async with proxied(folder=tmp_path / ("long" * 30)) as way:
        named, other = (f"http://{name}.test:{way.port}/big" for name in ("named", "other"))
        finished = await relayed(way, sys.executable, "-I", "-c", FETCH, named, other)
        assert finished.stdout.split() == [b"%d" % len(BODY), b"403"]


async def test_the_relay_ends_as_its_command_does(proxied):
    """Also by the signals that Python handles specially."""
    async with proxied() as way:
        assert (await relayed(way, "sh", "-c", "exit 7")).exit_code == 7
        for signal in (2, 9, 13, 15, 25):
            finished = await relayed(way, "sh", "-c", f"kill -{signal} $$")
            assert (finished.exit_code, finished.signal) == (None, signal)


async def test_the_relay_reports_a_missing_command(proxied):
    async with proxied() as way:
        finished = await relayed(way, "no-such-program")
        assert (finished.exit_code, finished.stderr) == (127, b"No such file or directory: no-such-program\n")


async def test_without_a_proxy_the_relay_closes_connections(proxied):
    async with proxied() as way:
        way.path.unlink()
        finished = await relayed(way, sys.executable, "-I", "-c", FETCH, "http://named.test/")
        assert finished.stdout in (b"RemoteDisconnected\n", b"URLError\n", b"ConnectionResetError\n")
        way.path.touch()
