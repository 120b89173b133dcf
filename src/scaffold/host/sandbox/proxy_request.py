"""Parse proxy requests and match hosts against the allowed ones. Pure."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address

from msgspec import Struct

DEFAULT_PORTS = (80, 443)
"""Ports allowed by a host rule without a port."""

_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~\x80-\xff]{1,8192}) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\0\r\n]*")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_DROPPED = frozenset({b"host", b"connection", b"keep-alive", b"upgrade"})


class HostPort(Struct, frozen=True):
    """A host, lower case, without brackets and final dot, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class OuterProxy(Struct, frozen=True):
    """The user's own proxy."""

    place: HostPort
    login: str
    """User and password as HTTP's basic authentication encodes them; empty without."""


class ProxyRequest(Struct, frozen=True):
    """A parsed request to the proxy."""

    destination: HostPort
    forwarded: bytes
    """The request head to forward to the host; empty for a CONNECT tunnel."""


class ProxyRefusal(Exception):
    """A request was refused, with an HTTP status and a reason."""

    def __init__(self, code: int, destination: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.destination = destination
        self.reason = reason

    def answer(self) -> bytes:
        """Return the HTTP response for the client."""
        body = f"{self.reason}\n".encode(errors="replace")
        lines = (
            f"HTTP/1.1 {self.code} {HTTPStatus(self.code).phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def matches_any_host(destination: HostPort, hosts: Sequence[str]) -> bool:
    """Return True if a rule in `hosts` matches: `NAME`, `*.NAME` for all subdomains, or an address, each with `:PORT`.

    A rule without a port means 80 and 443. An invalid rule matches nothing.
    """
    for rule in hosts:
        whole = _host_port(rule.strip().casefold(), 0)
        if whole is None or destination.port not in ((whole.port,) if whole.port else DEFAULT_PORTS):
            continue
        below = whole.host.removeprefix("*.")
        # A pattern for subdomains is not one for addresses.
        fits = destination.host.endswith(f".{below}") and not _is_address(destination.host)
        if fits if below != whole.host else destination.host == whole.host:
            return True
    return False


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a request head, including the empty line at its end; ProxyRefusal if it is not a proxy request."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _LINE.fullmatch(line)
    if not found or not all(map(_FIELD.fullmatch, fields)):
        raise ProxyRefusal(400, "-", "this is not an HTTP request")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        destination = _host_port(target, 0)
        if destination is None or not destination.port or "*" in destination.host:
            raise ProxyRefusal(400, target[:200], "CONNECT needs HOST:PORT")
        return ProxyRequest(destination, b"")
    return _plain_request(method, target, fields)


def _plain_request(method: bytes, target: str, fields: list[bytes]) -> ProxyRequest:
    scheme, _, rest = target.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    destination = _host_port(authority, 80)
    if scheme.casefold() != "http" or destination is None or "*" in destination.host:
        raise ProxyRefusal(400, target[:200], "only CONNECT and requests with an absolute http:// URL are supported")
    path = rest.removeprefix(authority).partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    host = str(destination).removesuffix(":80")
    # Without hop-by-hop fields, and without Host, which is always set to the host that was checked.
    names = (field.partition(b":")[0].lower() for field in fields)
    kept = [
        field
        for field, name in zip(fields, names, strict=True)
        if name not in _DROPPED and not name.startswith(b"proxy-")
    ]
    head = (method + b" " + path.encode("latin-1") + b" HTTP/1.1", b"Host: " + host.encode(), *kept)
    # What follows the head is passed on unread, so the server must not keep the connection for another request.
    return ProxyRequest(destination, b"\r\n".join((*head, b"Connection: close")) + b"\r\n\r\n")


def _host_port(authority: str, port: int) -> HostPort | None:
    """Parse `HOST[:PORT]`, IPv6 in brackets; `port` is the default. None if invalid, e.g. with a user name."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", authority)
    if not found:
        return None
    host = found[1].strip("[]").casefold().removesuffix(".")
    number = int(found[2]) if found[2] else port
    if not 0 <= number <= 65_535 or (found[2] and not number):
        return None
    if _is_address(host):
        return HostPort(str(ip_address(host)), number)
    return HostPort(host, number) if len(host) <= 253 and _NAME.fullmatch(host.removeprefix("*.")) else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
