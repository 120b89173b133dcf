"""The MCP servers that an editor passes for a session, as a file of servers like the user's own."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, assert_never

import msgspec
from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer
from msgspec import Struct

from scaffold.agent.extensions.server_access import ServersFile

EditorServer = AcpMcpServer | HttpMcpServer | McpServerStdio | SseMcpServer
FILE, SCOPE = "the editor", "user"
"""The editor's settings are the user's own."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


class GivenServers(Struct, frozen=True):
    """The servers that can be used, and a line about those that cannot."""

    files: tuple[ServersFile, ...] = ()
    notes: tuple[str, ...] = ()


def can_reach_servers() -> bool:
    """Return whether servers with an address can be used, which needs an extra, as the others do."""
    return find_spec("mcp") is not None


def given_servers(servers: Sequence[EditorServer]) -> GivenServers:
    """Return the servers of an editor; characters that names of servers do not have become `-`."""
    entries: dict[str, Mapping[str, Any]] = {}
    notes = []
    for server in servers:
        name = _NOT_IN_NAMES.sub("-", server.name).strip("-")
        if isinstance(server, AcpMcpServer):
            notes.append(f"the MCP server {server.name} is not used: it speaks through the editor")
        elif name in entries:
            notes.append(f"the MCP server {server.name} is not used: another one is named {name}")
        else:
            entries[name] = _server_entry(server)
    content = msgspec.json.encode({"mcpServers": entries})
    files = (ServersFile(FILE, content, SCOPE),) if entries else ()
    return GivenServers(files, tuple(notes))


def _server_entry(server: HttpMcpServer | McpServerStdio | SseMcpServer) -> Mapping[str, Any]:
    match server:
        case McpServerStdio():
            variables = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": list(server.args), "env": variables}
        case HttpMcpServer() | SseMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case _:
            assert_never(server)
