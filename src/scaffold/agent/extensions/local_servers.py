"""The MCP servers of this process: those that the files name, in a pool that other processes may reach."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Protocol

from msgspec import structs

from scaffold.agent.extensions.connected_servers import PoolTools
from scaffold.agent.extensions.port import AgentExtensions, ServerRow
from scaffold.agent.extensions.setup import ExtensionSetup, ServerChoice
from scaffold.agent.model_access import open_user_store
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import join_limited
from scaffold.extensions.mcp.offers import ServerSummary, ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, Withheld, tell_withheld
from scaffold.extensions.mcp.server_config import ServerFile, merged, read_servers
from scaffold.extensions.mcp.shared_pool import serve_pool
from scaffold.extensions.mcp.stdio import ServerPlace
from scaffold.host.sandbox.confinement import built
from scaffold.host.startup import importing
from scaffold.login.state import no_login_at_program, no_login_here
from scaffold.store.user_store import UserStore

MAX_NAMED = 5
UNCONFINED = "workers run programs of MCP servers only in a sandbox, and no sandbox works here"


class LoginDialogs(Protocol):
    """The logins that the user begins and ends."""

    async def log_in(self, server: str, tell: Callable[[str], object] | None = None) -> str:
        """See `port.ServerControl`."""
        ...

    async def log_out(self, server: str) -> str:
        """See `port.ServerControl`."""
        ...

    async def close(self) -> None:
        """End those that wait."""
        ...


class StoredApprovals:
    """The user's approvals, in the user's database."""

    def __init__(self, store: UserStore) -> None:
        self._store = store

    def known(self, scope: str, program: str) -> Mapping[str, str]:
        """Return the digest of each approved tool, by whatever name its server had; empty if it was never used."""
        return self._store.mcp_approvals.known(scope, program)

    def approve(self, scope: str, server: str, program: str, digests: Mapping[str, str]) -> None:
        """Store approvals; one of the same tool replaces the earlier one."""
        with self._store.transaction():
            self._store.mcp_approvals.approve(scope, server, program, digests)


class LocalServers:
    """The servers of this process. Implements `port.ServerControl`."""

    def __init__(self, pool: LocalPool, socket: Path | None, logins: LoginDialogs | None) -> None:
        """`logins` is None if none of them takes logins."""
        self.socket = socket
        self._logins = logins
        self._pool = pool

    async def rows(self) -> Sequence[ServerRow]:
        """Return the state of each server."""
        return tuple(map(_server_row, await self._pool.overview()))

    def withheld(self, server: str) -> str:
        """Return the definitions of a server that need the user's approval, as text; empty if there are none."""
        return "\n\n".join(f"{name}: {text}" for name, text in self._pool.withheld(server).items())

    async def approve(self, server: str) -> int:
        """Approve them, and return how many there were."""
        return self._pool.approve(server)

    async def log_in(self, server: str, tell: Callable[[str], object] | None = None) -> str:
        """Let the user log in at a server, and return how that went, or, without `tell`, where to agree."""
        if self._logins is None:
            raise self._no_login(server)
        return await self._logins.log_in(server, tell)

    async def log_out(self, server: str) -> str:
        """Delete the login at a server, and return how that went."""
        if self._logins is None:
            raise self._no_login(server)
        return await self._logins.log_out(server)

    def _no_login(self, server: str) -> UsageError:
        return no_login_at_program(server) if server in self._pool.servers else no_login_here(server)


def _server_row(server: ServerSummary) -> ServerRow:
    parts: list[str] = [server.state]
    if server.state == "running":
        parts = [f"running, protocol {server.protocol}, {server.tools} tools"]
    if server.withheld:
        names = join_limited(server.withheld, MAX_NAMED)
        parts.append(f"withheld until you approve them with `/mcp approve {server.name}`: {names}")
    if server.error:
        parts.append(f"last error: {server.error}")
    if server.starts > 1:
        parts.append(f"started {server.starts} times")
    ok = server.state == "running" and not server.withheld
    return ServerRow(server.name, ok, f"{server.shown}: {'; '.join(parts)}")


def configured_servers(choice: ServerChoice, *, confined: bool) -> ServerFile:
    """Return the servers to start, and a line about each that cannot be; `confined` if commands have a sandbox."""
    found = merged({file.path: read_servers(file.content, file=file.path, scope=file.scope) for file in choice.files})
    if choice.needs_sandbox and not confined:
        found = ServerFile(
            tuple(server for server in found.servers if server.transport != "stdio"), (*found.notices, UNCONFINED)
        )
    if choice.only is None:
        return found
    named = tuple(server for server in found.servers if server.name in choice.only)
    missing = [name for name in choice.only if name not in {server.name for server in found.servers}]
    lost = (f"there is no MCP server {join_limited(missing, MAX_NAMED)} in your files",) if missing else ()
    return ServerFile(named, (*found.notices, *lost))


async def start_servers(
    setup: ExtensionSetup, choice: ServerChoice, withheld: Withheld | None = None
) -> AgentExtensions:
    """Start the servers; see `access.open_servers`."""
    found = configured_servers(choice, confined=setup.sandbox is not None)
    for notice in found.notices:
        setup.tell(notice)
    sandbox = await built(setup.sandbox)
    place = ServerPlace(cwd=setup.cwd, environ=setup.environ, sandbox=sandbox, writes=setup.writes)
    async with AsyncExitStack() as stack:
        user = stack.enter_context(closing(open_user_store()))
        pool_setup = PoolSetup(
            place=place,
            approvals=StoredApprovals(user),
            tell=setup.tell,
            withheld=withheld or tell_withheld(setup.tell),
        )
        dialogs: LoginDialogs | None = None
        # Logins need cryptography, which takes long to load, and are for servers with an address alone.
        if any(server.url for server in found.servers):
            with importing():
                from scaffold.login.server_logins import LoginCommands, open_logins
            logins = await stack.enter_async_context(open_logins(user, setup.environ))
            pool = LocalPool(found.servers, structs.replace(pool_setup, logins=logins.at))
            stack.push_async_callback(pool.close)
            dialogs = LoginCommands(pool, logins, setup.environ, setup.tell)
            stack.push_async_callback(dialogs.close)
        else:
            pool = LocalPool(found.servers, pool_setup)
            stack.push_async_callback(pool.close)
        if choice.socket is not None:
            await stack.enter_async_context(serve_pool(pool, choice.socket))
        return AgentExtensions(
            tools=PoolTools(pool, ask_nobody).now,
            servers=LocalServers(pool, choice.socket, dialogs),
            close=stack.pop_all().aclose,
        )
