"""An MCP server that wants a login, with its authorization server, on loopback; `fault` is what it does wrong.

Codes and refresh tokens work once, for who has the verifier and names the server as the resource.
"""

import base64
import hashlib
import json
import secrets
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from support.mcp_web import answer_of

HUGE = 5_000_000
ELSEWHERE = "http://auth.example.invalid"


class OAuthServer(ThreadingHTTPServer):
    """Knows which tokens it gave; `seen` has (method, path, form or None, Authorization) of each request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.url = f"{self.origin}/mcp"
        self.fault = ""
        self.leads = {}  # members of its metadata that name other addresses, and the one of its challenge
        self.lifetime_s = 3600
        self.scope = ""  # that a call needs, besides `base`
        self.seen = []
        self.codes, self.access, self.refresh = {}, {}, {}
        self.clients, self.secrets = [], []
        self.lock = threading.Lock()

    def handle_error(self, *_):
        pass

    def asked(self, path):
        return [form for _, each, form, _ in self.seen if each == path]

    def issue(self, scope):
        access, refresh = f"at-{secrets.token_urlsafe(24)}", f"rt-{secrets.token_urlsafe(24)}"
        self.access[access], self.refresh[refresh] = scope, scope
        self.secrets += [access, refresh]
        answer = {"access_token": access, "token_type": "bearer", "expires_in": self.lifetime_s, "scope": scope}
        return 200, answer if self.fault == "no refresh" else {**answer, "refresh_token": refresh}

    def grant(self, form):
        if form.get("resource") != self.url or form.get("client_id") not in self.clients:
            return 400, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            scope = self.refresh.pop(form["refresh_token"], None)
            return (400, {"error": "invalid_grant"}) if scope is None else self.issue(scope)
        asked = self.codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (asked.get("code_challenge"), asked.get("redirect_uri")) != (challenge, form["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        return self.issue(asked.get("scope", ""))

    def metadata(self):
        issuer = self.origin
        page = ELSEWHERE if self.fault == "page elsewhere" else self.origin
        return {
            "issuer": ELSEWHERE if self.fault == "issuer" else issuer,
            "authorization_endpoint": f"{page}/authorize{'#x' if self.fault == 'fragment' else ''}",
            "token_endpoint": f"{ELSEWHERE if self.fault == 'token elsewhere' else self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "authorization_response_iss_parameter_supported": True,
            "code_challenge_methods_supported": ["plain"] if self.fault == "plain" else ["S256"],
        } | self.leads


class _Handler(BaseHTTPRequestHandler):
    server: OAuthServer

    def do_GET(self):
        server, parts = self.server, urlsplit(self.path)
        server.seen.append(("GET", parts.path, None, self.headers["authorization"]))
        if parts.path == "/.well-known/oauth-protected-resource/mcp":
            if server.fault == "redirect":
                self.reply(302, b"", location=f"{server.other}/metadata")
                return
            resource = "https://other.example/mcp" if server.fault == "resource" else server.url
            self.json(200, {"resource": resource, "authorization_servers": [server.origin]} | server.leads)
        elif parts.path == "/.well-known/oauth-authorization-server":
            self.json(200, server.metadata() | ({"x": "y" * HUGE} if server.fault == "huge" else {}))
        elif parts.path == "/authorize":
            asked = dict(parse_qsl(parts.query))
            code = secrets.token_urlsafe(16)
            server.codes[code] = asked
            answer = {"code": code, "state": asked["state"], "iss": server.origin}
            if server.fault == "iss":
                answer["iss"] = ELSEWHERE
            if server.fault == "refusal":
                answer = {"error": "access_denied", "state": asked["state"]}
            self.reply(302, b"", location=f"{asked['redirect_uri']}?{urlencode(answer)}")
        else:
            self.reply(405 if parts.path == "/mcp" else 404, b"")

    def do_POST(self):
        server, body = self.server, self.rfile.read(int(self.headers["content-length"]))
        form = json.loads(body) if self.path in {"/mcp", "/register"} else dict(parse_qsl(body.decode()))
        with server.lock:
            server.seen.append(("POST", self.path, form, self.headers["authorization"]))
            if self.path == "/register":
                server.clients.append(secrets.token_hex(8))
                self.json(201, {**form, "client_id": server.clients[-1]})
            elif self.path == "/token":
                self.json(*server.grant(form))
            elif self.path == "/revoke":
                server.refresh.pop(form["token"], None)
                self.json(200, {})
            else:
                self.serve(form)

    def serve(self, message):
        """Answer a message of the protocol."""
        scope = self.server.access.get((self.headers["authorization"] or "").removeprefix("Bearer "))
        if scope is None:
            named = self.server.leads.get("resource_metadata")
            self.reply(401, b"", challenge='Bearer scope="base"' + (f', resource_metadata="{named}"' if named else ""))
        elif "id" not in message:
            self.reply(202, b"")
        elif message["method"] == "tools/call" and not {*self.server.scope.split()} <= {*scope.split()}:
            self.reply(403, b"", challenge=f'Bearer error="insufficient_scope", scope="{self.server.scope}"')
        else:
            self.json(200, {"jsonrpc": "2.0", "id": message["id"], **answer_of(message)})

    def json(self, status, content):
        self.reply(status, json.dumps(content).encode())

    def reply(self, status, body, *, location="", challenge=""):
        self.send_response(status)
        for name, value in (("location", location), ("www-authenticate", challenge)):
            if value:
                self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serve_oauth():
    server = OAuthServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def agree(page):
    """Open a page as the user's browser does, which follows redirects; return the text it ends at."""
    with build_opener(ProxyHandler({})).open(page, timeout=20) as answer:
        return answer.read().decode()
