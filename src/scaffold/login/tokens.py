"""The tokens of a login, read from the answer of the token endpoint."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

# Tokens are renewed so long before they expire; those that live shorter, in the last quarter of their life.
MARGIN_S = 300.0
MAX_LIFETIME_S = 366 * 86_400.0
AUTH_CLAIMS = "https://api.openai.com/auth"
PROFILE_CLAIMS = "https://api.openai.com/profile"
MAX_SHOWN_CHARS = 200
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")  # characters allowed in a header field


class OAuthClient(Struct, frozen=True, kw_only=True):
    """Us as an authorization server knows us, and where it is asked; the repr shows no secret."""

    issuer: str = ""
    token_url: str = ""
    revocation_url: str = ""
    id: str = ""
    secret: str = ""
    method: str = "none"
    """How the secret is sent: `none`, `client_secret_post` or `client_secret_basic`."""
    resource: str = ""
    """What the tokens are for (RFC 8707)."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.issuer!r})"


class Tokens(Struct, frozen=True, kw_only=True):
    """What a login consists of; the repr shows no secret."""

    access: str
    refresh: str
    account: str
    email: str = ""
    plan: str = ""
    received_at: datetime
    expires_at: datetime | None = None
    """By our own clock, counted from the receipt; None if the provider did not say."""
    scope: str = ""
    """What an MCP server's tokens allow."""
    wanted: str = ""
    """Scopes that an MCP server asked for since the login; the next login asks for them."""
    client: OAuthClient = OAuthClient()
    """The client at an MCP server; the client of a subscription is fixed."""

    def __repr__(self) -> str:
        return f"Tokens({self.account!r})"

    def has_expired(self, now: datetime) -> bool:
        """Return whether the access token is too old by our clock."""
        return self.expires_at is not None and now >= self.expires_at

    def is_due(self, now: datetime) -> bool:
        """Return whether the access token should be renewed."""
        if self.expires_at is None or not self.refresh:
            return self.has_expired(now)
        margin_s = min(MARGIN_S, (self.expires_at - self.received_at).total_seconds() / 4)
        return now >= self.expires_at - timedelta(seconds=margin_s)


class UnusableGrant(ValueError):
    """The answer of a token endpoint has no tokens that can be used; the text says why, without any of them."""


class _Grant(Struct, frozen=True):
    access_token: str
    refresh_token: str = ""
    id_token: str = ""
    expires_in: float | None = None


def is_token(text: str) -> bool:
    """Return whether a text can be sent as a token."""
    return _TOKEN.fullmatch(text) is not None


def read_grant(body: bytes, now: datetime, before: Tokens | None = None) -> Tokens:
    """Return the tokens in an answer, renewed for `before`; UnusableGrant if none, or for another account."""
    try:
        grant = msgspec.json.decode(body, type=_Grant)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnusableGrant("it is not the JSON of tokens") from error
    refresh = grant.refresh_token or (before.refresh if before else "")
    if not (_TOKEN.fullmatch(grant.access_token) and _TOKEN.fullmatch(refresh)):
        raise UnusableGrant("it has no access token and refresh token")
    claims = (decode_claims(grant.id_token), decode_claims(grant.access_token))
    account = _first_claim(claims, "chatgpt_account_id") or (before.account if before else "")
    if not _TOKEN.fullmatch(account):
        raise UnusableGrant("its tokens name no account with a subscription")
    if before and account != before.account:
        raise UnusableGrant("its tokens are for another account")
    lifetime_s, began, ends = grant.expires_in, claims[1].get("iat"), claims[1].get("exp")
    if lifetime_s is None and isinstance(began, int | float) and isinstance(ends, int | float):
        # The difference of its own two times, because the clock of either side may be wrong.
        lifetime_s = float(ends - began)
    if lifetime_s is not None and not 0 < lifetime_s <= MAX_LIFETIME_S:
        lifetime_s = None
    return Tokens(
        access=grant.access_token,
        refresh=refresh,
        account=account,
        email=_first_claim(claims, "email") or (before.email if before else ""),
        plan=_first_claim(claims, "chatgpt_plan_type") or (before.plan if before else ""),
        received_at=now,
        expires_at=None if lifetime_s is None else now + timedelta(seconds=lifetime_s),
    )


def decode_claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JWT, whose signature is not checked; empty for any other text.

    They come from the token endpoint itself, over TLS, and decide nothing: a wrong account is refused by the provider.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (msgspec.DecodeError, binascii.Error, UnicodeError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _first_claim(tokens: tuple[Mapping[str, Any], ...], name: str) -> str:
    # The provider puts claims of its own into an object beside the standard ones.
    for claims in tokens:
        for place in (claims, claims.get(AUTH_CLAIMS), claims.get(PROFILE_CLAIMS)):
            found = place.get(name) if isinstance(place, dict) else None
            if isinstance(found, str) and found.isprintable() and 0 < len(found) <= MAX_SHOWN_CHARS:
                return found
    return ""
