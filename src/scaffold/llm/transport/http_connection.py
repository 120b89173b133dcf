"""One connection to a server: opened directly or through a proxy, and the HTTP/1.1 messages on it.

The protocol is h11's: its import takes 3 ms of CPU, a general client's such as aiohttp 135 ms.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import zlib
from asyncio.staggered import staggered_race
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, cast

import h11

from scaffold.llm.transport.proxies import Address, Route

RACE_S = 0.25
"""How long one of a host's addresses may take before the next one is tried, too."""
READ_AHEAD_BYTES = 2**18
"""Received but unread bytes above which the server has to wait."""
PIECE_BYTES = 2**16
"""Larger bodies are sent in pieces of this size, so that they do not block other streams."""
MAX_HEAD_BYTES = 2**17
UNKNOWN_WBITS = zlib.MAX_WBITS | 32
"""Makes zlib recognise gzip and deflate by themselves."""
END = h11.EndOfMessage()
"""Made once, as h11 checks each."""
Header = tuple[str, str]
Method = Literal["GET", "POST"]
WaitUntilSent = Callable[[Awaitable[None]], Awaitable[None]]


class ConnectionTrouble(Exception):
    """A connection failed; `problem` is a sentence in which `{url}` stands for the URL."""

    def __init__(self, problem: str, *, lasting: bool = False, errno: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.lasting = lasting
        """Whether no later request would get through, either."""
        self.errno = errno
        """The system's number of what is wrong; 0 if it is not the system's."""


class HttpConnection:
    """An open connection, for one request after another."""

    def __init__(self, stream: "_Stream", route: Route) -> None:
        self.route = route
        self.idle_since_s = 0.0
        """When its last response ended, by the event loop's clock."""
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._inflate: zlib._Decompress | None = None

    @property
    def quiet(self) -> bool:
        """Return whether it is open and no bytes have come after the last response: they would answer no request."""
        return not (self._stream.ended or self._stream.unread or self._http.trailing_data[0])

    @property
    def at_end(self) -> bool:
        """Return whether the last response is complete."""
        return self._http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}

    async def send(
        self, method: Method, target: str, headers: Sequence[Header], body: bytes, drained: WaitUntilSent
    ) -> None:
        """Send a request; `drained` waits until more of a long body can be sent.

        If the server closes meanwhile, its response may say why.
        """
        authority = self.route.server.authority
        length = [("Content-Length", str(len(body)))] if method == "POST" else []
        # Without this field a server may choose any compression.
        fields = [("Host", authority), ("Accept-Encoding", "identity"), *headers, *length]
        if self.route.proxy and not self.route.tunnel and self.route.authorization:
            fields.append(("Proxy-Authorization", self.route.authorization))
        full = target if self.route.proxy is None or self.route.tunnel else f"http://{authority}{target}"
        head = self._http.send(h11.Request(method=method, target=full, headers=fields)) or b""
        self._stream.write(head + body[:PIECE_BYTES])
        for at in range(PIECE_BYTES, len(body), PIECE_BYTES):
            await drained(self._stream.drain())
            self._stream.write(body[at : at + PIECE_BYTES])
        # With a length, the body is sent as it is.
        if body:
            self._http.send(h11.Data(data=body))
        self._http.send(END)

    async def head(self) -> h11.Response:
        """Return the head of the response; ConnectionTrouble if none comes."""
        while True:
            event = await _next_event(self._http, self._stream, "{url}")
            if isinstance(event, h11.Response):
                packed = dict(event.headers).get(b"content-encoding", b"").lower() in {b"gzip", b"x-gzip", b"deflate"}
                self._inflate = zlib.decompressobj(UNKNOWN_WBITS) if packed else None
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectionTrouble("the connection to {url} was lost")

    def received(self) -> bytes | None:
        """Return the next bytes of the body, decompressed; empty at its end, None if they have not come yet.

        ConnectionTrouble if it breaks off.
        """
        while not self.at_end:
            event = _received_event(self._http, self._stream, "{url}")
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Data) and (data := self._inflate_bytes(bytes(event.data))):
                return data
        return b""

    async def read(self) -> bytes:
        """Wait for what `received` returns, and return it."""
        while (data := self.received()) is None:
            await self._stream.readable.wait()
        return data

    def reusable(self) -> bool:
        """Prepare for the next request; return False if the connection cannot be used again."""
        if not self.quiet or self._http.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return False
        self._http.start_next_cycle()
        self.idle_since_s = asyncio.get_running_loop().time()
        return True

    def close(self) -> None:
        """Close it at once."""
        self._stream.abort()

    def _inflate_bytes(self, data: bytes) -> bytes:
        if self._inflate is None:
            return data
        try:
            read = self._inflate.decompress(data)
            while data := self._inflate.unused_data:  # gzip may have several parts, one after another
                self._inflate = zlib.decompressobj(UNKNOWN_WBITS)
                read += self._inflate.decompress(data)
        except zlib.error as error:
            raise ConnectionTrouble("{url} sent a reply that cannot be decompressed") from error
        return read


async def open_connection(
    route: Route, tls: Callable[[], ssl.SSLContext], admits: Callable[[str], bool] | None = None
) -> HttpConnection:
    """Open a connection; ConnectionTrouble if that fails. `tls` returns the settings for servers that speak TLS.

    `admits` checks the addresses of a server that is not reached through the user's proxy.
    """
    first = route.proxy or route.server
    stream = _Stream()
    with contextlib.ExitStack() as undo:
        undo.callback(stream.abort)
        named, admits = ("the proxy for {url}", None) if route.proxy else ("{url}", admits)
        await _connect_stream(stream, first, named, admits)
        if first.tls:
            await _begin_tls(stream, first, tls(), named)
        if route.proxy and route.tunnel:
            await _open_tunnel(stream, route)
            await _begin_tls(stream, route.server, tls(), "{url}")
        undo.pop_all()
    return HttpConnection(stream, route)


async def _connect_stream(stream: "_Stream", there: Address, named: str, admits: Callable[[str], bool] | None) -> None:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(there.host, there.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConnectionTrouble(f"the host of {named} cannot be resolved: {reason}") from error
    if admits and not all(admits(str(each[4][0])) for each in found):
        raise ConnectionTrouble("{url} is on this machine or its network", lasting=True)
    # Closed here, because a race that is cancelled forgets the connection that has won it.
    ready: list[socket.socket] = []
    try:
        chosen, _, errors = await staggered_race([partial(_connect_socket, each, ready) for each in found], RACE_S)
        if chosen is None:
            refused = clearest_error(errors)
            reason = os.strerror(refused.errno) if refused.errno else f"{refused}"
            raise ConnectionTrouble(f"{named} cannot be reached: {reason}", errno=refused.errno or 0) from refused
        await loop.create_connection(lambda: stream, sock=chosen)
        ready.remove(chosen)
    finally:
        for each in ready:
            each.close()


def clearest_error(errors: Sequence[BaseException | None]) -> OSError:
    """Return the error to report if no address of a host can be reached."""
    failures = [each for each in errors if isinstance(each, OSError)] or [OSError("it has no address")]
    # A closed port says more than, for example, a machine without IPv6.
    return next((each for each in failures if isinstance(each, ConnectionRefusedError)), failures[0])


async def _connect_socket(
    found: tuple[int, int, int, str, tuple[object, ...]], ready: list[socket.socket]
) -> socket.socket:
    """Return a socket that is connected to an address, and append it to `ready`."""
    family, kind, protocol, _, place = found
    made = socket.socket(family, kind, protocol)
    with contextlib.ExitStack() as undo:
        undo.callback(made.close)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(made, place)
        ready.append(made)
        undo.pop_all()
    return made


async def _open_tunnel(stream: "_Stream", route: Route) -> None:
    authority = str(route.server)
    headers = [("Host", authority)]
    if route.authorization:
        headers.append(("Proxy-Authorization", route.authorization))
    http = h11.Connection(h11.CLIENT)
    stream.write(http.send(h11.Request(method="CONNECT", target=authority, headers=headers)) or b"")
    while isinstance(event := await _next_event(http, stream, "the proxy for {url}"), h11.InformationalResponse):
        pass
    if not isinstance(event, h11.Response):
        raise ConnectionTrouble("the connection to the proxy for {url} was lost")
    if not 200 <= event.status_code < 300:
        problem = f"the proxy for {{url}} refused the connection with HTTP status {event.status_code}"
        raise ConnectionTrouble(problem, lasting=event.status_code < 500)


async def _next_event(http: h11.Connection, stream: "_Stream", server: str) -> object:
    """Wait for the next event of the server's messages; ConnectionTrouble if it breaks off or does not speak HTTP."""
    while (event := _received_event(http, stream, server)) is h11.NEED_DATA:
        await stream.readable.wait()
    return event


def _received_event(http: h11.Connection, stream: "_Stream", server: str) -> object:
    """Return the next event of the server's messages, h11.NEED_DATA if it has not come yet."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA and stream.readable.is_set():
            http.receive_data(stream.take())
    except h11.RemoteProtocolError as error:
        _, ended = http.trailing_data
        problem = f"the connection to {server} was lost" if ended else f"{server} does not answer in HTTP"
        raise ConnectionTrouble(problem) from error
    return event


async def _begin_tls(stream: "_Stream", server: Address, context: ssl.SSLContext, named: str) -> None:
    try:
        await stream.begin_tls(context, server.host)
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message or f"{error}"
        raise ConnectionTrouble(f"the TLS certificate of {named} is not valid: {reason}", lasting=True) from error
    except OSError as error:
        reason = error.strerror or f"{error}" or "the connection was lost"
        raise ConnectionTrouble(f"no TLS connection to {named}: {reason}") from error


class _Stream(asyncio.Protocol):
    """The bytes of a connection."""

    def __init__(self) -> None:
        self.ended = False
        """Whether the server has closed it, or it was lost."""
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._error: Exception | None = None
        self.readable = asyncio.Event()
        """Set while `take` has something to return, or there will be nothing more."""
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def unread(self) -> bool:
        """Return whether bytes have come that `take` has not returned."""
        return bool(self._received)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self.readable.set()
        if len(self._received) > READ_AHEAD_BYTES and self._transport:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._end_stream(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_stream(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end_stream(self, error: Exception | None) -> None:
        self.ended = True
        self._error = self._error or error
        self.readable.set()
        self._writable.set()

    def take(self) -> bytes:
        """Return the bytes received since the last call, possibly none."""
        data = bytes(self._received)
        self._received.clear()
        if not self.ended:
            self.readable.clear()
            if self._transport:
                self._transport.resume_reading()
        if not data and self._error:
            raise ConnectionTrouble("the connection to {url} was lost") from self._error
        return data

    def write(self, data: bytes) -> None:
        """Send bytes; does nothing if the connection was lost, as what came before that may say why."""
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until more can be sent."""
        await self._writable.wait()

    async def begin_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Encrypt from here on; OSError if that fails."""
        loop, plain = asyncio.get_running_loop(), self._transport
        transport = plain and await loop.start_tls(plain, self, context, server_hostname=host)
        if transport is None:
            raise ConnectionResetError("the connection was lost")
        self._transport = transport

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()
