"""What `/mcp` shows and does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.agent.extensions.server_access import PROJECT_FILE, SERVERS_FILE, AgentServers
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of
from scaffold.host.user_dirs import user_dirs
from scaffold.session.extensions.session_servers import session_servers
from scaffold.session.options import SessionOptions
from scaffold.session.shell_sandbox import session_sandbox
from scaffold.session.slash.syntax import ServersVerb
from scaffold.views.text_format import wrap_text

MIN_WIDTH = 20


@asynccontextmanager
async def started_servers(
    options: SessionOptions, only: tuple[str, ...] | None = None
) -> AsyncIterator[tuple[AgentServers, list[str]]]:
    """Yield the servers as a session would start them, and the lines about them; they end with the block.

    Start those named in `only`; None for all.
    """
    notices: list[str] = []
    sandbox = await session_sandbox(options.sandbox, options.cwd, options.home, conversation="mcp")
    servers = await session_servers(options, sandbox, "", is_subagent=False, tell=notices.append, only=only)
    try:
        await servers.tools()
        yield servers, notices
    finally:
        await servers.close()


async def servers_command(servers: AgentServers, verb: ServersVerb, server: str, width: int) -> str:
    """Return the answer to `/mcp`; UsageError if there is no such server."""
    rows, room = await servers.rows(), max(MIN_WIDTH, width - 2)
    if server and server not in {row.name for row in rows}:
        raise UsageError(f"there is no MCP server `{server}`", "`/mcp` lists them.")
    if verb == "show":
        return servers.withheld(server) or f"Nothing of {server} is withheld."
    if verb == "logout":
        return await servers.log_out(server)
    if verb == "approve":
        approved = await servers.approve(server)
        return f"Approved {count_of(approved, 'tool')} of {server}; offered from your next message on."
    if not rows:
        return (
            f"There are no MCP servers. {user_dirs().config / SERVERS_FILE}, and {PROJECT_FILE} of a trusted folder, "
            "name them; see docs/mcp.md."
        )
    return "\n".join(line for row in rows for line in wrap_text(f"{row.name}: {row.text}", room))
