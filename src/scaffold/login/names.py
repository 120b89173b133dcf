"""The names of logins: at the provider of a subscription's models, and at MCP servers."""

from msgspec import Struct

CODEX = "codex"
"""The name of the provider of a subscription's models, as in their model strings."""


class LoginName(Struct, frozen=True):
    """Under which name a login is stored, and the command that begins it."""

    provider: str
    command: str


SUBSCRIPTION = LoginName(CODEX, "ralph login")
