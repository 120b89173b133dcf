"""The server on this machine that the browser is redirected to, for as long as a login takes.

Only a GET of the callback's path, with a name of this machine as its `Host` and the state of this login, counts, once.
Everything else is answered with an error, and the login continues.
"""

import asyncio
import errno
import socket
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import h11
from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied, UsageError
from scaffold.login.callback import HOSTS, AuthorizationDenied, CodeAnswer, Expected, NotOurs, answer_of_query
from scaffold.login.provider import CALLBACK_PATH, PORT

WAIT_S = 600.0  # how long a login waits for the user
REQUEST_S = 10.0
MAX_HEAD_BYTES = 16_384
MAX_CONNECTIONS = 20
# Literals: a name could lead elsewhere. Both, as a browser may take `localhost` for either.
ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
UNSUPPORTED = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})
HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("Connection", "close"),
)
RECEIVED = (
    "The answer has arrived. Go back to your terminal: it says whether you are logged in. You can close this page."
)


class CallbackPlace(Struct, frozen=True, kw_only=True):
    """Where the browser comes back to, and the command that began the login."""

    addresses: tuple[tuple[socket.AddressFamily, str], ...] = ADDRESSES
    port: int = PORT
    """0 for a free one."""
    path: str = CALLBACK_PATH
    command: str = "ralph login"
    elsewhere: str = "`ralph login --headless` needs no port."
    """What helps where the port, or the browser, is not at hand."""


SUBSCRIPTION_PLACE = CallbackPlace()


class CallbackServer:
    """`async with CallbackServer(request) as server: code = await server.code()`."""

    def __init__(self, request: Expected, place: CallbackPlace = SUBSCRIPTION_PLACE) -> None:
        """Accept what `request` says is the answer to it."""
        self._request = request
        self._place = place
        self._hosts = HOSTS
        self.port = place.port
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._code: asyncio.Future[CodeAnswer] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        """Listen; UsageError if another program uses the port."""
        try:
            for family, address in self._place.addresses:
                await self._open_listeners(family, address)
        except OSError as error:
            self._close_listeners()
            raise UsageError(
                f"port {self.port}, to which the browser comes back, cannot be used: {error.strerror}",
                f"End the program that has it, perhaps another `{self._place.command}`; {self._place.elsewhere}",
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The page that says so is on its way.
        if self._serving:
            await asyncio.wait(self._serving, timeout=0.2)
        self._close_listeners()

    async def code(self, wait_s: float = WAIT_S) -> str:
        """Return the code; raises as `answer` does."""
        return (await self.answer(wait_s)).code

    async def answer(self, wait_s: float = WAIT_S) -> CodeAnswer:
        """Return the answer; AuthorizationDenied if the user did not agree, ModelAccessDenied if nothing comes."""
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(self._code)
        except TimeoutError as error:
            what = f"the browser did not come back within {wait_s:g} s"
            fix = f"Repeat `{self._place.command}`. If the browser is on another machine: {self._place.elsewhere}"
            raise ModelAccessDenied(what, fix) from error

    async def _open_listeners(self, family: socket.AddressFamily, address: str) -> None:
        try:
            listening = socket.create_server((address, self.port), family=family)
        except OSError as error:
            if family == socket.AF_INET6 and error.errno in UNSUPPORTED:
                return
            raise
        if self._place.port != PORT:
            self.port = listening.getsockname()[1]
            self._hosts = frozenset({f"{address}:{self.port}"})
        self._servers.append(await asyncio.start_server(self._serve_browser, sock=listening))

    def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        for serving in self._serving:
            serving.cancel()

    async def _serve_browser(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._serving) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._serving.add(task)
        try:
            async with asyncio.timeout(REQUEST_S):
                await self._answer_one(reader, writer)
        except (TimeoutError, OSError, h11.ProtocolError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            status, text = self._answer_request(await _read_head(http, reader))
        except h11.RemoteProtocolError:
            status, text = 400, "This is not a request that can be read."
        body = f"<!doctype html><title>ralph login</title><p>{text}</p>".encode()
        head = h11.Response(status_code=status, headers=[*HEADERS, ("Content-Length", str(len(body)))])
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(http.send(event) or b"")
        with suppress(OSError):
            await writer.drain()

    def _answer_request(self, asked: h11.Request) -> tuple[int, str]:
        hosts = [value.decode("latin-1").lower() for name, value in asked.headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, "This is not the address of a login."
        parts = urlsplit(asked.target.decode("latin-1"))
        if parts.path != self._place.path:
            return 404, "There is nothing here."
        if asked.method != b"GET":
            return 405, "Only a browser's redirect is expected here."
        if self._code.done():
            return 409, "This login has had its answer."
        try:
            self._code.set_result(answer_of_query(parts.query, self._request, self._place.command))
        except NotOurs:
            return 400, "This does not answer the open login, which is still waiting."
        except AuthorizationDenied as denied:
            self._code.set_exception(denied)
        return 200, RECEIVED


async def _read_head(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    while True:
        event = http.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise h11.RemoteProtocolError("no request")
        http.receive_data(await reader.read(MAX_HEAD_BYTES))
