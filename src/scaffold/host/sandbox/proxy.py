"""An HTTP proxy outside the sandbox for commands that may reach only allowed hosts, on a Unix socket or a port.

It supports `CONNECT` and plain requests with an absolute URL. It resolves names itself and connects to the address it
checked, so a second DNS answer changes nothing (DNS rebinding). Encrypted traffic passes unread: a command that may
reach a host can request anything from it.
"""

import asyncio
import contextlib
import os
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.host.sandbox.proxy_request import HostPort, OuterProxy, ProxyRefusal, matches_any_host, parse_request

HEAD_BYTES = 32_768
CHUNK_BYTES = 65_536
LINGER_S = 2.0
ANY_HOST = "any host"
"""In place of a host: every one, if its address is public. No name has a space."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a name and a port; returns the name's addresses, OSError if there are none."""


class ConnectionAttempt(Struct, frozen=True):
    """A connection that a command requested."""

    destination: str
    """`HOST:PORT`, or the raw request if it could not be parsed."""
    refusal: str
    """Why it was refused; empty if it was allowed."""


class ProxyLimits(Struct, frozen=True, kw_only=True):
    """Timeouts and the connection limit of the proxy."""

    head_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 300.0
    connections: int = 200


DEFAULT_LIMITS = ProxyLimits()


async def resolve_addresses(host: str, port: int) -> Sequence[str]:
    """Return a name's addresses from the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@contextlib.asynccontextmanager
async def serve_proxy(
    folder: Path | None,
    hosts: Sequence[str],
    *,
    is_public: Callable[[str], bool],
    resolve: Resolve = resolve_addresses,
    tell: Callable[[ConnectionAttempt], None] = lambda _contact: None,
    via: Callable[[HostPort], OuterProxy | None] = lambda _destination: None,
    bounds: ProxyLimits = DEFAULT_LIMITS,
) -> AsyncIterator[tuple[Path | None, int | None]]:
    """Serve `hosts` from a socket in `folder` (mode 0700), or without one from a port of 127.0.0.1; yield which.

    It ends with the block. `is_public` returns True for addresses that any host may have, usually the internet's;
    others are allowed only if `hosts` lists the address itself. `tell` is called before each connection is made. `via`
    returns the user's own proxy for a destination, which then resolves the name. OSError if the socket cannot be
    created.
    """
    path = folder / "proxy" if folder else None
    listener = bind_unix_socket(path) if path else sockets.create_server(("127.0.0.1", 0))
    proxy = _Proxy(tuple(hosts), is_public, resolve, tell, via, bounds)
    # The limit makes `readuntil` fail on a longer head instead of buffering it without end.
    server = await asyncio.start_server(proxy.accept, sock=listener, limit=HEAD_BYTES)
    try:
        yield path, None if path else listener.getsockname()[1]
    finally:
        server.close()
        if path:
            path.unlink(missing_ok=True)
        await proxy.end()


def bind_unix_socket(path: Path) -> sockets.socket:
    """Return a socket bound at `path`, even if it is longer than the 107 bytes of a socket address."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        # A socket address holds 107 bytes and a final NUL; the way around it below needs /proc.
        if len(os.fsencode(path)) < 100:
            listener.bind(str(path))
        else:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            finally:
                os.close(folder)
        path.chmod(0o600)
    except OSError:
        listener.close()
        raise
    return listener


class _Proxy(Struct):
    hosts: tuple[str, ...]
    is_public: Callable[[str], bool]
    resolve: Resolve
    tell: Callable[[ConnectionAttempt], None]
    via: Callable[[HostPort], OuterProxy | None]
    bounds: ProxyLimits
    tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a new task."""
        task = asyncio.get_running_loop().create_task(self._serve_connection(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """Cancel all connections."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            try:
                await self._pass_on(reader, writer)
            except ProxyRefusal as refusal:
                self.tell(ConnectionAttempt(refusal.destination, refusal.reason))
                writer.write(refusal.answer())
                writer.write_eof()
                # A client that is reset while sending would not read the answer.
                async with asyncio.timeout(LINGER_S):
                    while await reader.read(CHUNK_BYTES):
                        pass
            finally:
                writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.tasks) > self.bounds.connections:
            raise ProxyRefusal(503, "-", f"{self.bounds.connections} connections are already open; close some first")
        try:
            async with asyncio.timeout(self.bounds.head_s):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise ProxyRefusal(408, "-", f"no complete request within {self.bounds.head_s:g} s") from None
        except asyncio.LimitOverrunError:
            raise ProxyRefusal(431, "-", f"the request header is longer than {HEAD_BYTES} bytes") from None
        request = parse_request(head)
        far_reader, far_writer = await self._connect_allowed(request.destination)
        try:
            if request.forwarded:
                far_writer.write(request.forwarded)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._tunnel_bytes((reader, far_writer), (far_reader, writer))
        finally:
            far_writer.close()

    async def _connect_allowed(self, destination: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first allowed address of an allowed host that answers."""
        if ANY_HOST not in self.hosts and not matches_any_host(destination, self.hosts):
            raise ProxyRefusal(
                403, str(destination), f"{destination} is not one of the hosts that this command may reach"
            )
        if (outer := self.via(destination)) is not None:
            return await self._connect_through(outer, destination)
        try:
            async with asyncio.timeout(self.bounds.connect_s):
                found = await self.resolve(destination.host, destination.port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise ProxyRefusal(502, str(destination), f"{destination.host} cannot be resolved: {error}") from error
        port = destination.port
        addresses = [
            each for each in found if self.is_public(each) or matches_any_host(HostPort(each, port), self.hosts)
        ]
        if not addresses:
            reason = f"{destination.host} resolves to {', '.join(found)}, which is not public"
            raise ProxyRefusal(403, str(destination), reason)
        self.tell(ConnectionAttempt(str(destination), ""))
        # The checked addresses, not the name: resolving it again could give another answer (DNS rebinding).
        for address in addresses:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self.bounds.connect_s):
                    return await asyncio.open_connection(address, destination.port, limit=CHUNK_BYTES)
        raise ProxyRefusal(502, str(destination), f"{destination} cannot be reached")

    async def _connect_through(
        self, outer: OuterProxy, destination: HostPort
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.tell(ConnectionAttempt(str(destination), ""))
        try:
            async with asyncio.timeout(self.bounds.connect_s):
                reader, writer = await asyncio.open_connection(outer.place.host, outer.place.port, limit=CHUNK_BYTES)
                login = f"Proxy-Authorization: Basic {outer.login}\r\n" if outer.login else ""
                writer.write(f"CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n{login}\r\n".encode())
                answer = await reader.readuntil(b"\r\n\r\n")
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ProxyRefusal(502, str(destination), f"your proxy {outer.place} cannot be reached: {error}") from error
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            writer.close()
            raise ProxyRefusal(502, str(destination), f"your proxy {outer.place} refused {destination}")
        return reader, writer

    async def _tunnel_bytes(self, *directions: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Pass bytes both ways until both have ended, or the connection was idle for `idle_s`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.bounds.idle_s) as idle_timeout:

            def extend() -> None:
                # Rescheduling an expired timeout is a RuntimeError, and the pumps run on until they are cancelled.
                if not idle_timeout.expired():
                    idle_timeout.reschedule(loop.time() + self.bounds.idle_s)

            try:
                async with asyncio.TaskGroup() as group:
                    for reader, writer in directions:
                        group.create_task(pump_bytes(reader, writer, extend))
            except* OSError:  # one side closed the connection, so the other is closed too
                pass


async def pump_bytes(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, extend: Callable[[], None] = lambda: None
) -> None:
    """Pass bytes on until EOF, which ends only this direction; `extend` is called at each progress."""
    while piece := await reader.read(CHUNK_BYTES):
        extend()
        writer.write(piece)
        await writer.drain()
        extend()
    if writer.can_write_eof():
        writer.write_eof()
