"""The token endpoint of a server's login: renews and revokes tokens as the client that was registered for it."""

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, structs

from scaffold.core.errors import ModelError
from scaffold.core.ports import Clock
from scaffold.extensions.mcp.server_login import ServerGrant
from scaffold.llm.transport.live_context import Deadlines, HttpClient, HttpRequest
from scaffold.login.token_endpoint import (
    DEADLINES,
    FINAL,
    FORM,
    REVOCATION_DEADLINES,
    GrantRefused,
    ask_for_tokens,
    post_small,
)
from scaffold.login.tokens import MAX_LIFETIME_S, OAuthClient, Tokens, UnusableGrant, is_token
from scaffold.policy.rule.hosts import is_public

# Also that the server has forgotten the client that we registered.
FINAL_FOR_CLIENTS = FINAL | {"invalid_client", "unauthorized_client"}


class _TokenAnswer(Struct, frozen=True):
    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None
    scope: str | None = None


class ServerTokenEndpoint:
    """Implements `stored_tokens.Endpoint`: each login says itself where its tokens are renewed."""

    def __init__(self, wire: HttpClient, clock: Clock, command: str, *, own: Callable[[str], bool]) -> None:
        """`own` returns whether the user named the origin of a URL; others are asked at public addresses alone."""
        self._wire = wire
        self._clock = clock
        self._command = command
        self._own = own

    async def renew(self, tokens: Tokens) -> Tokens:
        """Return the next tokens; GrantRefused if there is nothing to renew them with, or it is no longer accepted."""
        if not tokens.refresh:
            what = "the server gives no tokens that can be renewed"
            raise GrantRefused(what, f"Log in with `{self._command}`.", reused=False)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        if tokens.client.resource:
            form["resource"] = tokens.client.resource
        now = self._clock.now()
        return await ask_for_tokens(
            self._wire,
            self._client_request(tokens.client, tokens.client.token_url, form, DEADLINES),
            lambda body: read_answer(body, now, tokens),
            command=self._command,
            final=FINAL_FOR_CLIENTS,
        )

    async def revoke(self, tokens: Tokens) -> bool:
        """Ask the server to revoke the tokens (RFC 7009); return whether it said that it did."""
        client = tokens.client
        if not client.revocation_url:
            return False
        kind = "refresh_token" if tokens.refresh else "access_token"
        form = {"token": tokens.refresh or tokens.access, "token_type_hint": kind}
        try:
            asked = self._client_request(client, client.revocation_url, form, REVOCATION_DEADLINES)
            status, _ = await post_small(self._wire, asked)
        except ModelError:
            return False
        return 200 <= status < 300

    def _client_request(self, client: OAuthClient, url: str, form: dict[str, str], deadlines: Deadlines) -> HttpRequest:
        # RFC 6749, 2.3.1: the server says at the registration how the client proves itself.
        headers = dict(FORM)
        if client.method == "client_secret_basic":
            pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif client.method == "client_secret_post":
            form = {**form, "client_id": client.id, "client_secret": client.secret}
        else:
            form = {**form, "client_id": client.id}
        body, admits = urlencode(form).encode(), None if self._own(url) else is_public
        return HttpRequest(url=url, headers=headers, body=body, deadlines=deadlines, admits=admits)


def tokens_of_grant(grant: ServerGrant, url: str, now: datetime) -> Tokens:
    """Return what is stored of a new login at `url`; UnusableGrant if a token cannot be sent."""
    if not is_token(grant.access) or (grant.refresh and not is_token(grant.refresh)):
        raise UnusableGrant("it has no token that can be sent")
    return Tokens(
        access=grant.access,
        refresh=grant.refresh,
        account=url,
        received_at=now,
        expires_at=_expiry_time(grant.lifetime_s, now),
        scope=grant.scope,
        client=OAuthClient(
            issuer=grant.issuer,
            token_url=grant.token_url,
            revocation_url=grant.revocation_url,
            id=grant.client_id,
            secret=grant.client_secret,
            method=grant.client_method,
            resource=grant.resource,
        ),
    )


def read_answer(body: bytes, now: datetime, before: Tokens) -> Tokens:
    """Return the tokens in the answer to a renewal; what it leaves out stays as it was."""
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnusableGrant("it is not the JSON of tokens") from error
    refresh = answer.refresh_token or before.refresh
    if not (is_token(answer.access_token) and is_token(refresh)):
        raise UnusableGrant("it has no token that can be sent")
    return structs.replace(
        before,
        access=answer.access_token,
        refresh=refresh,
        received_at=now,
        expires_at=_expiry_time(answer.expires_in, now),
        scope=before.scope if answer.scope is None else answer.scope,
    )


def _expiry_time(lifetime_s: float | None, now: datetime) -> datetime | None:
    if lifetime_s is None or not 0 < lifetime_s <= MAX_LIFETIME_S:
        return None
    return now + timedelta(seconds=lifetime_s)
