"""The authorization server of a subscription, and what is asked of it (RFC 6749, PKCE of RFC 7636)."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct

from scaffold.llm.transport.endpoint import base_url

ISSUER = "https://auth.openai.com"
CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
"""The public client that this server registers for programs on a user's own machine; it has no secret."""
SCOPE = "openid profile email offline_access"
PORT = 1455
CALLBACK_PATH = "/auth/callback"
REDIRECT_URI = f"http://localhost:{PORT}{CALLBACK_PATH}"
"""As the client is registered: the server compares it as text, so `127.0.0.1` would be refused."""
RANDOM_BYTES = 32


class LoginProvider(Struct, frozen=True):
    """An authorization server; `issuer` has no slash at its end."""

    issuer: str

    @property
    def token_url(self) -> str:
        """Return where codes and refresh tokens are exchanged."""
        return f"{self.issuer}/oauth/token"

    @property
    def revocation_url(self) -> str:
        """Return where a token is revoked (RFC 7009)."""
        return f"{self.issuer}/oauth/revoke"

    @property
    def device_url(self) -> str:
        """Return the page on which the user enters the code of a device."""
        return f"{self.issuer}/codex/device"

    @property
    def device_code_url(self) -> str:
        """Return where a device asks for its code."""
        return f"{self.issuer}/api/accounts/deviceauth/usercode"

    @property
    def device_answer_url(self) -> str:
        """Return where a device asks whether its code was entered."""
        return f"{self.issuer}/api/accounts/deviceauth/token"

    @property
    def device_redirect_uri(self) -> str:
        """Return the redirect URI that the codes of devices are issued for."""
        return f"{self.issuer}/deviceauth/callback"

    def authorization_url(self, request: "AuthorizationRequest") -> str:
        """Return the page on which the user agrees."""
        query = {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": REDIRECT_URI,
            "scope": SCOPE,
            "code_challenge": request.challenge,
            "code_challenge_method": "S256",
            "state": request.state,
            "id_token_add_organizations": "true",
            "codex_cli_simplified_flow": "true",
        }
        return f"{self.issuer}/oauth/authorize?{urlencode(query)}"


class AuthorizationRequest(Struct, frozen=True):
    """The secrets of one login: `state` ties the answer to us, `verifier` the code."""

    state: str
    verifier: str

    def __repr__(self) -> str:
        return "AuthorizationRequest()"

    @property
    def challenge(self) -> str:
        """Return the S256 challenge of the verifier."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def answers(self, state: str) -> bool:
        """Return whether a state is ours, in a time that does not depend on how much of it is right."""
        return secrets.compare_digest(self.state.encode(), state.encode(errors="replace"))


def new_request() -> AuthorizationRequest:
    """Return the secrets of a new login, 256 random bits each."""
    return AuthorizationRequest(secrets.token_urlsafe(RANDOM_BYTES), secrets.token_urlsafe(RANDOM_BYTES))


def codex_provider(environ: Mapping[str, str]) -> LoginProvider:
    """Return the subscription's server; UsageError if CODEX_AUTH_URL is neither https:// nor on this machine."""
    return LoginProvider(base_url("CODEX_AUTH_URL", environ, ISSUER, protected=True))
