"""The MCP servers of a session: its own, or those of the session that has it as a subagent."""

import os
from collections.abc import Callable
from pathlib import Path

from scaffold.agent.extensions.server_access import (
    NO_SERVERS,
    AgentServers,
    ServersSetup,
    connect_servers,
    open_servers,
)
from scaffold.config.mcp_files import mcp_files
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.startup import lazy_import
from scaffold.host.user_dirs import user_dirs
from scaffold.session.options import SessionOptions

ASK_NOBODY = "scaffold.extensions.mcp.offers:ask_nobody"
"""A session has no inbox: its user reads in the answer of the tool that the server asked something."""


async def session_servers(
    options: SessionOptions,
    sandbox: SandboxSpec | None,
    conversation: str,
    *,
    is_subagent: bool,
    tell: Callable[[str], object],
    only: tuple[str, ...] | None = None,
) -> AgentServers:
    """Start the servers for the session's folder, or connect to those of the session that started this subagent.

    Subagents of the `conversation` reach them by a socket; none do if it is empty. Of all servers those in
    `only` are started; None for all.
    """
    if is_subagent:
        return await connect_servers(options.mcp_socket, lazy_import(ASK_NOBODY)) if options.mcp_socket else NO_SERVERS
    if not options.mcp:
        return NO_SERVERS
    files = (*mcp_files(options.cwd, once=options.trust_once, tell=tell), *options.given_servers)
    if not files:
        return NO_SERVERS
    return await open_servers(
        ServersSetup(
            files=files,
            cwd=options.cwd,
            environ=os.environ,
            sandbox=sandbox,
            socket=_socket(conversation) if conversation else None,
            tell=tell,
            only=only,
        )
    )


def _socket(conversation: str) -> Path:
    return user_dirs().cache / "t" / conversation / "mcp"
