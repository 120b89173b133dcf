"""The streams of a server with an address: no answer is held without a bound, whatever its length claims to be."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any, Protocol

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.printable_text import short_line
from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.extensions.mcp.server_login import NO_LOGIN, LoginUnusable, ServerLogin, login_line
from scaffold.extensions.program_output import MAX_MESSAGE_BYTES
from scaffold.policy.rule.hosts import admitted_addresses, is_public

CONNECT_S = 10.0
READ_S = 300.0
MAX_CONNECTIONS = 20
MAX_ADDRESSES = 4
"""Of a host, to be tried one after the other."""
MAX_CHALLENGE_CHARS = 10_000
_INSUFFICIENT = re.compile(r'\berror="?insufficient_scope\b')
_SCOPE = re.compile(r'\bscope="([\x20-\x7e]{1,1000}?)"')


class AnswerTooLarge(httpx2.StreamError):
    """An answer has more bytes than we take."""

    def __init__(self) -> None:
        super().__init__(f"its answer is larger than {MAX_MESSAGE_BYTES >> 20} MB")


class LoginNeeded(httpx2.ProtocolError):
    """The server knows nobody who asks like this; the text says what helps, as a clause."""


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer; in a stream of events only each event is bounded."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._body:
            taken += len(chunk)
            if taken > MAX_MESSAGE_BYTES:
                raise AnswerTooLarge
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._body.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Refuses answers that are too large, and compressed ones, whose size cannot be known before."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("its answer is compressed, although that was not accepted")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedBody(response.stream)
        return response


Origin = tuple[str, str, int | None]
"""Scheme, host and port; the port that a scheme has by default is None."""


def origin_of(url: httpx2.URL | str) -> Origin:
    """Return the origin of a URL."""
    parts = httpx2.URL(url)
    return parts.scheme, parts.host, parts.port


def own_origins(config: ServerConfig) -> frozenset[Origin]:
    """Return the origins that the user named for logins at an expanded server; UsageError if one is not valid."""
    try:
        return frozenset(map(origin_of, (config.url, *config.oauth.origins)))
    except httpx2.InvalidURL as error:
        what = f"an address of the MCP server {config.name} is not valid: {short_line(str(error), 100)}"
        raise UsageError(what, "Correct `url` or `oauth.origins` of its entry.") from error


class LoginTransport(BoundedTransport):
    """Connects to origins that the user named, and else to public addresses alone: a server names what it wants."""

    def __init__(self, own: Container[Origin]) -> None:
        # No connection is kept: one to an address could be used for another name that has it.
        super().__init__(limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0))
        self._own = own

    async def addresses(self, url: httpx2.URL) -> Sequence[str]:
        """Return what to connect to for a URL; LocalAddress if that is neither public nor named by the user."""
        if origin_of(url) in self._own:
            return [url.host]
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = await admitted_addresses(url.host, port, admits=is_public)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"{short_line(url.host, 100)} cannot be resolved") from error
        return list(dict.fromkeys(address for _, _, address in found))[:MAX_ADDRESSES]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address that can be reached; its name still counts for TLS and `Host`."""
        failed: httpx2.TransportError = httpx2.ConnectError("it has no address")
        more: dict[str, Any] = {"headers": request.headers, "stream": request.stream}
        more["extensions"] = {**request.extensions, "sni_hostname": request.url.host}
        for address in await self.addresses(request.url):
            url = request.url.copy_with(host=address)
            try:
                return await super().handle_async_request(httpx2.Request(request.method, url, **more))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failed = error
        raise failed


class Refusals(Protocol):
    """Learns that a server wants a login, or more of one."""

    def needs_login(self, line: str) -> None:
        """Take why no further request makes sense."""
        ...

    def needs_scope(self, line: str) -> None:
        """Take what would help a call that the server refuses."""
        ...


class _LoginAuth(httpx2.Auth):
    """Adds the token of the user's login to the requests for one server; no browser is ever opened here."""

    def __init__(self, config: ServerConfig, login: ServerLogin, refusals: Refusals) -> None:
        self._config = config
        self._login = login
        self._refusals = refusals
        self._origin = origin_of(config.url)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request, and once more after a 401 if there is a newer token."""
        # Whatever redirects there are: a token is for the server that the entry names.
        token = await self._get_token(self._login.current()) if origin_of(request.url) == self._origin else ""
        response = yield _with_token(request, token)
        if response.status_code == HTTPStatus.UNAUTHORIZED and token:
            if not (fresh := await self._get_token(self._login.renewed(token))):
                raise self._login_needed("the server no longer accepts it")
            response = yield _with_token(request, fresh)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            raise self._login_needed("the server does not accept the one there is" if token else "")
        if response.status_code == HTTPStatus.FORBIDDEN and token:
            await self._note_scope(response)

    async def _get_token(self, asked: Awaitable[str]) -> str:
        try:
            return await asked
        except LoginUnusable as error:
            raise self._login_needed(str(error)) from error
        except ScaffoldError as error:
            raise httpx2.TransportError(error.what) from error

    def _login_needed(self, why: str) -> LoginNeeded:
        line = login_line(self._config.name, why)
        if not self._config.takes_login:
            line = "it wants a login (401 Unauthorized): name a valid token in its `headers`"
        self._refusals.needs_login(line)
        return LoginNeeded(line)

    async def _note_scope(self, response: httpx2.Response) -> None:
        challenge = response.headers.get("www-authenticate", "")[:MAX_CHALLENGE_CHARS]
        scope = _SCOPE.search(challenge)
        if _INSUFFICIENT.search(challenge) is None or scope is None:
            return
        shown = short_line(scope[1], 100)
        if await self._login.want(scope[1]):
            line = f"`ralph /mcp login {self._config.name}` asks for the rights that it takes: {shown}"
        else:
            line = f"the login has the rights that the server names ({shown}), and it refuses nevertheless"
        self._refusals.needs_scope(line)


def _with_token(request: httpx2.Request, token: str) -> httpx2.Request:
    if token:
        request.headers["authorization"] = f"Bearer {token}"
    return request


def address_client(
    headers: Mapping[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    *,
    transport: BoundedTransport | None = None,
) -> httpx2.AsyncClient:
    """Return a client whose answers are bounded."""
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS)
    return httpx2.AsyncClient(
        headers=dict(headers or {}),
        timeout=timeout or httpx2.Timeout(CONNECT_S, read=READ_S),
        auth=auth,
        transport=transport or BoundedTransport(limits=limits),
        trust_env=False,
    )


def address_streams(config: ServerConfig, login: ServerLogin, refusals: Refusals) -> AbstractAsyncContextManager[Any]:
    """Return the streams of an expanded server with an address, for the SDK's client."""
    auth = _LoginAuth(config, login if config.takes_login else NO_LOGIN, refusals)
    if config.transport == "sse":
        return sse_client(
            config.url,
            headers=dict(config.headers),
            timeout=CONNECT_S,
            sse_read_timeout=READ_S,
            auth=auth,
            httpx_client_factory=address_client,
        )
    return _http_streams(config, auth)


@asynccontextmanager
async def _http_streams(config: ServerConfig, auth: httpx2.Auth) -> AsyncIterator[Any]:
    async with (
        address_client(config.headers, auth=auth) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams
