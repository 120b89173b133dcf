"""The user's logins at MCP servers: one for each name and address, with the tokens of all other logins."""

import hashlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.core.errors import ModelAccessDenied, UsageError
from scaffold.core.ports import Clock
from scaffold.extensions.mcp.authorize import LoginFailed, obtain_grant
from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.extensions.mcp.server_login import NO_LOGIN, LoginUnusable, ServerLogin, canonical, joined_scopes
from scaffold.host.browser import open_in_background
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import AccessToken, HttpClient
from scaffold.login.callback import CodeAnswer
from scaffold.login.callback_server import CallbackPlace, CallbackServer
from scaffold.login.keys import LoginKey, LoginKeys
from scaffold.login.names import LoginName, no_login_at_program
from scaffold.login.server_tokens import ServerTokenEndpoint, tokens_of_grant
from scaffold.login.stored_tokens import Logout, StoredTokens
from scaffold.login.tokens import UnusableGrant
from scaffold.policy.secret.redaction import learn_secrets
from scaffold.store.user_store import UserStore

CALLBACK_PATH = "/callback"
LITERAL = "127.0.0.1"
HASH_CHARS = 32


class AwaitedState:
    """Accepts the state of the one page that was shown; none before. Implements `callback.Expected`."""

    def __init__(self) -> None:
        self.state = ""

    def answers(self, state: str) -> bool:
        """Return whether a state is ours, in a time that does not depend on how much of it is right."""
        return bool(self.state) and secrets.compare_digest(self.state.encode(), state.encode(errors="replace"))


class _LoginPage:
    """Shows a page, and waits at a port of this machine. Implements `authorize.Browser`."""

    def __init__(self, server: CallbackServer, awaited: AwaitedState, show: Callable[[str], object]) -> None:
        self.redirect_uri = f"http://{LITERAL}:{server.port}{CALLBACK_PATH}"
        self._server = server
        self._awaited = awaited
        self._show = show

    def show(self, url: str, state: str) -> None:
        """Show a page to the user."""
        self._awaited.state = state
        self._show(url)

    async def answer(self) -> CodeAnswer:
        """Return what the browser brings back."""
        return await self._server.answer()


class _LoginAtServer:
    """The login at one server. Implements `logins.ServerLogin`."""

    def __init__(self, tokens: StoredTokens, is_there: Callable[[], bool]) -> None:
        self._tokens = tokens
        self._is_there = is_there

    async def current(self) -> str:
        """Return a token; empty without a login."""
        if not self._is_there():
            return ""
        try:
            return (await self._tokens.current()).token
        except ModelAccessDenied as error:
            raise LoginUnusable(error.what) from error

    async def renewed(self, refused: str) -> str:
        """Return a token in place of one that the server refused; empty if that one is new."""
        if not self._is_there():
            return ""
        try:
            found = await self._tokens.renewed(AccessToken(refused, ""))
        except ModelAccessDenied as error:
            raise LoginUnusable(error.what) from error
        return "" if found is None else found.token

    async def want(self, scope: str) -> bool:
        """Keep what the server asks for besides; return whether the present login lacks it."""
        if not self._is_there():
            return False
        try:
            tokens = await self._tokens.opened()
            if set(scope.split()) <= set(tokens.scope.split()):
                return False
            wanted = joined_scopes(tokens.scope, tokens.wanted, scope)
            if wanted != tokens.wanted:
                await self._tokens.want(wanted)
        except ModelAccessDenied:
            return False
        return True


class ServerLogins:
    """The logins of one user at all servers."""

    def __init__(
        self, user: UserStore, wire: HttpClient, environ: Mapping[str, str], *, clock: Clock, data: Path
    ) -> None:
        """Renew tokens with `wire`; `data` is the user's private data folder."""
        self._user = user
        self._wire = wire
        self._environ = environ
        self._clock = clock
        self._data = data

    def at(self, config: ServerConfig) -> ServerLogin:
        """Return the login at an expanded server, whether or not there is one."""
        if not config.takes_login:
            return NO_LOGIN
        name = login_name(config)
        return _LoginAtServer(self._tokens(name), lambda: self._user.logins.find(name.provider) is not None)

    async def log_in(self, config: ServerConfig, show: Callable[[str], object]) -> LoginKey:
        """Log in at an expanded server, and store what that brings; `show` receives the page to agree on.

        ModelAccessDenied, with what helps, if it fails; then whatever login there was stays.
        """
        name, url = login_name(config), canonical(config.url)
        tokens, awaited = self._tokens(name), AwaitedState()
        place = CallbackPlace(
            addresses=((socket.AF_INET, LITERAL),),
            port=config.oauth.callback_port,
            path=CALLBACK_PATH,
            command=name.command,
            elsewhere="`curl` the address that it ends at, on this machine.",
        )
        async with CallbackServer(awaited, place) as server:
            browser = _LoginPage(server, awaited, show)
            grant = await obtain_grant(config, browser, await self._wanted(tokens), learn_secrets)
        try:
            return await tokens.store(tokens_of_grant(grant, url, self._clock.now()))
        except UnusableGrant as error:
            raise LoginFailed(f"the login at MCP server {config.name} failed: {error}", "Tell who runs it.") from error

    async def log_out(self, config: ServerConfig) -> Logout | None:
        """Delete the login at an expanded server for good; None if there is none."""
        return await self._tokens(login_name(config)).log_out()

    async def _wanted(self, tokens: StoredTokens) -> str:
        try:
            return (await tokens.opened()).wanted
        except ModelAccessDenied:
            return ""

    def _tokens(self, name: LoginName) -> StoredTokens:
        keys = LoginKeys(self._data, self._environ, command=name.command)
        endpoint = ServerTokenEndpoint(self._wire, self._clock, name.command)
        return StoredTokens(self._user, keys, endpoint, clock=self._clock, data=self._data, name=name)


def login_name(config: ServerConfig) -> LoginName:
    """Return under which name the login at an expanded server is stored: with another address, it is another one."""
    digest = hashlib.sha256(canonical(config.url).encode()).hexdigest()[:HASH_CHARS]
    return LoginName(f"mcp:{config.name}:{digest}", f"ralph /mcp login {config.name}")


def require_login(config: ServerConfig) -> None:
    """Raise UsageError for a server that takes no logins."""
    if not config.url:
        raise no_login_at_program(config.name)
    if not config.takes_login:
        what = f"the entry of MCP server {config.name} has a token in its `headers`"
        raise UsageError(what, "Remove `Authorization` from the `headers` to log in instead.")


def show_page(url: str, tell: Callable[[str], object]) -> None:
    """Open a page in the browser, and tell the user where it is."""
    opened = open_in_background(url, os.environ)
    tell("A browser opens. If it does not, open this address:" if opened else "Open this address, and agree:")
    tell(url)
    tell(f"It comes back to {LITERAL}. If the browser is on another machine, `curl` the address that it ends at, here.")


@asynccontextmanager
async def open_logins(user: UserStore, environ: Mapping[str, str]) -> AsyncIterator[ServerLogins]:
    """Yield the logins in the user's database, with a connection of their own for renewals."""
    async with Transport(environ) as wire:
        yield ServerLogins(user, wire, environ, clock=SystemClock(), data=user_dirs().data)
