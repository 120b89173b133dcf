"""The MCP servers of this process: those that the files name, in a pool that other processes may reach."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, Protocol

from scaffold.agent.extensions.connected_servers import PoolTools, server_row
from scaffold.agent.extensions.server_access import ServerRow, ServersSetup
from scaffold.agent.model_access import open_user_store
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import join_limited
from scaffold.core.tool import Tool
from scaffold.extensions.mcp.offers import ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, Withheld, tell_withheld
from scaffold.extensions.mcp.pooled_server import no_logins
from scaffold.extensions.mcp.server_command import ServerPlace
from scaffold.extensions.mcp.server_config import ServerFile, merged, read_servers
from scaffold.extensions.mcp.shared_pool import serve_pool
from scaffold.host.startup import lazy_import
from scaffold.login.names import no_login_at_program, no_login_here
from scaffold.store.user_store import UserStore

MAX_NAMED = 5
OPEN_LOGINS = "scaffold.login.server_logins:open_logins"
LOGIN_COMMANDS = "scaffold.login.login_commands:LoginCommands"
"""Both need cryptography, which takes long to load, and are for servers with an address alone."""
UNCONFINED = "programs of MCP servers run with workers in a sandbox only, and there is none"


class LoginDialogs(Protocol):
    """The logins that the user begins and ends."""

    async def log_in(self, server: str, tell: Callable[[str], object] | None = None) -> str:
        """See `AgentServers`."""
        ...

    async def log_out(self, server: str) -> str:
        """See `AgentServers`."""
        ...

    async def close(self) -> None:
        """End those that wait."""
        ...


class StoredApprovals:
    """The user's approvals, in the user's database."""

    def __init__(self, store: UserStore) -> None:
        self._store = store

    def known(self, scope: str, server: str, program: str) -> Mapping[str, str]:
        """Return the digest of each approved tool; empty if the server was never used."""
        return self._store.mcp_approvals.known(scope, server, program)

    def approve(self, scope: str, server: str, program: str, digests: Mapping[str, str]) -> None:
        """Store approvals; one of the same tool replaces the earlier one."""
        with self._store.transaction():
            self._store.mcp_approvals.approve(scope, server, program, digests)


class LocalServers:
    """The servers of this process. Implements `access.AgentServers`."""

    trouble = ""

    def __init__(
        self, pool: LocalPool, socket: Path | None, logins: LoginDialogs | None, resources: AsyncExitStack
    ) -> None:
        """`logins` is None if none of them takes logins."""
        self.socket = socket
        self._logins = logins
        self._pool = pool
        self._resources = resources
        self._tools = PoolTools(pool, ask_nobody)

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools they offer now, not gated."""
        return await self._tools.tools()

    async def rows(self) -> Sequence[ServerRow]:
        """Return how they fare."""
        return tuple(map(server_row, await self._pool.overview()))

    def withheld(self, server: str) -> str:
        """Return the definitions of a server that need the user's approval, as text; empty if there are none."""
        return "\n\n".join(f"{name}: {text}" for name, text in self._pool.withheld(server).items())

    async def approve(self, server: str) -> int:
        """Approve them, and return how many there were."""
        count = len(self._pool.withheld(server))
        self._pool.approve(server)
        return count

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

    async def close(self) -> None:
        """End them."""
        await self._resources.aclose()

    def _no_login(self, server: str) -> UsageError:
        return no_login_at_program(server) if server in self._pool.servers else no_login_here(server)


def configured_servers(setup: ServersSetup) -> ServerFile:
    """Return the servers of the files that are to be started, and a line about each entry that cannot be."""
    found = merged({file.path: read_servers(file.content, file=file.path, scope=file.scope) for file in setup.files})
    if setup.needs_sandbox and setup.sandbox is None:
        found = ServerFile(
            tuple(server for server in found.servers if server.transport != "stdio"), (*found.notices, UNCONFINED)
        )
    if setup.only is None:
        return found
    named = tuple(server for server in found.servers if server.name in setup.only)
    missing = [name for name in setup.only if name not in {server.name for server in found.servers}]
    lost = (f"there is no MCP server {join_limited(missing, MAX_NAMED)} in your files",) if missing else ()
    return ServerFile(named, (*found.notices, *lost))


async def open_pool(setup: ServersSetup, withheld: Withheld | None = None) -> LocalServers:
    """Start the servers; `withheld` receives tools that need an approval, instead of a line for the user."""
    found = configured_servers(setup)
    for notice in found.notices:
        setup.tell(notice)
    place = ServerPlace(cwd=setup.cwd, environ=setup.environ, sandbox=setup.sandbox, writes=setup.writes)
    async with AsyncExitStack() as stack:
        user = stack.enter_context(closing(open_user_store()))
        logins: Any = None
        if any(server.url for server in found.servers):
            logins = await stack.enter_async_context(lazy_import(OPEN_LOGINS)(user, setup.environ))
        pool = LocalPool(
            found.servers,
            PoolSetup(
                place=place,
                approvals=StoredApprovals(user),
                tell=setup.tell,
                withheld=withheld or tell_withheld(setup.tell),
                logins=no_logins if logins is None else logins.at,
            ),
        )
        stack.push_async_callback(pool.close)
        commands: LoginDialogs | None = None
        if logins is not None:
            commands = lazy_import(LOGIN_COMMANDS)(pool, logins, setup.environ, setup.tell)
            stack.push_async_callback(commands.close)
        if setup.socket is not None:
            await stack.enter_async_context(serve_pool(pool, setup.socket))
        return LocalServers(pool, setup.socket, commands, stack.pop_all())
