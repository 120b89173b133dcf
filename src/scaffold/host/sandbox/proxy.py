"""The way out for commands that may speak to named hosts only: an HTTP proxy of ours, outside, on a Unix socket.

It knows `CONNECT` and plain requests with a whole URL. A name is resolved here and connected to at the very address
that was judged, so that a second answer of the name service changes nothing. What is encrypted passes unread: who is
let through to a host can ask there for anything that the host serves.
"""

import asyncio
import contextlib
import os
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.host.sandbox.authority import Place, Refused, named, requested

HEAD_BYTES = 32_768
PIECE_BYTES = 65_536
LINGER_S = 2.0
SOCKET_NAME = "proxy"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name; OSError if it has none."""


class Contact(Struct, frozen=True):
    """A connection that a command asked for."""

    place: str
    """`HOST:PORT`, or what was asked where that could not be read."""
    refusal: str
    """Why it was not let through; empty for one that was."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How long and how much the proxy bears with a command."""

    head_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 300.0
    connections: int = 200


USUAL = Bounds()


async def looked_up(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@contextlib.asynccontextmanager
async def opened_proxy(
    folder: Path,
    hosts: Sequence[str],
    *,
    is_public: Callable[[str], bool],
    resolve: Resolve = looked_up,
    tell: Callable[[Contact], None] = lambda _contact: None,
    bounds: Bounds = USUAL,
) -> AsyncIterator[Path]:
    """Serve `hosts` from a socket in `folder`, which is made for us alone, and yield the socket; end with the block.

    `is_public` tells whether an address is one of the open internet; others are connected to only if `hosts` names the
    address itself. `tell` hears of each connection, before it is made. OSError if the socket cannot be made.
    """
    path = folder / SOCKET_NAME
    proxy = _Proxy(tuple(hosts), is_public, resolve, tell, bounds)
    server = await asyncio.start_unix_server(proxy.accept, sock=listening(path), limit=HEAD_BYTES)
    try:
        yield path
    finally:
        server.close()
        path.unlink(missing_ok=True)
        await proxy.end()


def listening(path: Path) -> sockets.socket:
    """Return a socket bound at `path`, however long that is: an address holds 107 bytes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) < 100:
            listener.bind(str(path))
        else:
            _bind_in(path, listener)
        path.chmod(0o600)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_in(path: Path, listener: sockets.socket) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


class _Proxy(Struct):
    hosts: tuple[str, ...]
    is_public: Callable[[str], bool]
    resolve: Resolve
    tell: Callable[[Contact], None]
    bounds: Bounds
    tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """Break off every connection."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            try:
                await self._pass_on(reader, writer)
            except Refused as refusal:
                self.tell(Contact(refusal.place, refusal.reason))
                await _answer(refusal, reader, writer)
            finally:
                writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.tasks) > self.bounds.connections:
            raise Refused(503, "-", f"there are {self.bounds.connections} connections already; close some first")
        request = requested(await self._head(reader))
        far_reader, far_writer = await self._connect(request.place)
        try:
            if request.forwarded:
                far_writer.write(request.forwarded)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._tunnel((reader, far_writer), (far_reader, writer))
        finally:
            far_writer.close()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self.bounds.head_s):
                return await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Refused(408, "-", f"no whole request came within {self.bounds.head_s:g} s") from None
        except asyncio.LimitOverrunError:
            raise Refused(431, "-", f"the head of the request is longer than {HEAD_BYTES} bytes") from None

    async def _connect(self, place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address of a named host that answers and may be spoken to."""
        if not named(place, self.hosts):
            raise Refused(403, str(place), f"{place} is not among the hosts that this command may reach")
        addresses = await self._addresses(place)
        self.tell(Contact(str(place), ""))
        for address in addresses:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self.bounds.connect_s):
                    return await asyncio.open_connection(address, place.port, limit=PIECE_BYTES)
        raise Refused(502, str(place), f"{place} cannot be reached")

    async def _addresses(self, place: Place) -> list[str]:
        try:
            async with asyncio.timeout(self.bounds.connect_s):
                found = await self.resolve(place.host, place.port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Refused(502, str(place), f"{place.host} has no address: {error}") from error
        fine = [each for each in found if self.is_public(each) or named(Place(each, place.port), self.hosts)]
        if not fine:
            raise Refused(403, str(place), f"{place.host} leads to {', '.join(found)}, which is not on the internet")
        return fine

    async def _tunnel(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Pass bytes both ways until both have ended, or nothing has come for long."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.bounds.idle_s) as patience:

            def extend() -> None:
                if not patience.expired():
                    patience.reschedule(loop.time() + self.bounds.idle_s)

            try:
                async with asyncio.TaskGroup() as group:
                    for reader, writer in ways:
                        group.create_task(_pump(reader, writer, extend))
            except* OSError:  # one side broke off, and so does the other
                pass


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, extend: Callable[[], None]) -> None:
    while piece := await reader.read(PIECE_BYTES):
        extend()
        writer.write(piece)
        await writer.drain()
        extend()
    if writer.can_write_eof():
        writer.write_eof()


async def _answer(refusal: Refused, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say why not, and hear the other out for a moment: who is cut off in the middle of a word reads no answer."""
    writer.write(refusal.answer())
    writer.write_eof()
    async with asyncio.timeout(LINGER_S):
        while await reader.read(PIECE_BYTES):
            pass
