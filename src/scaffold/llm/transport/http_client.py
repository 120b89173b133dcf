"""The HTTP client for all providers, with connections shared by all streams of a process."""

import asyncio
import errno
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import NoReturn, Self, TypeVar
from urllib.parse import quote, urlsplit

from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.llm.transport.http_connection import ConnectionTrouble, HttpConnection, Method, open_connection
from scaffold.llm.transport.live_context import HttpRequest, HttpResponse
from scaffold.llm.transport.proxies import ProxySettings, Route, UnusableProxy, is_loopback

KEEPALIVE_S = 30.0
"""How long an idle connection is kept for reuse; servers close theirs after a minute or more."""
DRAIN_S = 0.05
"""How long to wait for the end of a response after a stream's last event."""
IN_PATH = "/%:@!$&'()*+,;=-._~"
"""Characters that stay unescaped in a path."""
Result = TypeVar("Result")


class Transport:
    """Sends requests through connections that are opened as needed and used again.

    Connections belong to one event loop of one process; another loop, e.g. after a fork, gets new ones.
    Proxies are read from `environ` (`https_proxy`, `http_proxy`, `all_proxy`, `no_proxy`), never used for loopback.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._proxies = ProxySettings(environ)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: dict[Route, list[HttpConnection]] = {}
        self._busy: set[HttpConnection] = set()
        self._tls: ssl.SSLContext | None = None
        self._places: dict[str, tuple[Route, str]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close this event loop's connections; a later request opens new ones."""
        if self._loop is asyncio.get_running_loop():
            for connection in (*self._busy, *(each for idle in self._idle.values() for each in idle)):
                connection.close()
            await asyncio.sleep(0)  # in which the sockets are closed
        self._idle, self._busy = {}, set()

    def post(self, post: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send `post` and yield the response; redirects are not followed, as they would forward the key."""
        return self._send_request("POST", post)

    def get(self, asked: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for what is at a URL, without a body, and yield the response; redirects are not followed."""
        return self._send_request("GET", asked)

    @asynccontextmanager
    async def _send_request(self, method: Method, request: HttpRequest) -> AsyncGenerator[HttpResponse]:
        clock = _TryDeadlines(request)
        route, target = clock.checked(partial(self._find_server, request.url))
        # A kept connection may be to an address that was not checked.
        connection = None if request.admits else self._idle_connection(route)
        if connection is None:
            connection = await clock.connected(open_connection(route, self._tls_settings, request.admits))
        self._busy.add(connection)
        kept = False
        try:
            await connection.send(method, target, [*request.headers.items()], request.body, clock.sent)
            head = await clock.received(connection.head())
            headers: dict[str, str] = {}
            for name, value in head.headers:
                key, text = name.decode("ascii").lower(), value.decode("latin-1")
                # A repeated header is one list.
                headers[key] = f"{headers[key]}, {text}" if key in headers else text
            yield _Response(head.status_code, headers, connection, clock)
            kept = await self._finish_response(connection)
        finally:
            self._busy.discard(connection)
            if not kept:
                connection.close()

    def _tls_settings(self) -> ssl.SSLContext:
        # Made once, and only for servers that need it: loading the certificates takes long.
        self._tls = self._tls or ssl.create_default_context()
        return self._tls

    async def _finish_response(self, connection: HttpConnection) -> bool:
        """Keep the connection of a response that is complete, or is so soon; return whether it is kept."""
        try:
            # Bytes that have arrived need no wait.
            while rest := connection.received():
                pass
            if rest is None:
                async with asyncio.timeout(DRAIN_S):
                    while await connection.read():
                        pass
        except (ConnectionTrouble, TimeoutError):
            return False
        reusable = connection.reusable()
        if reusable:
            self._idle.setdefault(connection.route, []).append(connection)
        return reusable

    def _find_server(self, url: str) -> tuple[Route, str]:
        """Return the way to a URL's server and what it is called there; ConnectionTrouble if there is none."""
        if url not in self._places:
            try:
                parts = urlsplit(url)
                path = quote(parts.path or "/", safe=IN_PATH)
                query = f"?{quote(parts.query, safe=f'{IN_PATH}?')}" if parts.query else ""
                self._places[url] = self._proxies.way(url), path + query
            except ValueError as error:
                raise ConnectionTrouble("{url} is not a valid URL", lasting=True) from error
            except UnusableProxy as error:
                problem = "the proxy for {url} is not of the form http://HOST:PORT or https://HOST:PORT"
                raise ConnectionTrouble(problem, lasting=True) from error
        return self._places[url]

    def _idle_connection(self, route: Route) -> HttpConnection | None:
        """Return an idle connection to use; the newest, so that those that are not needed grow old."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections of another loop cannot be used, nor closed, in this one.
            self._loop, self._idle, self._busy = loop, {}, set()
        idle = self._idle.get(route, [])
        while idle:
            connection = idle.pop()
            if connection.quiet and loop.time() - connection.idle_since_s < KEEPALIVE_S:
                return connection
            connection.close()
        return None


class _Response:
    """A response whose head has arrived."""

    def __init__(
        self, status: int, headers: Mapping[str, str], connection: HttpConnection, clock: "_TryDeadlines"
    ) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._clock = clock

    async def read(self) -> bytes:
        """Return the bytes received so far; empty at the end."""
        # Much of a fast stream is there when it is asked for, and needs no deadline.
        data = self._clock.checked(self._connection.received)
        return data if data is not None else await self._clock.received(self._connection.read())


class _TryDeadlines:
    """The deadlines of one try, and the errors of what does not meet them."""

    def __init__(self, post: HttpRequest) -> None:
        self._post = post
        self._loop = asyncio.get_running_loop()
        self._end_s = self._loop.time() + post.deadlines.total_s

    async def connected(self, opening: Awaitable[Result]) -> Result:
        """Return the result of `opening`; ModelError if it fails or takes too long."""
        limit_s = self._post.deadlines.connect_s
        return await self._wait_within(opening, limit_s, f"connecting to {{url}} timed out after {limit_s:g} s")

    async def sent(self, sending: Awaitable[None]) -> None:
        """Wait until a piece of the request is sent; ModelError if the server takes none for too long."""
        limit_s = self._post.deadlines.idle_s
        await self._wait_within(sending, limit_s, f"{{url}} took no more of the request for {limit_s:g} s")
        self._post.on_sent()

    async def received(self, receiving: Awaitable[Result]) -> Result:
        """Return the result of `receiving`; ModelError if it fails, or nothing comes for too long."""
        limit_s = self._post.deadlines.idle_s
        return await self._wait_within(receiving, limit_s, f"{{url}} sent nothing for {limit_s:g} s")

    def checked(self, receive: Callable[[], Result]) -> Result:
        """Return the result of `receive` without waiting; ModelError if it fails."""
        try:
            return receive()
        except ConnectionTrouble as error:
            _raise_model_error(error, self._post, error)

    async def _wait_within(self, work: Awaitable[Result], limit_s: float, late: str) -> Result:
        left_s = self._end_s - self._loop.time()
        if left_s <= limit_s:
            limit_s = max(left_s, 0)
            late = f"the reply from {{url}} was not complete after {self._post.deadlines.total_s:g} s"
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError as error:
            _raise_model_error(ConnectionTrouble(late), self._post, error)
        except ConnectionTrouble as error:
            _raise_model_error(error, self._post, error)


def _raise_model_error(trouble: ConnectionTrouble, post: HttpRequest, cause: BaseException) -> NoReturn:
    """Raise the ModelError for a failure, with the URL but without secrets."""
    # A URL may have a login, and a query may have a key.
    parts = urlsplit(post.url)
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    what = trouble.problem.replace("{url}", url)
    if trouble.lasting:
        raise ModelAccessDenied(what, _FIX_FOR_GOOD) from cause
    no_local_server = trouble.errno == errno.ECONNREFUSED and is_loopback(urlsplit(post.url).hostname or "")
    raise ModelError(what, _FIX, transient=True, no_local_server=no_local_server) from cause


_FIX = "Check the network, the base URL and, for a local server, that it is running; then retry."
_FIX_FOR_GOOD = "Check the base URL, its certificate (set SSL_CERT_FILE for your own CA) and the proxy's URL."
