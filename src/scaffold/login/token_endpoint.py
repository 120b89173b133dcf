"""Ask the token endpoint: exchange a code, renew and revoke tokens."""

from collections.abc import Callable, Container, Mapping
from urllib.parse import urlencode

import msgspec

from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.core.ports import Clock
from scaffold.llm.transport.live_context import Deadlines, HttpClient, HttpRequest
from scaffold.login.provider import CLIENT, REDIRECT_URI, LoginProvider
from scaffold.login.tokens import Tokens, UnusableGrant, read_grant

DEADLINES = Deadlines(connect_s=10.0, idle_s=15.0, total_s=25.0)
REVOCATION_DEADLINES = Deadlines(connect_s=5.0, idle_s=5.0, total_s=5.0)
MAX_BYTES = 2**20
REFUSALS = frozenset({400, 401, 403})
REUSED = frozenset({"refresh_token_reused", "token_reused"})
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", "User-Agent": "scaffold"}
FINAL = frozenset({"invalid_grant", "refresh_token_expired", "refresh_token_invalidated", *REUSED})
"""Codes that say that a grant will never be accepted; others are about the request or the server."""
TRY_LATER = "Retry later; if it persists, check the network and any proxy between."


class GrantRefused(ModelAccessDenied):
    """The server refuses a code or a refresh token for good; `reused` if it says that it was used before."""

    def __init__(self, what: str, fix: str, *, reused: bool) -> None:
        super().__init__(what, fix)
        self.reused = reused


class TokenEndpoint:
    """The token endpoint of one provider. Its errors never have a token in them."""

    def __init__(
        self, provider: LoginProvider, wire: HttpClient, clock: Clock, *, deadlines: Deadlines = DEADLINES
    ) -> None:
        self._deadlines = deadlines
        self._provider = provider
        self._wire = wire
        self._clock = clock

    async def exchange(self, code: str, verifier: str, redirect_uri: str = REDIRECT_URI) -> Tokens:
        """Return the tokens for a code that was issued for `redirect_uri`; GrantRefused or ModelError."""
        return await self._read_tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect_uri,
                "client_id": CLIENT,
                "code_verifier": verifier,
            }
        )

    async def renew(self, tokens: Tokens) -> Tokens:
        """Return the next tokens, for a refresh token that may be used once.

        GrantRefused if it is no longer accepted, ModelError, transient, if the answer is missing or unreadable: then
        the server may have used it up.
        """
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh, "client_id": CLIENT}
        return await self._read_tokens(form, tokens)

    async def revoke(self, tokens: Tokens) -> bool:
        """Ask the server to revoke the refresh token, and with it the login; return whether it said that it did."""
        form = {"token": tokens.refresh, "token_type_hint": "refresh_token", "client_id": CLIENT}
        try:
            request = self._form_request(self._provider.revocation_url, form, REVOCATION_DEADLINES)
            status, _ = await post_small(self._wire, request)
        except ModelError:
            return False
        return 200 <= status < 300

    async def _read_tokens(self, form: Mapping[str, str], before: Tokens | None = None) -> Tokens:
        now = self._clock.now()
        asked = self._form_request(self._provider.token_url, form, self._deadlines)
        return await ask_for_tokens(self._wire, asked, lambda body: read_grant(body, now, before))

    def _form_request(self, url: str, form: Mapping[str, str], deadlines: Deadlines) -> HttpRequest:
        return HttpRequest(url=url, headers=FORM, body=urlencode(form).encode(), deadlines=deadlines)


async def ask_for_tokens(
    wire: HttpClient,
    request: HttpRequest,
    read: Callable[[bytes], Tokens],
    *,
    command: str = "ralph login",
    final: Container[str] = FINAL,
) -> Tokens:
    """Return the tokens that a token endpoint gives, as `read` finds them in its answer; `command` begins a login.

    GrantRefused if the endpoint answers with a code of `final`, else ModelError if there are none.
    """
    name = request.url
    status, body = await post_small(wire, request)
    if status in REFUSALS and (code := _error_code(body)):
        if code in final:
            what = f"{name} does not accept the login ({code})"
            raise GrantRefused(what, f"Log in with `{command}`.", reused=code in REUSED)
        fix = "Update scaffold with `ralph --update`; if there is no newer version, report this."
        raise ModelError(f"{name} refused the request: HTTP {status}, {code}", fix)
    if status != 200:
        raise ModelError(f"{name} answered HTTP {status}", TRY_LATER, transient=True)
    try:
        return read(body)
    except UnusableGrant as error:
        raise ModelError(f"the answer of {name} cannot be used: {error}", TRY_LATER, transient=True) from error


async def post_small(wire: HttpClient, request: HttpRequest) -> tuple[int, bytes]:
    """Return the status and the body of an answer; ModelError, transient, if there is none or it is too long."""
    body = b""
    async with wire.post(request) as response:
        while piece := await response.read():
            body += piece
            if len(body) > MAX_BYTES:
                raise ModelError(
                    f"the answer of {request.url} has more than {MAX_BYTES:,} bytes", TRY_LATER, transient=True
                )
        return response.status, body


def _error_code(body: bytes) -> str:
    # RFC 6749 has the code as a text, the provider has it in an object.
    # Of the rest nothing is shown: a server may repeat a token in it.
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    error = answer.get("error") if isinstance(answer, dict) else None
    code = error.get("code") or error.get("type") if isinstance(error, dict) else error
    plain = isinstance(code, str) and len(code) <= 64 and code.replace("_", "").isalnum() and code.isascii()
    return str(code) if plain else ""
