"""Whether the user is logged in, without loading what only requests need."""

import hashlib
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied, UsageError
from scaffold.store.user.logins import StoredLogin

CODEX = "codex"
"""The name of the provider of a subscription's models, as in their model strings."""


class LoginName(Struct, frozen=True):
    """Under which name a login is stored, and the command that begins it."""

    provider: str
    command: str


SUBSCRIPTION = LoginName(CODEX, "ralph login")
NOT_LOGGED_IN = ("you are not logged in", "Run `ralph login`; on a machine without a browser `ralph login --headless`.")


class LoginOverview(Struct, frozen=True, kw_only=True):
    """What can be said of a login, without a secret."""

    account: str
    email: str = ""
    plan: str = ""
    key: str
    """Where the key of its tokens is."""
    renewed_at: datetime
    expires_at: datetime | None = None
    """When the access token expires, which is renewed before; None if unknown."""
    problem: str = ""
    """Why it cannot be used, as a clause; empty if it can."""
    fix: str = ""


class LoginEnded(ModelAccessDenied):
    """The provider no longer accepts the login, as it is stored."""

    def __init__(self, login: StoredLogin, name: LoginName = SUBSCRIPTION) -> None:
        super().__init__(f"your login has ended: {login.ended}", f"Log in again with `{name.command}`.")


def lock_file(data: Path, name: LoginName = SUBSCRIPTION) -> Path:
    """Return the file whose lock a process holds while it changes the tokens of a login."""
    if name == SUBSCRIPTION:
        return data / "login.lock"
    return data / f"login-{hashlib.sha256(name.provider.encode()).hexdigest()[:16]}.lock"


def not_logged_in(name: LoginName) -> tuple[str, str]:
    """Return what is wrong without a login, and what helps."""
    return NOT_LOGGED_IN if name == SUBSCRIPTION else (NOT_LOGGED_IN[0], f"Run `{name.command}`.")


def no_login_here(server: str) -> UsageError:
    """Return the error for a login at a server that this process has not started."""
    return UsageError(f"MCP server {server} is not one of this session", "`ralph /mcp` lists yours.")


def no_login_at_program(server: str) -> UsageError:
    """Return the error for a login at a program."""
    return UsageError(f"MCP server {server} is a program", "Logins are for servers with a `url`.")
