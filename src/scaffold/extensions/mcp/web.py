"""The streams of a server with an address: no answer is held without a bound, whatever its length claims to be."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from scaffold.extensions.mcp.config import ServerConfig
from scaffold.extensions.plugins.frames import MAX_MESSAGE_BYTES

CONNECT_S = 10.0
READ_S = 300.0
MAX_CONNECTIONS = 20


class AnswerTooLarge(httpx2.StreamError):
    """An answer has more bytes than we take."""

    def __init__(self) -> None:
        super().__init__(f"its answer is larger than {MAX_MESSAGE_BYTES >> 20} MB")


class LoginNeeded(httpx2.ProtocolError):
    """The server knows nobody who asks like this."""

    def __init__(self) -> None:
        super().__init__("it wants a login (401 Unauthorized): name a valid token in its `headers`")


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer; a stream of events has no bound but that of each event."""

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


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Refuses answers that are too large, and compressed ones, whose size cannot be known before."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            await response.aclose()
            raise LoginNeeded
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("its answer is compressed, although that was not accepted")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedBody(response.stream)
        return response


def _client(
    headers: Mapping[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS)
    return httpx2.AsyncClient(
        headers=dict(headers or {}),
        timeout=timeout or httpx2.Timeout(CONNECT_S, read=READ_S),
        auth=auth,
        transport=_BoundedTransport(limits=limits),
        trust_env=False,
    )


def address_streams(config: ServerConfig) -> AbstractAsyncContextManager[Any]:
    """Return the streams of an expanded server with an address, for the SDK's client."""
    if config.transport == "sse":
        return sse_client(
            config.url,
            headers=dict(config.headers),
            timeout=CONNECT_S,
            sse_read_timeout=READ_S,
            httpx_client_factory=_client,
        )
    return _http_streams(config)


@asynccontextmanager
async def _http_streams(config: ServerConfig) -> AsyncIterator[Any]:
    async with (
        _client(config.headers) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams
