"""The MCP servers of this process: those that the files name, in a pool that other processes may reach."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

from scaffold.agent.mcp.access import ServerRow, ServersSetup
from scaffold.agent.mcp.opened import PoolTools, server_row
from scaffold.agent.model_access import open_user_store
from scaffold.core.printable_text import join_limited
from scaffold.core.tool import Tool
from scaffold.extensions.mcp.config import ServerFile, merged, read_servers
from scaffold.extensions.mcp.launch import ServerPlace
from scaffold.extensions.mcp.offers import ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, Withheld, tell_withheld
from scaffold.extensions.mcp.shared import serve_pool
from scaffold.store.user_store import UserStore

MAX_NAMED = 5
UNCONFINED = "programs of MCP servers run with workers in a sandbox only, and there is none"


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

    def __init__(self, pool: LocalPool, socket: Path | None, resources: AsyncExitStack) -> None:
        self.socket = socket
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

    async def close(self) -> None:
        """End them."""
        await self._resources.aclose()


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
        approvals = StoredApprovals(stack.enter_context(closing(open_user_store())))
        pool = LocalPool(
            found.servers,
            PoolSetup(
                place=place, approvals=approvals, tell=setup.tell, withheld=withheld or tell_withheld(setup.tell)
            ),
        )
        stack.push_async_callback(pool.close)
        if setup.socket is not None:
            await stack.enter_async_context(serve_pool(pool, setup.socket))
        return LocalServers(pool, setup.socket, stack.pop_all())
