"""The HTTP client for all providers, with one session shared by all streams of a process."""

import asyncio
import base64
import io
import ipaddress
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NoReturn, Self
from urllib.parse import unquote, urlsplit

import aiohttp

from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.llm.transport.ports import Deadlines, HttpRequest, HttpResponse

KEEPALIVE_S = 30.0
"""How long an idle connection is kept for reuse; servers close theirs after a minute or more."""

DRAIN_S = 0.05
"""How long to wait for EOF after a stream's last event."""

CHUNK = 2**16
STREAMED_BODY_BYTES = 2**20
"""Larger bodies are sent in chunks, so that they do not block other streams."""


class Transport:
    """Posts requests through one session, created with the first request.

    A session belongs to one event loop of one process; another loop, e.g. after a fork, gets a new session.
    Proxies are read from `environ` (`https_proxy`, `http_proxy`, `all_proxy`, `no_proxy`), never used for loopback.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._proxies = ProxySettings(environ)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routes: dict[str, _Route] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close this event loop's connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    @asynccontextmanager
    async def post(self, post: HttpRequest) -> AsyncGenerator[HttpResponse]:
        """Send `post` and yield the response; redirects are not followed, as they would forward the key."""
        route = self._route(post.url)
        sending = self._running_session().post(
            route.url,
            data=post.body if len(post.body) <= STREAMED_BODY_BYTES else io.BytesIO(post.body),
            headers={**post.headers, **route.headers},
            proxy=route.proxy,
            proxy_headers=route.proxy_headers,
            allow_redirects=False,
            timeout=_timeout(post.deadlines),
        )
        try:
            response = await sending
        except (aiohttp.ClientError, OSError) as error:
            _raise_model_error(error, post)
        succeeded = False
        try:
            yield _AiohttpResponse(response, post)
            succeeded = True
        finally:
            # A response at EOF has given its connection back; closing any other one closes the connection, too.
            if succeeded and not response.content.at_eof():
                await _drain(response)
            response.close()

    def _running_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                # aiohttp's default limit of 100 connections would be a second, invisible throttle.
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=KEEPALIVE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=CHUNK,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    def _route(self, url: str) -> "_Route":
        route = self._routes.get(url)
        if route is None:
            route = self._routes[url] = self._proxies.way(url)
        return route


class _Route:
    """A URL with the proxy and headers needed to reach it, computed once."""

    def __init__(self, url: str, proxy: str | None = None) -> None:
        self.url = url
        self.headers: Mapping[str, str] = {}
        self.proxy: str | None = None
        self.proxy_headers: Mapping[str, str] | None = None
        if proxy is None:
            return
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        self.proxy = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
            # Over https the proxy sees only CONNECT, which has to carry its login; over http it sees the request.
            if urlsplit(url).scheme == "https":
                self.proxy_headers = authorization
            else:
                self.headers = authorization


class ProxySettings:
    """The proxies from the usual environment variables; lower-case names take precedence."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._of = {
            word: environ.get(f"{word}_proxy") or environ.get(f"{word}_proxy".upper()) or ""
            for word in ("http", "https", "all", "no")
        }

    def way(self, url: str) -> _Route:
        """Return the route to `url`; without a proxy for loopback hosts and those in `no_proxy`."""
        parts = urlsplit(url)
        proxy = self._of.get(parts.scheme) or self._of["all"]
        host = parts.hostname or ""
        return _Route(url, None if not proxy or self._excepts(host, parts.port) or is_loopback(host) else proxy)

    def _excepts(self, host: str, port: int | None) -> bool:
        """Return True if `no_proxy` lists `host`, with or without its port, or a parent domain."""
        names = [name.strip().lower().lstrip(".") for name in self._of["no"].split(",")]
        return any(
            name in {"*", candidate} or candidate.endswith(f".{name}")
            for name in names
            if name
            for candidate in (host, f"{host}:{port}")
        )


def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without brackets, is the loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class _AiohttpResponse:
    """A response of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse, post: HttpRequest) -> None:
        self._response = response
        self._post = post
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the bytes received so far; empty at the end."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            _raise_model_error(error, self._post)


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Wait up to DRAIN_S for EOF of a consumed body, so that its connection can be reused."""
    try:
        async with asyncio.timeout(DRAIN_S):
            while await response.content.readany():
                pass
    except (aiohttp.ClientError, OSError):
        response.close()


def _timeout(deadlines: Deadlines) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=deadlines.total_s,
        connect=deadlines.connect_s,
        sock_connect=deadlines.connect_s,
        sock_read=deadlines.idle_s,
    )


def _raise_model_error(error: aiohttp.ClientError | OSError, post: HttpRequest) -> NoReturn:
    """Raise the ModelError for a failure, with the URL but without secrets."""
    url = _public_url(post.url)
    if problem := _lasting_problem(error, url):
        raise ModelAccessDenied(problem, _FIX_FOR_GOOD) from error
    deadlines = post.deadlines
    # The order matters: DNS, TLS and proxy errors are also connector errors, and aiohttp's timeouts are TimeoutErrors.
    match error:
        case aiohttp.ConnectionTimeoutError():
            what = f"connecting to {url} timed out after {deadlines.connect_s:g} s"
        case aiohttp.SocketTimeoutError():
            what = f"{url} sent nothing for {deadlines.idle_s:g} s"
        case TimeoutError():
            what = f"the reply from {url} was not complete after {deadlines.total_s:g} s"
        case aiohttp.ClientConnectorDNSError():
            what = f"the host of {url} cannot be resolved: {error.os_error.strerror or error.os_error}"
        case aiohttp.ClientSSLError():
            what = f"no TLS connection to {url}: {error.os_error.strerror or error.os_error}"
        case aiohttp.ClientProxyConnectionError():
            what = f"the proxy for {url} cannot be reached: {error.strerror}"
        case aiohttp.ClientHttpProxyError():
            what = f"the proxy for {url} refused the connection with HTTP status {error.status}"
        case aiohttp.ClientConnectorError():
            what = f"{url} cannot be reached: {_reason(error.os_error)}"
        case _:
            what = f"the connection to {url} was lost"
    raise ModelError(what, _FIX, transient=True) from error


def _lasting_problem(error: aiohttp.ClientError | OSError, url: str) -> str:
    """Return what is wrong if no later request would get through either; empty if one may."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the TLS certificate of {url} is not valid: {_certificate_problem(error)}"
        case aiohttp.ClientHttpProxyError() if error.status < 500:
            return f"the proxy for {url} refused the connection with HTTP status {error.status}"
        case aiohttp.InvalidURL():
            return f"{url} is not a valid URL"
        case _:
            return ""


_FIX = "Check the network, the base URL and, for a local server, that it is running; then retry."
_FIX_FOR_GOOD = "Check the base URL, its certificate (set SSL_CERT_FILE for your own CA) and the proxy's credentials."


def _reason(error: OSError) -> str:
    """Return the system's error text; asyncio's would repeat the address."""
    return os.strerror(error.errno) if error.errno else error.strerror or f"{error}"


def _certificate_problem(error: aiohttp.ClientConnectorCertificateError) -> str:
    return getattr(error.certificate_error, "verify_message", "") or f"{error.certificate_error}"


def _public_url(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
