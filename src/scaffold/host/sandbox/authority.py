"""What a request to a proxy asks for, and whether that is a host that was named; from bytes to values, no more."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address

from msgspec import Struct

USUAL_PORTS = (80, 443)
"""What a host that is named without a port stands for."""

_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~\x80-\xff]{1,8192}) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\0\r\n]*")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_DROPPED = frozenset({b"host", b"connection", b"keep-alive", b"upgrade"})


class Place(Struct, frozen=True):
    """A host, in small letters without brackets and final dot, and a port of it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Request(Struct, frozen=True):
    """What a command asked the proxy for."""

    place: Place
    forwarded: bytes
    """The head as the host expects it; empty where only a tunnel is wanted."""


class Refused(Exception):
    """A request that is not carried out."""

    def __init__(self, code: int, place: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.place = place
        self.reason = reason

    def answer(self) -> bytes:
        """Return what to say to whoever asked."""
        body = f"{self.reason}\n".encode(errors="replace")
        lines = (
            f"HTTP/1.1 {self.code} {HTTPStatus(self.code).phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def named(place: Place, hosts: Sequence[str]) -> bool:
    """Tell whether one of `hosts` names this place: `NAME`, `*.NAME` for all below it, an address, each with `:PORT`.

    Without a port it stands for those of the web. Rules that cannot be read name nothing.
    """
    return any(_names(rule.strip().casefold(), place) for rule in hosts)


def _names(rule: str, place: Place) -> bool:
    whole = _place(rule, 0)
    if whole is None:
        return False
    below = whole.host.removeprefix("*.")
    fits = place.host.endswith(f".{below}") and not _is_address(place.host)
    same = fits if below != whole.host else place.host == whole.host
    return same and place.port in ((whole.port,) if whole.port else USUAL_PORTS)


def requested(head: bytes) -> Request:
    """Read the head of a request, with its empty line at the end; Refused if it is none for a proxy."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _LINE.fullmatch(line)
    if not found or not all(map(_FIELD.fullmatch, fields)):
        raise Refused(400, "-", "this is no HTTP request")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        place = _place(target, 0)
        if place is None or not place.port or "*" in place.host:
            raise Refused(400, target[:200], "CONNECT wants HOST:PORT")
        return Request(place, b"")
    return _plain(method, target, fields)


def _plain(method: bytes, target: str, fields: list[bytes]) -> Request:
    scheme, _, rest = target.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    place = _place(authority, 80)
    if scheme.casefold() != "http" or place is None or "*" in place.host:
        raise Refused(400, target[:200], "only CONNECT and requests with a whole http:// URL are understood")
    path = rest.removeprefix(authority).partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    host = str(place).removesuffix(":80")
    kept = (field for field in fields if not _is_dropped(field))
    head = (method + b" " + path.encode("latin-1") + b" HTTP/1.1", b"Host: " + host.encode(), *kept)
    return Request(place, b"\r\n".join((*head, b"Connection: close")) + b"\r\n\r\n")


def _is_dropped(field: bytes) -> bool:
    """Tell whether a field is between the command and us; the host is the one that was judged, whatever they say."""
    name = field.partition(b":")[0].lower()
    return name in _DROPPED or name.startswith(b"proxy-")


def _place(authority: str, port: int) -> Place | None:
    """Read `HOST[:PORT]`, an IPv6 address in brackets; None if it is something else, like one with a user's name."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", authority)
    if not found:
        return None
    host = found[1].strip("[]").casefold().removesuffix(".")
    number = int(found[2]) if found[2] else port
    if not 0 <= number <= 65_535 or (found[2] and not number):
        return None
    if _is_address(host):
        return Place(str(ip_address(host)), number)
    return Place(host, number) if len(host) <= 253 and _NAME.fullmatch(host.removeprefix("*.")) else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
