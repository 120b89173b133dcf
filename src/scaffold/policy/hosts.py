"""Network addresses in URLs and commands: which are never spoken to."""

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from scaffold.policy.addresses import is_public
from scaffold.policy.gate import Judgement

METADATA = tuple(
    ip_network(each)
    for each in (
        "169.254.0.0/16",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fd00:ec2::254/128",
        "fe80::/10",
    )
)
"""Where clouds hand out the keys of a machine."""
METADATA_NAMES = frozenset({
    *("metadata.google.internal", "metadata.goog", "metadata.azure.internal", "instance-data"),
    "instance-data.ec2.internal",
})  # fmt: skip

_HOST = re.compile(r"(?:^|//|@)(\[[0-9a-fA-F:.%]+\]|[\w.-]+)")
_DRESSED = re.compile(r"169[.-]254[.-]169[.-]254")
_NAMED = re.compile(r"[\w.-]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%[\w.-]+)?")
"""A name in any language, or an address; an IPv6 one may say its zone."""
_NEAR = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp")
_DOTS = str.maketrans("。", ".")
_SCHEMES = frozenset({"http", "https"})


def metadata_host(text: str) -> str | None:
    """Return the host in a word of a command or in a URL that hands out keys of a machine; None if there is none."""
    if found := _DRESSED.search(text):
        return found[0]
    return next((host for host in _HOST.findall(text) if _is_metadata(host)), None)


def denied_url(url: str) -> Judgement | None:
    """Return why nobody may fetch `url`; None if nothing speaks against it."""
    if any(ord(char) < 32 or ord(char) == 127 for char in url) or "\\" in url:
        return Judgement("deny", "network", "the URL has a backslash or a control character in it")
    try:
        parts = urlsplit(url)
        host = _as_resolved(parts.hostname or "", parts.port)
    except ValueError:
        return Judgement("deny", "network", "the URL cannot be read")
    if parts.scheme not in _SCHEMES or not host:
        return Judgement("deny", "network", f"only http and https are fetched, not `{parts.scheme or 'nothing'}`")
    if metadata_host(url) or _is_metadata(host):
        return Judgement("deny", "metadata", f"{host} hands out keys of this machine")
    if _is_near(host):
        return Judgement("deny", "network", f"{host} is not on the internet, but on this machine or beside it")
    return None


def _as_resolved(host: str, port: int | None) -> str:
    """Return a host as a resolver may be asked for it: letters folded, what is not seen left out, one kind of dot.

    ValueError if no host has such a name, or no service such a port.
    """
    folded = unicodedata.normalize("NFKC", host).translate(_DOTS)
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf").rstrip(".")
    if port == 0 or (seen and not _NAMED.fullmatch(seen)):
        raise ValueError(host)
    return seen


def _is_near(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return not is_public(str(address))
    return "." not in host or host.endswith(_NEAR)


def _is_metadata(host: str) -> bool:
    address = _address(host)
    return host.casefold().rstrip(".") in METADATA_NAMES or (
        address is not None and any(address in network for network in METADATA)
    )


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is when it is written as one, in any way a resolver reads it."""
    bare = host.strip("[]").partition("%")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        return _by_resolver(bare)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _by_resolver(host: str) -> IPv4Address | None:
    """Read `0xA9FEA9FE`, `2852039166`, `0251.0376.0251.0376` as the C library does."""
    if not re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)(\.(0[xX][0-9a-fA-F]+|\d+)){0,3}", host) or len(host) > 40:
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
