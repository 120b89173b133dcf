"""Requests with the token of a login, which is renewed before it expires, and once when the server refuses it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from scaffold.llm.transport.live_context import AccessToken, HttpClient, HttpRequest, HttpResponse, TokenSource

UNAUTHORIZED = 401


class LoginClient:
    """An HttpClient whose POST requests carry the token of a login."""

    def __init__(self, wire: HttpClient, login: TokenSource) -> None:
        self._wire = wire
        self._login = login

    @asynccontextmanager
    async def post(self, post: HttpRequest) -> AsyncGenerator[HttpResponse]:
        """Send the request, and once more with a newer token if the server refuses the first one."""
        token = await self._login.current()
        async with self._wire.post(_authorized(post, token)) as response:
            newer = await self._login.renewed(token) if response.status == UNAUTHORIZED else None
            if newer is None:
                yield response
                return
        async with self._wire.post(_authorized(post, newer)) as response:
            yield response

    def get(self, asked: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for what is at a URL, without a token."""
        return self._wire.get(asked)


def _authorized(post: HttpRequest, token: AccessToken) -> HttpRequest:
    headers = {"Authorization": f"Bearer {token.token}", "chatgpt-account-id": token.account}
    return msgspec.structs.replace(post, headers={**post.headers, **headers})
