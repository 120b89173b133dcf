"""A login at a server: the SDK's flow (discovery, registration, PKCE, exchange), kept within our rules.

Each address is checked before it is asked, no answer is held without a bound, and nothing is sent without an issuer
that the metadata confirms. The SDK sends nothing by itself: its requests are sent here.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

from scaffold.core.errors import ModelAccessDenied
from scaffold.core.printable_text import short_line
from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.extensions.mcp.server_login import ServerGrant, joined_scopes, protected
from scaffold.extensions.mcp.web import LoginTransport, address_client, origin_of, own_origins
from scaffold.policy.rule.hosts import LocalAddress

MAX_REQUESTS = 40
"""Of one login, redirects included."""
MAX_ANSWER_BYTES = 2**20
REQUEST_S = 15.0
CLIENT_NAME = "ralph"
VERSION_HEADER = "mcp-protocol-version"
SECRET_METHODS = frozenset({"client_secret_post", "client_secret_basic"})
_REGISTRATION = re.compile(r"Registration failed: (\d+)")
_EXCHANGE = re.compile(r"Token exchange failed \((\d+)\)")
ADDRESSES = "a login uses https; http only on this machine, at the server's own origin or one in `oauth.origins`"


class Redirected(Protocol):
    """What the browser brought back."""

    @property
    def code(self) -> str:
        """Return the authorization code."""
        ...

    @property
    def issuer(self) -> str | None:
        """Return the issuer that the redirect names; None without one."""
        ...


class Browser(Protocol):
    """Sends the user to a page, and waits until they come back with the answer that has its `state`."""

    redirect_uri: str

    def show(self, url: str, state: str) -> None:
        """Show a page to the user."""
        ...

    async def answer(self) -> Redirected:
        """Return the answer; ScaffoldError if there is none."""
        ...


class LoginFailed(ModelAccessDenied):
    """A login at a server did not succeed; nothing is stored."""


class _TokenMemory:
    """The SDK's storage: for one login, and empty before it."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Flow(OAuthClientProvider):
    """The SDK's flow with what it does not check."""

    def __init__(self, config: ServerConfig, browser: Browser, wanted: str) -> None:
        self._browser = browser
        self._wanted = wanted
        self._own = own_origins(config)
        self.transport = LoginTransport(self._own)
        self.memory = _TokenMemory(_given_client(config, browser.redirect_uri))
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(browser.redirect_uri)], client_name=CLIENT_NAME, token_endpoint_auth_method=None
        )
        super().__init__(config.url, metadata, self.memory, self._show_page, self._answer)

    def allowed(self, url: str) -> str:
        """Return the URL; OAuthFlowError if no secret may go there."""
        if not protected(url, local=origin_of(url) in self._own):
            raise OAuthFlowError(f"the server names the address {short_line(url, 200)}, but {ADDRESSES}")
        return url

    async def _perform_authorization(self) -> httpx2.Request:
        context = self.context
        metadata = context.oauth_metadata
        if metadata is None and context.auth_server_url:
            raise OAuthFlowError(f"its authorization server {context.auth_server_url} has no metadata")
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError(f"its authorization server {metadata.issuer} does not say that it has PKCE with S256")
        context.client_metadata.scope = joined_scopes(context.client_metadata.scope or "", self._wanted) or None
        return await super()._perform_authorization()

    async def _show_page(self, url: str) -> None:
        await self.transport.addresses(httpx2.URL(self.allowed(url)))
        self._state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
        if not self._state:
            raise OAuthFlowError("the address of its page cannot be used")
        self._browser.show(url, self._state)

    async def _answer(self) -> AuthorizationCodeResult:
        answer = await self._browser.answer()
        # The callback server has checked the state: other answers get an error, and the login continues.
        return AuthorizationCodeResult(code=answer.code, state=self._state, iss=answer.issuer)

    def grant(self) -> ServerGrant:
        """Return what the flow brought."""
        tokens, client, metadata = self.memory.tokens, self.memory.client, self.context.oauth_metadata
        if tokens is None or client is None:
            raise OAuthTokenError("the server gave no tokens")
        has_resource = self.context.should_include_resource_param(self.context.protocol_version)
        revocation = metadata.revocation_endpoint if metadata is not None else None
        method = client.token_endpoint_auth_method or "none"
        return ServerGrant(
            access=tokens.access_token,
            refresh=tokens.refresh_token or "",
            lifetime_s=tokens.expires_in,
            scope=tokens.scope or "",
            issuer=self._expected_issuer(),
            token_url=self.allowed(self._get_token_endpoint()),
            revocation_url=self.allowed(str(revocation)) if revocation is not None else "",
            client_id=client.client_id,
            client_secret=client.client_secret or "" if method in SECRET_METHODS else "",
            client_method=method if client.client_secret else "none",
            resource=self.context.get_resource_url() if has_resource else "",
        )


def _given_client(config: ServerConfig, redirect_uri: str) -> OAuthClientInformationFull | None:
    given = config.oauth
    if not given.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=given.client_id,
        client_secret=given.client_secret or None,
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="client_secret_basic" if given.client_secret else "none",
    )


async def obtain_grant(
    config: ServerConfig, browser: Browser, wanted: str, learn: Callable[[list[str]], None]
) -> ServerGrant:
    """Log in at an expanded server, and return what that brought; LoginFailed, or what `browser` raises.

    `wanted` are scopes that the server asked for later; `learn` receives each secret as soon as it is known.
    """
    if not protected(config.url, local=True):
        raise LoginFailed(f"nobody logs in at {config.shown}: {ADDRESSES}", "Write the `url` of the entry with https.")
    flow = _Flow(config, browser, wanted)
    async with address_client(timeout=httpx2.Timeout(REQUEST_S), transport=flow.transport) as client:
        try:
            await _drive_flow(flow, client, _first_request(config), learn)
            return flow.grant()
        except LocalAddress as error:
            what = f"the server leads to {error.place} on this machine or its network, which its entry does not name"
            fix = "If that is where its logins are, add the address to `oauth.origins` of its entry, and repeat it."
            raise LoginFailed(f"the login at MCP server {config.name} failed: {what}", fix) from error
        except (OAuthFlowError, OAuthTokenError, OAuthRegistrationError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise _login_failed(config, _failure_reason(error)) from error
        except (ValueError, KeyError, TypeError, RecursionError, httpx2.InvalidURL) as error:
            raise _login_failed(config, "it does not answer like an authorization server") from error


def _failure_reason(error: Exception) -> str:
    # Without the body of an answer: a server may repeat a secret in it.
    text = str(error) or type(error).__name__
    if (refused := _REGISTRATION.match(text)) is not None:
        return f"we cannot register there (HTTP {refused[1]}); register a client, and name its `oauth.clientId`"
    if (refused := _EXCHANGE.match(text)) is not None:
        return f"it gave no tokens for the code (HTTP {refused[1]})"
    return text


def _login_failed(config: ServerConfig, why: str) -> LoginFailed:
    fix = f"If it is not your doing, tell who runs the server; `ralph /mcp login {config.name}` tries again."
    return LoginFailed(f"the login at MCP server {config.name} failed: {short_line(why, 400)}", fix)


async def _drive_flow(
    flow: _Flow, client: httpx2.AsyncClient, first: httpx2.Request, learn: Callable[[list[str]], None]
) -> None:
    # The SDK's flow asks for one request after the other, and we decide whether each may be sent.
    steps = flow.async_auth_flow(first)
    try:
        request = await anext(steps)
        for number in range(MAX_REQUESTS):
            is_first = number == 0
            if request is first and not is_first:
                return  # it would send our request again, with the new token
            response = await _send_bounded(client, request, flow.allowed(str(request.url)), read=not is_first)
            learn(_flow_secrets(flow))
            if is_first and response.status_code != 401:
                # A server may ask for a login later than at the first request: its metadata says where to log in.
                response = httpx2.Response(401, request=request)
            request = await steps.asend(response)
            learn(_flow_secrets(flow))
        raise OAuthFlowError(f"it takes more than {MAX_REQUESTS} requests")
    finally:
        await steps.aclose()


def _flow_secrets(flow: _Flow) -> list[str]:
    tokens, client = flow.memory.tokens, flow.memory.client
    found = (tokens and tokens.access_token, tokens and tokens.refresh_token, client and client.client_secret)
    return [each for each in found if each]


async def _send_bounded(
    client: httpx2.AsyncClient, request: httpx2.Request, url: str, *, read: bool
) -> httpx2.Response:
    # A body is read by us and with a limit: a server could send one without end.
    response = await client.send(request, stream=True, follow_redirects=False)
    body = b""
    try:
        async for chunk in response.aiter_raw() if read else _nothing():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise OAuthFlowError(f"the answer of {short_line(url, 200)} has more than {MAX_ANSWER_BYTES:,} bytes")
    finally:
        await response.aclose()
    headers = {name: value for name, value in response.headers.items() if name.lower() not in _OF_TRANSFER}
    whole = httpx2.Response(response.status_code, headers=headers, content=body, request=request)
    whole.next_request = response.next_request
    return whole


_OF_TRANSFER = frozenset({"content-length", "transfer-encoding", "content-encoding"})


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _first_request(config: ServerConfig) -> httpx2.Request:
    # A server refuses this request without a login, and thereby says where to log in.
    headers: Mapping[str, str] = {**config.headers, VERSION_HEADER: LATEST_PROTOCOL_VERSION}
    if config.transport == "sse":
        return httpx2.Request("GET", config.url, headers={**headers, "accept": "text/event-stream"})
    content = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": CLIENT_NAME, "version": "1"},
        },
    }
    headers = {**headers, "accept": "application/json, text/event-stream"}
    return httpx2.Request("POST", config.url, headers=headers, json=content)
