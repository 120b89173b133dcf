"""The names of logins: at the provider of a subscription's models, and at MCP servers."""

from msgspec import Struct

from scaffold.core.errors import UsageError

CODEX = "codex"
"""The name of the provider of a subscription's models, as in their model strings."""


class LoginName(Struct, frozen=True):
    """Under which name a login is stored, and the command that begins it."""

    provider: str
    command: str


SUBSCRIPTION = LoginName(CODEX, "ralph login")


def no_login_here(server: str) -> UsageError:
    """Return the error for a login at a server that this process has not started."""
    return UsageError(f"MCP server {server} is not one of this session", "`ralph /mcp` lists yours.")


def no_login_at_program(server: str) -> UsageError:
    """Return the error for a login at a program."""
    return UsageError(f"MCP server {server} is a program", "Logins are for servers with a `url`.")
