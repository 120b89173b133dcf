"""Refuse requests that are not from the user's own browser, before any page or command sees them."""

import asyncio
from collections.abc import Mapping
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scaffold.web.browser_access import Access, Session
from scaffold.web.page_frame import problem_response

MAX_BODY_BYTES = 256_000
BODY_TIMEOUT_S = 20.0
MAX_FIELDS = 100
CSRF_HEADER, CSRF_FIELD = b"x-csrf-token", "csrf"
READING = ("GET", "HEAD")
OPEN_PATHS = ("/static/", "/login")
"""Without a session: what everyone may have, and the way in."""
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # None to any other server. With `no-referrer` a browser would hide from us where a form was sent from, too.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class ServedAt(Struct, frozen=True):
    """The names by which a server may be called: a page of another site that points at it has another one."""

    hosts: frozenset[str]
    """`NAME:PORT`, as browsers send it; without the port for the default one of the scheme."""
    scheme: str
    cookie: str
    """Its name. Cookies know no ports: two servers on one machine need two names."""

    by_address: bool = False
    """Whether it also answers to the address that a connection reached: it listens on all of this machine."""

    def reached_at(self, scope: Scope) -> "ServedAt":
        """Return this with the address that the connection of a request was made to, if it answers to that.

        An address cannot be pointed elsewhere, as a name can.
        """
        if not self.by_address or not scope.get("server"):
            return self
        address, port = ip_address(scope["server"][0]), scope["server"][1]
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address
        shown = f"[{address}]" if address.version == 6 else f"{address}"
        return replace(self, hosts=self.hosts | {f"{shown}:{port}", *([shown] if port == 443 else [])})

    @property
    def origins(self) -> frozenset[str]:
        """The origins whose pages may send requests: our own."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)

    def cookie_header(self, secret: str) -> str:
        """Return the header that gives a browser its session."""
        secure = "; Secure" if self.scheme == "https" else ""
        return f"{self.cookie}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}"


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.fix = fix


class Guard:
    """The outermost layer: checks Host, Origin, size, session and CSRF token of each request, and sets headers."""

    def __init__(self, app: ASGIApp, access: Access, served_at: ServedAt) -> None:
        self._app = app
        self._access = access
        self._at = served_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given
                ]
            await send(message)

        try:
            self._check_sender(scope)
            session = self._session_of(scope)
            is_open = scope["path"].startswith(OPEN_PATHS) or (
                scope["path"] == "/" and b"token=" in scope["query_string"]
            )
            if not is_open:
                require_session(session)
            if scope["method"] not in READING:
                body = await _read_body(receive)
                receive = _replay_body(body, receive)
                # Before a session there is no token: `SameSite` and the origin protect the way in.
                if session is not None:
                    _check_change(scope, body, session)
        except Refused as refused:
            answer = problem_response(scope, refused.status, str(refused), refused.fix)
            await answer(scope, receive, send_guarded)
            return
        scope.setdefault("state", {}).update(session=session, access=self._access, served_at=self._at)
        await self._app(scope, receive, send_guarded)

    def _check_sender(self, scope: Scope) -> None:
        # A page of another site can point its own name at this address (DNS rebinding): the name gives it away.
        at = self._at.reached_at(scope)
        if _one_header(scope, b"host") not in at.hosts:
            raise Refused(421, "this is not the name of this server", "Use the address that `scaffold serve` prints.")
        sent = [value for name, value in scope["headers"] if name == b"origin"]
        if len(sent) > 1 or (sent and sent[0].decode("latin-1") not in at.origins):
            raise Refused(403, "requests of this origin are not served")
        site = _one_header(scope, b"sec-fetch-site")
        if scope["method"] not in READING and site not in {"", "same-origin", "none"}:
            raise Refused(403, "only pages of this server may change something")

    def _session_of(self, scope: Scope) -> Session | None:
        secret = cookie_parser(_one_header(scope, b"cookie")).get(self._at.cookie)
        return self._access.session_of(secret) if secret else None


def _one_header(scope: Scope, wanted: bytes) -> str:
    found = [value for name, value in scope["headers"] if name == wanted]
    return found[0].decode("latin-1") if len(found) == 1 else ""


async def _read_body(receive: Receive) -> bytes:
    parts, size = list[bytes](), 0
    try:
        # A slow sender holds this request only; without a limit it would hold memory for ever.
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MAX_BODY_BYTES:
                    raise Refused(413, f"the request has more than {MAX_BODY_BYTES:,} bytes", "Send less.")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, "the request took too long to arrive") from None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _check_change(scope: Scope, body: bytes, session: Session) -> None:
    if not session.may_act:
        raise Refused(403, "this link can only read", "Open a link of a server that was not started with --read-only.")
    token = _one_header(scope, CSRF_HEADER) or form_fields(scope, body).get(CSRF_FIELD, "")
    if not compare_digest(token.encode(errors="replace"), session.csrf.encode()):
        raise Refused(403, "the token of this page is missing or outdated", "Reload the page, then try again.")


def form_fields(scope: Scope, body: bytes) -> Mapping[str, str]:
    """Return the first value of each field of a form; empty for another kind of body."""
    kind = _one_header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    try:
        found = parse_qs(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def require_session(session: Session | None) -> Session:
    """Return the session; raises Refused without one."""
    if session is None:
        raise Refused(401, "this browser has no session here", "Open the link that `scaffold serve` prints.")
    return session
