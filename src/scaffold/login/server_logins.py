"""The user's logins at MCP servers: one for each name and address, with the tokens of all other logins."""

import asyncio
import hashlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from scaffold.core.errors import ModelAccessDenied, ScaffoldError, UsageError
from scaffold.core.ports import Clock
from scaffold.extensions.mcp.authorize import LoginFailed, obtain_grant
from scaffold.extensions.mcp.pool import LocalPool
from scaffold.extensions.mcp.server_config import MissingVariable, ServerConfig, expanded
from scaffold.extensions.mcp.server_login import NO_LOGIN, LoginUnusable, ServerLogin, canonical, joined_scopes
from scaffold.extensions.mcp.web import origin_of, own_origins
from scaffold.host.browser import open_in_background
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import AccessToken, HttpClient
from scaffold.login.callback import CodeAnswer
from scaffold.login.callback_server import CallbackPlace, CallbackServer
from scaffold.login.keys import LoginKey, LoginKeys
from scaffold.login.server_tokens import ServerTokenEndpoint, tokens_of_grant
from scaffold.login.state import LoginName, no_login_at_program, no_login_here
from scaffold.login.stored_tokens import Logout, StoredTokens
from scaffold.login.tokens import UnusableGrant
from scaffold.policy.secret.redaction import learn_secrets
from scaffold.store.user_store import UserStore

Tell = Callable[[str], object]


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
        self._stored_tokens = tokens
        self._is_there = is_there

    async def current(self) -> str:
        """Return a token; empty without a login."""
        if not self._is_there():
            return ""
        try:
            return (await self._stored_tokens.current()).token
        except ModelAccessDenied as error:
            raise LoginUnusable(error.what) from error

    async def renewed(self, refused: str) -> str:
        """Return a token in place of one that the server refused; empty if that one is new."""
        if not self._is_there():
            return ""
        try:
            found = await self._stored_tokens.renewed(AccessToken(refused, ""))
        except ModelAccessDenied as error:
            raise LoginUnusable(error.what) from error
        return "" if found is None else found.token

    async def want(self, scope: str) -> bool:
        """Store a further scope that the server asks for; return whether this login lacks it."""
        if not self._is_there():
            return False
        try:
            tokens = await self._stored_tokens.opened()
            if set(scope.split()) <= set(tokens.scope.split()):
                return False
            wanted = joined_scopes(tokens.scope, tokens.wanted, scope)
            if wanted != tokens.wanted:
                await self._stored_tokens.want(wanted)
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
        return _LoginAtServer(self._stored_tokens(config), lambda: self._user.logins.find(name.provider) is not None)

    async def log_in(self, config: ServerConfig, show: Callable[[str], object]) -> LoginKey:
        """Log in at an expanded server, and store what that brings; `show` receives the page to agree on.

        ModelAccessDenied, with what helps, if it fails; then whatever login there was stays.
        """
        name, url = login_name(config), canonical(config.url)
        tokens, awaited, wanted = self._stored_tokens(config), AwaitedState(), ""
        with suppress(ModelAccessDenied):  # no earlier login
            wanted = (await tokens.opened()).wanted
        place = CallbackPlace(
            addresses=((socket.AF_INET, LITERAL),),
            port=config.oauth.callback_port,
            path=CALLBACK_PATH,
            command=name.command,
            elsewhere="`curl` the address that it ends at, on this machine.",
        )
        async with CallbackServer(awaited, place) as server:
            browser = _LoginPage(server, awaited, show)
            grant = await obtain_grant(config, browser, wanted, learn_secrets)
        try:
            return await tokens.store(tokens_of_grant(grant, url, self._clock.now()))
        except UnusableGrant as error:
            raise LoginFailed(f"the login at MCP server {config.name} failed: {error}", "Tell who runs it.") from error

    async def log_out(self, config: ServerConfig) -> Logout | None:
        """Delete the login at an expanded server for good; None if there is none."""
        return await self._stored_tokens(config).log_out()

    def _stored_tokens(self, config: ServerConfig) -> StoredTokens:
        name, own = login_name(config), own_origins(config)
        keys = LoginKeys(self._data, self._environ, command=name.command)
        endpoint = ServerTokenEndpoint(self._wire, self._clock, name.command, own=lambda url: origin_of(url) in own)
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


class LoginCommands:
    """The logins that the user begins and ends in this process."""

    def __init__(self, pool: LocalPool, logins: ServerLogins, environ: Mapping[str, str], tell: Tell) -> None:
        """`tell` receives the result of a login in the background."""
        self._tell = tell
        self._pool = pool
        self._logins = logins
        self._environ = environ
        self._open: dict[str, asyncio.Task[str]] = {}

    async def log_in(self, server: str, tell: Tell | None = None) -> str:
        """Let the user log in, and return how that went, or, without `tell`, what to do on the page."""
        config = self._expanded_config(server)
        if (earlier := self._open.pop(server, None)) is not None:
            earlier.cancel()
            await asyncio.wait([earlier])  # it may have the port
        if tell is not None:
            return await self._log_in(config, tell)
        lines: list[str] = []
        shown = asyncio.Event()

        def show(line: str) -> None:
            lines.append(line)
            shown.set()

        task = self._open[server] = asyncio.create_task(self._log_in(config, show))
        seen = asyncio.create_task(shown.wait())
        await asyncio.wait((task, seen), return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
        if not shown.is_set():
            return await task
        task.add_done_callback(lambda done: self._tell_end(server, done))
        return "\n".join((*lines, "A line says when you are logged in."))

    async def log_out(self, server: str) -> str:
        """Delete the login for good, after asking the server to revoke it."""
        done = await self._logins.log_out(self._expanded_config(server))
        if done is None:
            return f"You were not logged in at {server}."
        await self._pool.restart(server)
        revoked = "" if done.revoked else " The server did not confirm that it revoked them."
        left = f" {done.left}" if done.left else ""
        return f"Logged out at {server}: the tokens and their key are deleted from this machine.{revoked}{left}"

    async def close(self) -> None:
        """End the logins that wait."""
        waiting = list(self._open.values())
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)

    async def _log_in(self, config: ServerConfig, tell: Tell) -> str:
        key = await self._logins.log_in(config, lambda url: show_page(url, tell))
        await self._pool.restart(config.name)
        place = {"keyring": "in the keyring of this system", "passphrase": "derived from your passphrase"}
        where = place.get(key.place, "in a private file of yours (docs/login.md says what that is worth)")
        return f"Logged in at {config.name}. The tokens are stored encrypted; their key is {where}."

    def _tell_end(self, server: str, done: asyncio.Task[str]) -> None:
        self._open.pop(server, None) if self._open.get(server) is done else None
        if done.cancelled():
            return
        match done.exception():
            case None:
                self._tell(done.result())
            case ScaffoldError() as error:
                self._tell(error.in_full)
            case error:
                self._tell(f"The login at {server} failed: {type(error).__name__}")

    def _expanded_config(self, server: str) -> ServerConfig:
        found = self._pool.servers.get(server)
        if found is None:
            raise no_login_here(server)
        try:
            config = expanded(found.config, self._environ)
        except MissingVariable as missing:
            raise UsageError(f"MCP server {server}: {missing}", "Set it, and repeat the command.") from missing
        require_login(config)
        return config


CALLBACK_PATH = "/callback"
LITERAL = "127.0.0.1"
HASH_CHARS = 32
