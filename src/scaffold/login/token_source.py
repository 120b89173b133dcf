"""The user's login as models see it; what requests need is loaded with the first of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from scaffold.host.startup import importing
from scaffold.llm.transport.live_context import AccessToken, HttpClient
from scaffold.login.state import CODEX, LoginEnded
from scaffold.store.user_store import UserStore


class TokenRequests(Protocol):
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
        self._opened: TokenRequests | None = None

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
        return await self._opened_tokens().current()

    async def renewed(self, refused: AccessToken) -> AccessToken | None:
        """Return a newer token than one that the server refused; None if that one was new."""
        return await self._opened_tokens().renewed(refused)

    def secrets(self) -> Sequence[str]:
        """Return the tokens that this process has seen."""
        return () if self._opened is None else self._opened.secrets()

    def _opened_tokens(self) -> TokenRequests:
        if self._opened is None:
            if self._wire is None:
                raise RuntimeError("a login that was opened for its account sends no requests")
            with importing():  # cryptography takes long to load
                from scaffold.login.subscription import open_tokens
            self._opened = open_tokens(self._user, self._wire, self._environ)
        return self._opened
