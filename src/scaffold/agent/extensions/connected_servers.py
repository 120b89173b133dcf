"""The tools of a pool of MCP servers, in this process or in another one. Imports nothing of the protocol's SDK."""

from collections.abc import Callable, Sequence
from pathlib import Path

from scaffold.agent.extensions.mcp_tools import agent_tools
from scaffold.agent.extensions.server_access import ServerRow
from scaffold.core.printable_text import join_limited
from scaffold.core.tool import Tool
from scaffold.extensions.mcp.offers import Ask, OfferedTool, ServerPool, ServerSummary
from scaffold.extensions.mcp.shared_pool import RemotePool
from scaffold.login.names import no_login_here

MAX_NAMED = 5


class PoolTools:
    """The tools of a pool, as one agent has them; made anew only when they change."""

    def __init__(self, pool: ServerPool, ask: Ask) -> None:
        self._pool = pool
        self._ask = ask
        self._offered: tuple[OfferedTool, ...] | None = None
        self._tools: tuple[Tool, ...] = ()
        self.trouble = ""
        """Why the pool was not reached the last time; empty if it always was."""

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the pool offers now; the same object until they change, or while it is gone."""
        try:
            offered = await self._pool.tools()
        except (OSError, ValueError) as error:
            self.trouble = str(error)
            return self._tools
        if offered != self._offered:
            self._offered, self._tools = offered, agent_tools(self._pool, offered, self._ask)
        return self._tools


class ConnectedServers:
    """The servers of another process. Implements `access.AgentServers`."""

    def __init__(self, socket: Path, ask: Ask) -> None:
        self.socket: Path | None = socket
        self._pool = RemotePool(socket)
        self._tools = PoolTools(self._pool, ask)

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools they offer now, not gated; without any, `trouble` may say why."""
        return await self._tools.tools()

    @property
    def trouble(self) -> str:
        """Why the other process was not reached the last time; empty if it always was."""
        return self._tools.trouble

    async def rows(self) -> Sequence[ServerRow]:
        """Return how they fare."""
        return tuple(map(server_row, await self._pool.overview()))

    def withheld(self, _server: str) -> str:
        """Return nothing: the process that has the servers asks for approvals."""
        return ""

    async def approve(self, _server: str) -> int:
        """Do nothing, likewise."""
        return 0

    async def log_in(self, server: str, _tell: Callable[[str], object] | None = None) -> str:
        """Raise UsageError, likewise."""
        raise no_login_here(server)

    async def log_out(self, server: str) -> str:
        """Raise UsageError, likewise."""
        raise no_login_here(server)

    async def close(self) -> None:
        """Do nothing: the other process ends them."""


async def connect_pool(socket: Path, ask: Ask) -> ConnectedServers:
    """Return the servers of the process that serves `socket`."""
    return ConnectedServers(socket, ask)


def server_row(server: ServerSummary) -> ServerRow:
    """Return a line about a server."""
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
