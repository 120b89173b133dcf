"""The tools of a pool of MCP servers, in this process or in another one. Imports nothing of the protocol's SDK."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scaffold.agent.extensions.port import AgentExtensions
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.extensions.mcp.offers import Ask, OfferedTool, ServerPool, ask_nobody
from scaffold.extensions.mcp.shared_pool import RemotePool

MAX_OFFERED_BYTES = 6_000  # of all definitions together; more of them are found by words instead of offered


class PoolTools:
    """The tools of a pool for one agent; rebuilt only when they change."""

    def __init__(self, pool: ServerPool, ask: Ask, unreachable: Callable[[str], object] = lambda _error: None) -> None:
        """`unreachable` receives the error when the pool is not reached."""
        self._pool = pool
        self._ask = ask
        self._unreachable = unreachable
        self._offered: tuple[OfferedTool, ...] | None = None
        self._tools: tuple[Tool, ...] = ()

    async def now(self) -> tuple[Tool, ...]:
        """Return the tools that the pool offers now; the same object until they change, or while it is gone."""
        try:
            offered = await self._pool.tools()
        except (OSError, ValueError) as error:
            self._unreachable(str(error))
            return self._tools
        if offered != self._offered:
            self._offered, self._tools = offered, agent_tools(self._pool, offered, self._ask)
        return self._tools


def connect_pool(socket: Path, ask: Ask | None, unreachable: Callable[[str], object]) -> AgentExtensions:
    """Return the servers of the process that serves `socket`, and ends them; see `access.connect_servers`."""
    return AgentExtensions(tools=PoolTools(RemotePool(socket), ask or ask_nobody, unreachable).now)


def agent_tools(pool: ServerPool, offered: Sequence[OfferedTool], ask: Ask) -> tuple[Tool, ...]:
    """Return the tools, in an order that stays the same. None is called read-only, whatever its server says."""
    sizes = (
        len(each.called) + len(each.description.encode()) + len(msgspec.json.encode(each.schema)) for each in offered
    )
    defers = sum(sizes) > MAX_OFFERED_BYTES
    return tuple(_agent_tool(pool, each, ask, defers=defers) for each in sorted(offered, key=lambda tool: tool.called))


def _agent_tool(pool: ServerPool, offered: OfferedTool, ask: Ask, *, defers: bool) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return await pool.call(offered, args, ask)

    group = ToolGroup(offered.called, offered.name, family=f"MCP server {offered.server}")
    return Tool(
        name=offered.called,
        description=f"{offered.description} (from the MCP server {offered.server})",
        schema=offered.schema,
        category="mcp",
        run=run,
        group=group if defers else None,
    )
