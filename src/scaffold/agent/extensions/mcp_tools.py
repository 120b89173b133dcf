"""The tools of MCP servers as an agent has them: all at once if they are few, else found by words."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.extensions.mcp.offers import Ask, OfferedTool, ServerPool

MAX_OFFERED_BYTES = 6_000
"""Of all definitions together; more of them are found by words instead of offered."""


def agent_tools(pool: ServerPool, offered: Sequence[OfferedTool], ask: Ask) -> tuple[Tool, ...]:
    """Return the tools, in an order that stays the same. None is called read-only, whatever its server says."""
    defers = sum(map(_size, offered)) > MAX_OFFERED_BYTES
    return tuple(_tool(pool, each, ask, defers=defers) for each in sorted(offered, key=lambda tool: tool.called))


def _tool(pool: ServerPool, offered: OfferedTool, ask: Ask, *, defers: bool) -> Tool:
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


def _size(tool: OfferedTool) -> int:
    return len(tool.called) + len(tool.description.encode()) + len(msgspec.json.encode(tool.schema))
