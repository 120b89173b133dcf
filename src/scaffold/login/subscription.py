"""The login with a subscription: by a code that the browser brings back, or on another device."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

from scaffold.core.ports import Clock
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import HttpClient
from scaffold.login.device import DeviceAuthorization, DeviceCode
from scaffold.login.keys import LoginKey, LoginKeys
from scaffold.login.provider import codex_provider
from scaffold.login.stored_tokens import StoredTokens
from scaffold.login.token_endpoint import TokenEndpoint
from scaffold.login.tokens import Tokens
from scaffold.store.user_store import UserStore, user_database


class SubscriptionTokens(StoredTokens):
    """The tokens of the user's login with a subscription, and the ways to them."""

    def __init__(
        self,
        user: UserStore,
        keys: LoginKeys,
        endpoint: TokenEndpoint,
        device: DeviceAuthorization,
        *,
        clock: Clock,
        data: Path,
    ) -> None:
        """Read them from `user`; `data` is the user's private data folder."""
        super().__init__(user, keys, endpoint, clock=clock, data=data)
        self._exchange = endpoint.exchange
        self._device = device

    async def log_in(self, code: str, verifier: str) -> tuple[Tokens, LoginKey]:
        """Exchange a code and store the tokens with their own key; GrantRefused, ModelError or KeyTrouble."""
        tokens = await self._exchange(code, verifier)
        return tokens, await self.store(tokens)

    async def log_in_by_device(self, show: Callable[[DeviceCode], None]) -> tuple[Tokens, LoginKey]:
        """Show a code, wait until the user has entered it elsewhere, and store the tokens; raises as `log_in`."""
        code = await self._device.begin()
        show(code)
        grant = await self._device.grant(code)
        tokens = await self._exchange(grant.code, grant.verifier, grant.redirect_uri)
        return tokens, await self.store(tokens)


def open_tokens(user: UserStore, wire: HttpClient, environ: Mapping[str, str]) -> SubscriptionTokens:
    """Return the tokens in the user's database; UsageError if the environment names an unusable server."""
    data, clock = user_dirs().data, SystemClock()
    provider = codex_provider(environ)
    endpoint, device = TokenEndpoint(provider, wire, clock), DeviceAuthorization(provider, wire)
    return SubscriptionTokens(user, LoginKeys(data, environ), endpoint, device, clock=clock, data=data)


@asynccontextmanager
async def connect_login() -> AsyncIterator[SubscriptionTokens]:
    """Yield the tokens in the user's database, with a connection of their own; raises as `open_tokens` does."""
    with closing(UserStore.open(user_database(user_dirs().data), clock=SystemClock())) as user:
        async with Transport(os.environ) as wire:
            yield open_tokens(user, wire, os.environ)
