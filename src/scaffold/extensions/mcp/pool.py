"""A pool of servers: started together, shared by all agents of a run or of a session, and ended together."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import join_limited, json_escaped, short_line
from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.offers import Ask, Definition, OfferedTool, ServerSummary
from scaffold.extensions.mcp.pooled_server import McpServer, no_logins
from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.extensions.mcp.server_login import ServerLogin
from scaffold.extensions.mcp.stdio import ServerPlace
from scaffold.extensions.mcp.tool_approvals import Approvals

SDK_LOGGERS = ("mcp", "httpx2", "httpcore2")
MAX_NAMED = 5
MAX_NAME_CHARS = 100

Withheld = Callable[[str, Mapping[str, str], Callable[[], None]], object]
"""Receives a server, a text about each of its tools that need an approval, by name, and what approves them."""


class PoolSetup(Struct, frozen=True, kw_only=True):
    """What a pool works with."""

    place: ServerPlace
    approvals: Approvals
    tell: Callable[[str], object]
    """Takes a line for the user."""
    withheld: Withheld
    logins: Callable[[ServerConfig], ServerLogin] = no_logins
    """Returns the login at an expanded server with an address."""


def tell_withheld(tell: Callable[[str], object]) -> Withheld:
    """Return what tells the user how to approve."""

    def withheld(server: str, tools: Mapping[str, str], _approve: Callable[[], None]) -> None:
        names = join_limited(tuple(tools), MAX_NAMED)
        tell(
            f"MCP server {server} has new or changed tools, which are withheld: {names}; "
            f"`/mcp show {server}` shows them, `/mcp approve {server}` approves them"
        )

    return withheld


class LocalPool:
    """Servers of this process. Implements `offers.ServerPool`."""

    def __init__(self, configs: Sequence[ServerConfig], setup: PoolSetup) -> None:
        """Start them all."""
        for name in SDK_LOGGERS:
            # Servers decide what the SDK logs; what matters is in our own lines.
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())

        def pass_on(server: McpServer) -> None:
            tools = server.sorted.withheld
            setup.withheld(server.config.name, _printable_definitions(tools), partial(server.approve, tools))

        self.servers = {
            config.name: McpServer(config, setup.place, setup.approvals, setup.tell, pass_on, logins=setup.logins)
            for config in configs
        }

    async def tools(self) -> tuple[OfferedTool, ...]:
        """Return the approved tools, once each server has started or failed; one that has ended keeps its tools.

        Otherwise its end and its restart would each cost the provider's cache.
        """
        for server in self.servers.values():
            await server.settled()
        return tuple(tool for server in self.servers.values() for tool in server.tools)

    async def call(self, tool: OfferedTool, args: Mapping[str, Any], ask: Ask) -> ToolOutput:
        """Call a tool."""
        server = self.servers.get(tool.server)
        if server is None:
            return ToolOutput(f"There is no MCP server {tool.server}.", failed=True)
        return await server.call(tool, args, ask)

    async def overview(self) -> tuple[ServerSummary, ...]:
        """Return the state of each server, once it has started or failed."""
        for server in self.servers.values():
            await server.settled()
        return tuple(server.summary for server in self.servers.values())

    def withheld(self, server: str) -> Mapping[str, str]:
        """Return the definitions of a server that need the user's approval, as texts by the name of the tool."""
        return _printable_definitions(self.servers[server].shown()) if server in self.servers else {}

    def approve(self, server: str) -> int:
        """Approve them, but for those that have changed since they were shown; return how many there are."""
        return self.servers[server].approve_shown() if server in self.servers else 0

    async def restart(self, server: str) -> None:
        """Start a server again, and wait until it has started or failed."""
        if server in self.servers:
            await self.servers[server].restart()

    async def close(self) -> None:
        """End them all."""
        async with asyncio.TaskGroup() as group:
            for server in self.servers.values():
                group.create_task(server.close())


def _printable_definitions(tools: Sequence[Definition]) -> Mapping[str, str]:
    # Without invisible characters: the user decides by what they see. Names that look the same hide no definition.
    shown: dict[str, str] = {}
    for each in tools:
        name = short_line(each.name, MAX_NAME_CHARS)
        text = json_escaped(f"{each.description}\n{msgspec.json.encode(each.schema).decode()}")
        shown[name] = f"{shown[name]}\n\n{text}" if name in shown else text
    return shown
