"""Open an agent's extensions; without any, an agent costs a listing of one folder and a look for two files."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions
from scaffold.agent.extensions.setup import ExtensionSetup, HookSession, ServerChoice, Withheld
from scaffold.core.extension_set import Extensions
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.permission.call_decision import READ_ONLY_MODES

PLUGINS_FOLDER = "plugins"
"""The folder of the user's plugins, in the user's configuration directory."""
EXTRA = (
    "MCP servers are configured but do not start, because the extra `mcp` is not installed: "
    "`pip install 'ralph-scaffold[mcp]'`"
)


def hook_mode(mode: str, *, yolo: bool, accepts_edits: bool = False) -> str:
    """Return how calls are permitted, in the words that hooks know."""
    if mode in READ_ONLY_MODES:
        return "plan"
    if yolo:
        return "bypassPermissions"
    return "acceptEdits" if accepts_edits else "default"


def open_hooks(setup: ExtensionSetup, extensions: Extensions, session: HookSession) -> AgentExtensions:
    """Return the hooks of an agent."""
    if not extensions.hooks:
        return NO_EXTENSIONS
    with importing():
        from scaffold.agent.extensions.opened_hooks import OpenedHooks
    return OpenedHooks(setup, extensions, session).port


def plugins_folder() -> Path:
    """Return the folder of the user's plugins."""
    return user_dirs().config / PLUGINS_FOLDER


async def open_plugins(
    setup: ExtensionSetup, *, network: tuple[str, ...], only: tuple[str, ...] | None = None
) -> AgentExtensions:
    """Start the user's plugins; they live until they are closed, and end with this process.

    `network` names the files of those that may use the network, `only` of those that run; None for all.
    """
    if only == ():
        return NO_EXTENSIONS
    try:
        if not os.listdir(plugins_folder()):  # noqa: PTH208 - as quick as it can be
            return NO_EXTENSIONS
    except OSError:
        return NO_EXTENSIONS
    with importing():
        from scaffold.agent.extensions.opened_plugins import start_plugins
    return await start_plugins(setup, plugins_folder(), network=network, only=only)


async def open_servers(
    setup: ExtensionSetup, choice: ServerChoice, withheld: Withheld | None = None
) -> AgentExtensions:
    """Start MCP servers; `withheld` receives tools that need an approval, else a line tells the user."""
    if not choice.files or choice.only == ():
        return NO_EXTENSIONS
    try:
        # The SDK takes most of a second to import.
        start_servers = await asyncio.to_thread(_load_start_servers)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in {"scaffold", ""}:
            raise
        setup.tell(EXTRA)
        return NO_EXTENSIONS
    return await start_servers(setup, choice, withheld)


def _load_start_servers() -> Callable[[ExtensionSetup, ServerChoice, Withheld | None], Awaitable[AgentExtensions]]:
    with importing():
        from scaffold.agent.extensions.local_servers import start_servers
    return start_servers


def connect_servers(
    socket: Path,
    ask: Callable[[Any], Awaitable[str | None]] | None = None,
    unreachable: Callable[[str], object] = lambda _error: None,
) -> AgentExtensions:
    """Return the MCP servers of another process, which ends them.

    `ask` passes a server's question, an `offers.Question`, on to the user; without it there is no user to ask.
    `unreachable` receives the error when the other process does not answer.
    """
    with importing():
        from scaffold.agent.extensions.connected_servers import connect_pool
    return connect_pool(socket, ask, unreachable)
