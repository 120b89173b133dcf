"""What `/mcp` and `/plugins` show and do."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scaffold.agent.extensions.access import PLUGINS_FOLDER, open_plugins, plugins_folder
from scaffold.agent.extensions.port import PluginOverview, ServerControl
from scaffold.agent.extensions.setup import PROJECT_FILE, SERVERS_FILE
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of, join_limited
from scaffold.host.user_dirs import user_dirs
from scaffold.login.state import no_login_here
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.opened_extensions import extension_setup, require_session_agreement, session_servers
from scaffold.session.options import SessionOptions
from scaffold.session.shell_sandbox import session_sandbox
from scaffold.session.slash.syntax import ServersVerb
from scaffold.views.text_format import wrap_text

MAX_TOOLS = 12
"""How many tools of a plugin are named."""
MIN_WIDTH = 20


@asynccontextmanager
async def started_servers(
    options: SessionOptions, only: tuple[str, ...] | None = None
) -> AsyncIterator[tuple[ServerControl | None, list[str]]]:
    """Yield the servers as a session would start them, and the lines about them; they end with the block.

    Start those named in `only`; None for all.
    """
    notices: list[str] = []
    sandbox = await session_sandbox(options.sandbox, options.cwd, options.home, conversation="mcp")
    await require_session_agreement(options, sandbox)
    redactor = redactor_for(os.environ, options.cwd)
    setup = extension_setup(options, sandbox, redactor, session="", tell=notices.append)
    servers = await session_servers(options, setup, is_subagent=False, only=only)
    try:
        await servers.tools()
        yield servers.servers, notices
    finally:
        await servers.close()


async def servers_command(servers: ServerControl | None, verb: ServersVerb, server: str, width: int) -> str:
    """Return the answer to `/mcp`; UsageError if there is no such server."""
    rows = await servers.rows() if servers else ()
    if server and server not in {row.name for row in rows}:
        raise UsageError(f"there is no MCP server `{server}`", "`/mcp` lists them.")
    if not servers or not rows:
        return (
            f"There are no MCP servers. {user_dirs().config / SERVERS_FILE}, and {PROJECT_FILE} of a trusted folder, "
            "name them; see docs/mcp.md."
        )
    if verb == "show":
        return servers.withheld(server) or f"Nothing of {server} is withheld."
    if verb == "logout":
        return await servers.log_out(server)
    if verb == "approve":
        approved = await servers.approve(server)
        done = f"Approved {count_of(approved, 'tool')} of {server}; offered from your next message on."
        left = servers.withheld(server)
        return (
            f"{done}\nChanged since you saw them, and still withheld until you repeat it:\n\n{left}" if left else done
        )
    room = max(MIN_WIDTH, width - 2)
    return "\n".join(line for row in rows for line in wrap_text(f"{row.name}: {row.text}", room))


async def log_in(servers: ServerControl | None, server: str, tell: Callable[[str], object] | None = None) -> str:
    """Let the user log in at a server, and return the outcome; see `ServerControl.log_in`."""
    if servers is None:
        raise no_login_here(server)
    return await servers.log_in(server, tell)


def plugin_listing(overview: PluginOverview, width: int) -> str:
    """Return a few lines about each plugin."""
    room = max(MIN_WIDTH, width - 2)
    lines: list[str] = []
    for plugin in overview.plugins:
        title = f"{plugin.name}{f' {plugin.version}' if plugin.version else ''} ({plugin.file})"
        lines += wrap_text(f"{title}: {plugin.state}, priority {plugin.priority}", room)
        tools = join_limited(plugin.tools, MAX_TOOLS)
        for name, text in {"hooks": ", ".join(plugin.hooks), "tools": tools, "last error": plugin.error}.items():
            lines += [f"  {line}" for line in wrap_text(f"{name}: {text}", room)] if text else []
    lines += [line for notice in overview.notices for line in wrap_text(notice, room)]
    if lines:
        return "\n".join(lines)
    return f"There are no plugins. Executable files in {plugins_folder()} are plugins; see docs/plugins.md."


async def started_plugins(options: SessionOptions) -> PluginOverview:
    """Start the plugins as a session would, end them, and return what they were."""
    sandbox = await session_sandbox(options.sandbox, options.cwd, options.home, conversation=PLUGINS_FOLDER)
    redactor = redactor_for(os.environ, options.cwd)
    # The overview says what would be told.
    setup = extension_setup(options, sandbox, redactor, session="", tell=lambda _: None)
    plugins = await open_plugins(setup, network=options.plugin_network)
    overview = plugins.overview()
    await plugins.close()
    return overview
