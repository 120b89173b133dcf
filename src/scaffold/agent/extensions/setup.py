"""What an agent's extensions work with."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.conversation import Message
from scaffold.host.sandbox.confinement import CommandSandbox
from scaffold.policy.secret.redaction import Redactor

SERVERS_FILE = "mcp.json"
"""The file with the user's MCP servers, in the user's configuration directory."""
PROJECT_FILE = ".mcp.json"
"""The file with a folder's MCP servers; it counts if the folder is trusted."""

Withheld = Callable[[str, Mapping[str, str], Callable[[], None]], object]
"""Receives a server, a text about each of its tools that need an approval, by name, and what approves them."""


class ExtensionSetup(Struct, frozen=True, kw_only=True):
    """What every extension of an agent works with."""

    cwd: Path
    session: str
    environ: Mapping[str, str]
    """Ours: plugins and servers get none of its secrets but those that their entry names."""
    sandbox: CommandSandbox | None
    """Confines commands, and extensions as well; None for no sandbox."""
    writes: bool = True
    """Whether plugins and servers may write where the sandbox lets commands write."""
    redactor: Redactor
    tell: Callable[[str], object]
    """Takes a line for the user."""


class HookSession(Struct, frozen=True, kw_only=True):
    """What hooks are told of their agent."""

    environ: Mapping[str, str]
    """The environment of the agent's commands, which hooks run with."""
    project: Path
    """The folder for `CLAUDE_PROJECT_DIR`."""
    transcript: str = ""
    """The file with what the agent did; empty if there is none."""
    messages: Callable[[], Sequence[Message]] | None = None
    """Returns the conversation, to be written to `transcript` for hooks that want it; None if others write it."""
    subagent: bool = False
    mode: Callable[[], str] = lambda: "default"
    """Returns the permission mode, in the words that hooks know."""


class ServersFile(Struct, frozen=True):
    """A file that names MCP servers, read once."""

    path: str
    content: bytes
    scope: str
    """`user`, or the identity of the repository."""


class ServerChoice(Struct, frozen=True, kw_only=True):
    """Which MCP servers are started."""

    files: tuple[ServersFile, ...]
    only: tuple[str, ...] | None = None
    """Their names; None for all that the files name."""
    needs_sandbox: bool = False
    """Whether programs are left out where commands have no sandbox."""
    socket: Path | None = None
    """Where other processes reach them; None if none do."""
