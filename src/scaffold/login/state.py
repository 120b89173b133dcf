"""Whether the user is logged in, without loading what only requests need."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied
from scaffold.host.startup import lazy_import
from scaffold.llm.transport.live_context import AccessToken, HttpClient
from scaffold.login.names import CODEX, SUBSCRIPTION, LoginName
from scaffold.store.user.logins import StoredLogin
from scaffold.store.user_store import UserStore

OPEN_TOKENS = "scaffold.login.opening:open_tokens"
"""Needs cryptography, which takes long to load."""
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


class Requests(Protocol):
    """What models need of the tokens."""

    async def current(self) -> AccessToken:
        """See `TokenSource`."""
        ...

    async def renewed(self, refused: AccessToken) -> AccessToken | None:
        """See `TokenSource`."""
        ...

    def secrets(self) -> Sequence[str]:
        """See `TokenSource`."""
        ...


class Login:
    """The user's login; implements `TokenSource`, and loads what requests need with the first of them."""

    def __init__(self, user: UserStore, wire: HttpClient | None, environ: Mapping[str, str]) -> None:
        """Send requests with `wire`; None if only the account is asked for."""
        self._user = user
        self._wire = wire
        self._environ = environ
        self._opened: Requests | None = None

    def account(self) -> str:
        """Return the id of the account, of a login that has ended as well; empty if the user is not logged in."""
        login = self._user.logins.find(CODEX)
        return "" if login is None else login.account

    def require_usable(self) -> None:
        """Raise LoginEnded if the login has ended."""
        login = self._user.logins.find(CODEX)
        if login is not None and login.ended:
            raise LoginEnded(login)

    async def current(self) -> AccessToken:
        """Return a token that has not expired; ModelError if there is none to be had."""
        return await self._tokens().current()

    async def renewed(self, refused: AccessToken) -> AccessToken | None:
        """Return a newer token than one that the server refused; None if it was new, too."""
        return await self._tokens().renewed(refused)

    def secrets(self) -> Sequence[str]:
        """Return the tokens that this process has seen."""
        return () if self._opened is None else self._opened.secrets()

    def _tokens(self) -> Requests:
        if self._opened is None:
            self._opened = lazy_import(OPEN_TOKENS)(self._user, self._wire, self._environ)
        return self._opened


def lock_file(data: Path, name: LoginName = SUBSCRIPTION) -> Path:
    """Return the file whose lock a process holds while it changes the tokens of a login."""
    if name == SUBSCRIPTION:
        return data / "login.lock"
    return data / f"login-{hashlib.sha256(name.provider.encode()).hexdigest()[:16]}.lock"


def not_logged_in(name: LoginName) -> tuple[str, str]:
    """Return what is wrong without a login, and what helps."""
    return NOT_LOGGED_IN if name == SUBSCRIPTION else (NOT_LOGGED_IN[0], f"Run `{name.command}`.")
