"""Logins at servers with an address: what a connection asks of them, and what one consists of. Imports no SDK."""

from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from scaffold.core.printable_text import short_line

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MAX_SCOPE_CHARS = 1_000


class LoginUnusable(Exception):
    """There is a login, and it cannot be used any more; the text says why, as a clause."""


class ServerLogin(Protocol):
    """The login at one server."""

    async def current(self) -> str:
        """Return a token that has not expired; empty without a login.

        LoginUnusable if the user must log in again, ScaffoldError if no token can be had at the moment.
        """
        ...

    async def renewed(self, refused: str) -> str:
        """Return a token in place of one that the server refused, empty if there is none; raises as `current` does."""
        ...

    async def want(self, scope: str) -> bool:
        """Store a further scope that the server asks for; return whether a new login would ask for more."""
        ...


class NoLogin:
    """The login at a server that takes none: it gets a token in its headers, or none."""

    async def current(self) -> str:
        """Return nothing."""
        return ""

    async def renewed(self, _refused: str) -> str:
        """Return nothing."""
        return ""

    async def want(self, _scope: str) -> bool:
        """Return that it does not help."""
        return False


NO_LOGIN = NoLogin()


class ServerGrant(Struct, frozen=True, kw_only=True):
    """What a login at a server brought; the repr shows no secret."""

    access: str
    refresh: str
    lifetime_s: float | None
    scope: str
    issuer: str
    token_url: str
    revocation_url: str
    client_id: str
    client_secret: str
    client_method: str
    """How the secret is sent."""
    resource: str
    """What the tokens are for (RFC 8707); empty for a server that is older than that."""

    def __repr__(self) -> str:
        return f"ServerGrant({self.issuer!r})"


def protected(url: str, *, local: bool) -> bool:
    """Return whether a secret may be sent to a URL: by TLS, or, if `local`, within this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username or parts.password or not parts.hostname:
        return False
    return parts.scheme == "https" or (local and parts.scheme == "http" and parts.hostname in LOOPBACK)


def canonical(url: str) -> str:
    """Return the URL of a server as a login is bound to it (RFC 8707)."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def joined_scopes(*scopes: str) -> str:
    """Return each scope once, in order; a text of scopes that is too long is left out."""
    names = dict.fromkeys(name for scope in scopes if len(scope) <= MAX_SCOPE_CHARS for name in scope.split())
    return " ".join(names)


def login_line(server: str, why: str = "") -> str:
    """Return that a server needs a login, and the command for it, as a clause."""
    return f"it needs a login: `ralph /mcp login {server}`" + (f" ({short_line(why, 200)})" if why else "")
