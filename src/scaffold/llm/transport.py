"""The one way to providers: HTTP with a session shared by all streams of a process."""

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

from scaffold.core.errors import ModelTrouble
from scaffold.llm.line import Answer, Deadlines, Post

KEEP_S = 30.0
"""Seconds an idle connection is kept for the next request: servers close theirs after a minute or more."""

END_S = 0.05
"""Seconds the end of a stream may take once its last event is there."""

CHUNK = 2**16
LARGE = 2**20
"""Bytes; what is larger is sent bit by bit, so that other streams go on meanwhile."""


class Transport:
    """Posts requests through one session, which is made when the first one is sent.

    A session belongs to one event loop of one process: in another loop, as after a fork, another one is made.
    Proxies are taken from `environ` (`https_proxy`, `http_proxy`, `all_proxy`, `no_proxy`), never for this machine.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._proxies = Proxies(environ)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ways: dict[str, _Way] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are open in this event loop; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    @asynccontextmanager
    async def post(self, post: Post) -> AsyncGenerator[Answer]:
        """Send `post` and give the answer's head; redirects are not followed, or the key would go along."""
        way = self._way(post.url)
        asking = self._running_session().post(
            way.url,
            data=post.body if len(post.body) <= LARGE else io.BytesIO(post.body),
            headers={**post.headers, **way.headers},
            proxy=way.proxy,
            proxy_headers=way.proxy_headers,
            allow_redirects=False,
            timeout=_timeout(post.deadlines),
        )
        try:
            response = await asking
        except (aiohttp.ClientError, OSError) as error:
            _raise_trouble(error, post)
        left_in_peace = False
        try:
            yield _HttpAnswer(response, post)
            left_in_peace = True
        finally:
            if left_in_peace and not response.content.at_eof():
                await _drain(response)
            response.close()

    def _running_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=KEEP_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=CHUNK,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    def _way(self, url: str) -> "_Way":
        way = self._ways.get(url)
        if way is None:
            way = self._ways[url] = self._proxies.way(url)
        return way


class _Way:
    """How a URL is reached, worked out once."""

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
            if urlsplit(url).scheme == "https":
                self.proxy_headers = authorization
            else:
                self.headers = authorization


class Proxies:
    """Which proxy leads to which URL, by the environment's usual names, small letters first."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._of = {
            word: environ.get(f"{word}_proxy") or environ.get(f"{word}_proxy".upper()) or ""
            for word in ("http", "https", "all", "no")
        }

    def way(self, url: str) -> _Way:
        """Return how `url` is reached; directly if it is on this machine or the environment excepts its host."""
        parts = urlsplit(url)
        proxy = self._of.get(parts.scheme) or self._of["all"]
        host = parts.hostname or ""
        return _Way(url, None if not proxy or self._excepts(host, parts.port) or is_loopback(host) else proxy)

    def _excepts(self, host: str, port: int | None) -> bool:
        """Tell whether `no_proxy` names `host`, with or without its port, or a domain it is in."""
        names = [name.strip().lower().lstrip(".") for name in self._of["no"].split(",")]
        return any(
            name in {"*", place} or place.endswith(f".{name}")
            for name in names
            if name
            for place in (host, f"{host}:{port}")
        )


def is_loopback(host: str) -> bool:
    """Tell whether `host`, a name or an address without brackets, is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class _HttpAnswer:
    """An answer of aiohttp's."""

    def __init__(self, response: aiohttp.ClientResponse, post: Post) -> None:
        self._response = response
        self._post = post
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return what has come, whatever its size; empty at the end."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            _raise_trouble(error, self._post)


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Wait a moment for the end of a body that is read already, so that its connection can be used again."""
    try:
        async with asyncio.timeout(END_S):
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


def _raise_trouble(error: aiohttp.ClientError | OSError, post: Post) -> NoReturn:
    """Raise what the failure means, with the URL and without secrets."""
    place = _shown(post.url)
    deadlines = post.deadlines
    transient = True
    match error:
        case aiohttp.ConnectionTimeoutError():
            what = f"{place} did not take a connection within {deadlines.connect_s:g} s."
        case aiohttp.SocketTimeoutError():
            what = f"{place} sent nothing for {deadlines.idle_s:g} s."
        case TimeoutError():
            what = f"The reply of {place} was not whole after {deadlines.total_s:g} s."
        case aiohttp.ClientConnectorDNSError():
            what = f"The name of {place} leads nowhere: {error.os_error.strerror or error.os_error}."
        case aiohttp.ClientSSLError():
            transient = False
            what = f"{place} cannot be trusted: {_certificate_problem(error)}."
        case aiohttp.ClientProxyConnectionError():
            what = f"The proxy on the way to {place} cannot be reached: {error.strerror}."
        case aiohttp.ClientHttpProxyError():
            transient = error.status >= 500
            what = f"The proxy on the way to {place} refused with HTTP status {error.status}."
        case aiohttp.InvalidURL():
            transient = False
            what = f"{place} is no address that can be asked."
        case aiohttp.ClientConnectorError():
            what = f"{place} cannot be reached: {_reason(error.os_error)}."
        case _:
            what = f"The connection to {place} broke."
    raise ModelTrouble(what, _FIX if transient else _FIX_FOR_GOOD, transient=transient) from error


_FIX = "Check the network, the base URL and, for a local server, that it runs; then ask again."
_FIX_FOR_GOOD = "Check the base URL, its certificate (SSL_CERT_FILE names your own authority) and the proxy's login."


def _reason(error: OSError) -> str:
    """Return what the system says; what asyncio says of it repeats the address."""
    return os.strerror(error.errno) if error.errno else error.strerror or f"{error}"


def _certificate_problem(error: aiohttp.ClientSSLError) -> str:
    said = getattr(error.os_error, "verify_message", "") or error.os_error.strerror
    return f"{said or error.os_error}"


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
