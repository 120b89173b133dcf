"""A stand-in for the authorization server of a subscription and its Responses endpoint, on loopback, with real wires.

Codes and refresh tokens work once, for who has the verifier; a refresh token used twice revokes all of its login.
"""

import base64
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from model_server import rendering
from model_server.turn import Turn
from scaffold.host.clock import SystemClock
from support.scenario import wait_until

ACCOUNT, EMAIL, PLAN = "acc-0123-4567", "ana@example.invalid", "plus"
CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
REDIRECT = "http://localhost:1455/auth/callback"
USER_CODE = "ABCD-1234"
DEVICE_QUESTIONS = {"/api/accounts/deviceauth/usercode": "code", "/api/accounts/deviceauth/token": "answer"}
HUGE = 50_000_000


class LoginServer:
    """What the server knows, and what it was asked; `fault` is what its token endpoint does instead of answering."""

    def __init__(self) -> None:
        self.port = 0
        self.lifetime_s = 3600
        self.slow_s = 0.5
        self.fault = ""  # html, huge, never, 500; slow, lost: the answer comes late, or is given and does not come
        self.turns: list[Turn] = [Turn(text="here I am")]
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, float] = {}
        self.refresh: dict[str, str] = {}
        self.used: set[str] = set()
        self.exchanges = self.renewals = self.refusals = 0
        self.revoked: list[str] = []
        self.can_revoke = True
        self.devices: dict[str, str] = {}
        self.user_code = USER_CODE
        self.polls = 0
        self.poll_status = 403
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.lock = threading.Lock()
        self.ended = threading.Event()

    @property
    def environ(self) -> dict[str, str]:
        origin = f"http://127.0.0.1:{self.port}"
        return {"CODEX_AUTH_URL": origin, "CODEX_BASE_URL": f"{origin}/backend-api/codex"}

    def agree(self, url: str) -> str:
        """Return where the browser is sent after the user has agreed on the page `url`."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert (asked["client_id"], asked["redirect_uri"]) == (CLIENT, REDIRECT)
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = f"ac_{secrets.token_urlsafe(20)}"
        self.codes[code] = asked
        return f"{REDIRECT}?{urlencode({'code': code, 'scope': asked['scope'], 'state': asked['state']})}"

    def enter(self, user_code: str) -> None:
        """Let the user enter a code on the page for devices, and agree."""
        (device,) = (name for name, shown in self.devices.items() if shown == user_code)
        verifier, code = secrets.token_urlsafe(32), f"ac_{secrets.token_urlsafe(20)}"
        redirect = f"http://127.0.0.1:{self.port}/deviceauth/callback"
        self.codes[code] = {"code_challenge": challenge_of(verifier), "redirect_uri": redirect}
        self.devices[device] = json.dumps({"authorization_code": code, "code_verifier": verifier})

    def device(self, question: str, asked: dict[str, str]) -> tuple[int, bytes]:
        """Return the status and the answer to a device."""
        if question == "code" and asked != {"client_id": CLIENT}:
            return 400, b"{}"
        if question == "code":
            device = secrets.token_hex(8)
            self.devices[device] = self.user_code
            answer = {"device_auth_id": device, "user_code": self.user_code, "interval": "1"}
            return 200, json.dumps(answer).encode()
        self.polls += 1
        found = self.devices[asked["device_auth_id"]]
        return (200, found.encode()) if found.startswith("{") else (self.poll_status, b"{}")

    def grant(self, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        """Return the status and the answer of the token endpoint."""
        if form["client_id"] != CLIENT:
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            form_is = {"code_challenge": challenge_of(form["code_verifier"]), "redirect_uri": form["redirect_uri"]}
            if asked is None or not form_is.items() <= asked.items():
                return 400, {"error": "invalid_grant", "error_description": f"the code {form['code']} is not valid"}
            self.exchanges += 1
            return 200, self.issue(secrets.token_hex(4))
        used = form["refresh_token"]
        if used in self.used:
            self.refresh = {token: line for token, line in self.refresh.items() if line != self.refresh[used]}
            return 400, {"error": {"code": "refresh_token_reused", "message": f"{used} was used before"}}
        if used not in self.refresh:
            return 400, {"error": "invalid_grant"}
        self.used.add(used)
        self.renewals += 1
        return 200, self.issue(self.refresh[used])

    def issue(self, line: str) -> dict[str, object]:
        now = int(SystemClock().now().timestamp())
        subscription = {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": PLAN}
        claims = {"iat": now, "exp": now + self.lifetime_s, "https://api.openai.com/auth": subscription}
        access, refresh = jwt({**claims, "jti": secrets.token_hex(8)}), f"rt_{secrets.token_urlsafe(30)}"
        self.access[access], self.refresh[refresh] = time.monotonic() + self.lifetime_s, line
        self.tokens += [access, refresh]
        answer = {"access_token": access, "refresh_token": refresh, "id_token": jwt({**claims, "email": EMAIL})}
        return {**answer, "token_type": "Bearer", "expires_in": self.lifetime_s}

    def turn(self) -> Turn:
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def jwt(claims: dict[str, object]) -> str:
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, secrets.token_urlsafe(32)])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: LoginServer

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if not self.path.startswith("/oauth/authorize"):
            self.reply(404, b"")
            return
        with self.state.lock:
            there = self.state.agree(self.path)
        self.send_response(302)
        self.send_header("Location", there)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        if path == "/backend-api/codex/responses":
            self.respond()
        elif question := DEVICE_QUESTIONS.get(path):
            with self.state.lock:
                status, answer = self.state.device(question, json.loads(body))
            self.reply(404 if self.state.fault == "no device" else status, answer)
        elif path in {"/oauth/token", "/oauth/revoke"}:
            form = {name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True).items()}
            self.token(form) if path == "/oauth/token" else self.revoke(form)

    def token(self, form: dict[str, str]) -> None:
        fault = self.state.fault
        if fault in {"", "lost", "slow"}:
            with self.state.lock:
                status, answer = self.state.grant(form)
                self.state.refusals += status != 200
            if fault == "slow":
                self.state.ended.wait(self.state.slow_s)
            if fault == "lost":
                self.close_connection = True
            else:
                self.reply(status, json.dumps(answer).encode())
        elif fault == "html":
            self.reply(200, b"<!doctype html><h1>Just a moment</h1>", "text/html")
        elif fault == "huge":
            self.reply(200, b" " * HUGE)
        elif fault == "500":
            self.reply(500, b"{}")
        else:
            self.state.ended.wait(60)

    def revoke(self, form: dict[str, str]) -> None:
        if self.state.can_revoke:
            self.state.revoked.append(form["token"])
        self.reply(200 if self.state.can_revoke else 404, b"{}")

    def respond(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with self.state.lock:
            self.state.asked.append({name.lower(): value for name, value in self.headers.items()})
            valid = self.state.access.get(token, 0.0) > time.monotonic()
        if not valid or self.headers.get("chatgpt-account-id") != ACCOUNT:
            self.reply(
                401, json.dumps({"error": {"code": "token_expired", "message": f"{token} has expired"}}).encode()
            )
            return
        events = b"".join(rendering.events("responses", self.state.turn(), "gpt-5"))
        self.reply(200, events, "text/event-stream")

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        with suppress(OSError):  # of a client that was killed
            self.end_headers()
            self.wfile.write(body)


@contextmanager
def serve_logins() -> Iterator[LoginServer]:
    state = LoginServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def callback_port() -> Iterator[None]:
    """Have the port that browsers come back to for this test alone; others run meanwhile, also of other users."""
    with socket.socket() as turn:
        assert wait_until(partial(_is_bound, turn))
        yield


def _is_bound(turn: socket.socket) -> bool:
    # Nothing listens there; a lock file of another user could not be opened.
    try:
        turn.bind(("127.0.0.1", 1454))
    except OSError:
        return False
    return True


def browse(url: str, *, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Ask for a URL as a browser does, redirects included; return the last status and text."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(url, headers=headers, method=method), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
