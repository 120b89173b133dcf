"""An agent's MCP servers, loaded only if some are configured: without any, an agent costs a look for two files."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.tool import Tool
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.startup import lazy_import
from scaffold.login.names import no_login_here

OPEN = "scaffold.agent.extensions.local_servers:open_pool"
"""Takes a ServersSetup, and starts the servers."""
CONNECT = "scaffold.agent.extensions.connected_servers:connect_pool"
"""Takes the path of a pool's socket, and what asks the user."""
SERVERS_FILE = "mcp.json"
"""The file with the user's servers, in the user's configuration directory."""
PROJECT_FILE = ".mcp.json"
"""That of a folder; it counts if the folder is trusted."""
EXTRA = (
    "MCP servers are configured, but the extra `mcp` is not installed, so there are none: "
    "`pip install 'ralph-scaffold[mcp]'`"
)


Withheld = Callable[[str, Mapping[str, str], Callable[[], None]], object]
"""Receives a server, a text about each of its tools that need an approval, by name, and what approves them."""


class ServersFile(Struct, frozen=True):
    """A file that names servers, read once."""

    path: str
    content: bytes
    scope: str
    """`user`, or the identity of the repository."""


class ServersSetup(Struct, frozen=True, kw_only=True):
    """What the servers of an agent work with."""

    files: tuple[ServersFile, ...]
    cwd: Path
    environ: Mapping[str, str]
    """Ours; programs get no secret of it that their entry does not name."""
    sandbox: SandboxSpec | None
    """That of commands; None for none."""
    only: tuple[str, ...] | None = None
    """The servers that are started, by name; None for all."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""
    needs_sandbox: bool = False
    """Whether programs are left out where commands have no sandbox."""
    socket: Path | None = None
    """Where other processes reach the pool; None if none do."""
    tell: Callable[[str], object]
    """Takes a line for the user."""


class ServerRow(Struct, frozen=True):
    """One server for a listing: its name, and a line about it; all of it is printable."""

    name: str
    ok: bool
    text: str


class AgentServers(Protocol):
    """The MCP servers of an agent."""

    @property
    def socket(self) -> Path | None:
        """Where other processes reach them; None if there are none."""
        ...

    @property
    def trouble(self) -> str:
        """Why those of another process were not reached; empty if they were."""
        ...

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools they offer now, not gated; the same object until they change."""
        ...

    async def rows(self) -> Sequence[ServerRow]:
        """Return how they fare."""
        ...

    def withheld(self, server: str) -> str:
        """Return the definitions of a server that need the user's approval, as text; empty if there are none."""
        ...

    async def approve(self, server: str) -> int:
        """Approve them, and return how many there were."""
        ...

    async def log_in(self, server: str, tell: Callable[[str], object] | None = None) -> str:
        """Let the user log in at a server, and return how that went; `tell` receives lines meanwhile.

        Without `tell`, return what to do on the page, as soon as that is known; how it went is told like other lines
        about the servers. UsageError or ModelAccessDenied if it does not go.
        """
        ...

    async def log_out(self, server: str) -> str:
        """Delete the login at a server, and return how that went."""
        ...

    async def close(self) -> None:
        """End them."""
        ...


class NoServers:
    """The servers of an agent without any."""

    socket: Path | None = None
    trouble = ""

    async def tools(self) -> tuple[Tool, ...]:
        """Return nothing."""
        return ()

    async def rows(self) -> Sequence[ServerRow]:
        """Return nothing."""
        return ()

    def withheld(self, _server: str) -> str:
        """Return nothing."""
        return ""

    async def approve(self, _server: str) -> int:
        """Do nothing."""
        return 0

    async def log_in(self, server: str, _tell: Callable[[str], object] | None = None) -> str:
        """Raise UsageError."""
        raise no_login_here(server)

    async def log_out(self, server: str) -> str:
        """Raise UsageError."""
        raise no_login_here(server)

    async def close(self) -> None:
        """Do nothing."""


NO_SERVERS = NoServers()


async def open_servers(setup: ServersSetup, withheld: Withheld | None = None) -> AgentServers:
    """Start the servers of the files; they live until they are closed, and end with this process.

    `withheld` receives tools that need an approval; without it a line tells the user.
    """
    if not setup.files or setup.only == ():
        return NO_SERVERS
    try:
        # The SDK takes most of a second to import.
        start = await asyncio.to_thread(lazy_import, OPEN)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in {"scaffold", ""}:
            raise
        setup.tell(EXTRA)
        return NO_SERVERS
    opened: AgentServers = await start(setup, withheld)
    return opened


async def connect_servers(socket: Path, ask: Any) -> AgentServers:
    """Return the servers of another process, which ends them; `ask` is an `extensions.mcp.offers.Ask`."""
    connected: AgentServers = await lazy_import(CONNECT)(socket, ask)
    return connected
