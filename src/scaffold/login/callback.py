"""What the browser brings back: the code in a redirect to this machine (RFC 8252), or as the user pastes it."""

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied, UsageError
from scaffold.login.provider import CALLBACK_PATH, PORT, AuthorizationRequest

HOSTS = frozenset({f"{host}:{PORT}" for host in ("localhost", "127.0.0.1", "[::1]")})
"""The names of this machine that a redirect uses; a page of another site has its own name here (DNS rebinding)."""
MAX_ISSUER_CHARS = 2_000
_CODE = re.compile(r"[\x21-\x7e]{1,2048}")
_BARE_CODE = re.compile(r"[A-Za-z0-9._~+/=-]{8,2048}")
_ERROR = re.compile(r"[a-z_]{1,64}")
PASTE = "Paste the whole address that the browser went to after you agreed; it begins with http://localhost:1455/."


class NotOurs(ValueError):
    """Not the redirect of this login; the text says why, as a clause."""


class AuthorizationDenied(ModelAccessDenied):
    """The provider's page ended without a code."""


class Expected(Protocol):
    """The login that an answer has to belong to."""

    def answers(self, state: str) -> bool:
        """Return whether this is the state of the login."""
        ...


class CodeAnswer(Struct, frozen=True):
    """What a redirect brings: a code, and who says that it issued it (RFC 9207), None if it does not say."""

    code: str
    issuer: str | None = None

    def __repr__(self) -> str:
        return "CodeAnswer()"


def code_of_query(query: str, request: Expected) -> str:
    """Return the authorization code in the query of a redirect; raises as `answer_of_query` does."""
    return answer_of_query(query, request).code


def answer_of_query(query: str, request: Expected, command: str = "ralph login") -> CodeAnswer:
    """Return the answer in a redirect's query; NotOurs without our state, AuthorizationDenied if it has no code."""
    try:
        fields = parse_qs(query, max_num_fields=20, keep_blank_values=True)
    except ValueError as error:
        raise NotOurs("it has too many fields") from error
    if not request.answers(_only_value(fields, "state")):
        raise NotOurs("its state belongs to another login")
    if "error" in fields:
        named = _ERROR.fullmatch(_only_value(fields, "error"))
        raise AuthorizationDenied(
            f"the provider did not agree to the login ({named[0] if named else 'no reason that can be shown'})",
            f"Repeat `{command}`, and agree on the page that it opens.",
        )
    code = _only_value(fields, "code")
    if not _CODE.fullmatch(code):
        raise NotOurs("it has no code")
    return CodeAnswer(code, _only_value(fields, "iss")[:MAX_ISSUER_CHARS] if "iss" in fields else None)


def code_of_pasted(text: str, request: AuthorizationRequest) -> str:
    """Return the authorization code in what the user pasted: the address of the redirect, or the code alone.

    A code alone has no state; that it is ours is then known by its challenge, which the provider checks. UsageError if
    there is none in it, AuthorizationDenied as in `code_of_query`.
    """
    text = text.strip()
    if not text:
        raise UsageError("nothing was pasted", PASTE)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise UsageError("what was pasted is not an address", PASTE) from error
    if parts.scheme in {"http", "https"}:
        if (parts.netloc.lower(), parts.path) not in {(host, CALLBACK_PATH) for host in HOSTS}:
            raise UsageError("this is not the address that the browser goes to in the end", PASTE)
        query = parts.query
    elif _BARE_CODE.fullmatch(text) and "code=" not in text:
        return text
    else:
        query = text.removeprefix("?")
    try:
        return code_of_query(query, request)
    except NotOurs as error:
        raise UsageError(f"what was pasted is not the answer to this login: {error}", PASTE) from error


def _only_value(fields: Mapping[str, list[str]], name: str) -> str:
    # A field that is there twice could be read differently by two programs.
    values = fields.get(name, [])
    return values[0] if len(values) == 1 else ""
