"""Tell public addresses from local ones, and find hosts that may never be contacted in URLs and commands."""

import asyncio
import re
import socket
import unicodedata
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from scaffold.policy.rule.ruleset import PolicyDecision

METADATA_NETWORKS = tuple(
    ip_network(each)
    for each in (
        # Link-local, Alibaba, Azure; Oracle, EC2 by IPv6, link-local by IPv6.
        *("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"),
        *("192.0.0.192/32", "fd00:ec2::254/128", "fe80::/10"),
    )
)
"""Addresses of cloud metadata services, which serve a machine's credentials."""
METADATA_NAMES = frozenset({
    *("metadata.google.internal", "metadata.goog", "metadata.azure.internal", "instance-data"),
    "instance-data.ec2.internal",
})  # fmt: skip

_HOST = re.compile(r"(?:^|//|@)(\[[0-9a-fA-F:.%]+\]|[\w.-]+)")
# Anywhere in the text: services such as nip.io resolve `169-254-169-254.nip.io` to the address in the name.
_EMBEDDED = re.compile(r"169[.-]254[.-]169[.-]254")
_NAMED = re.compile(r"[\w.-]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%[\w.-]+)?")
"""A host name in any script, or an address; an IPv6 address may have a zone."""
_LOCAL_SUFFIXES = (
    *(".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp"),
)
# Resolvers take the ideographic full stop for a dot, and NFKC leaves it as it is.
_DOTS = str.maketrans("。", ".")
_SCHEMES = frozenset({"http", "https"})
_AZURE_HOST = IPv4Address("168.63.129.16")
"""Serves metadata and credentials to Azure machines, although the address looks public."""
AddressFilter = Callable[[str], bool]
"""Returns True for an IP address, as text, that may be connected to."""
AddressInfo = tuple[socket.AddressFamily, int, str]
"""A family, a protocol and an address."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""The NAT64 prefix: the last four bytes are the IPv4 address that is reached."""


class LocalAddress(Exception):
    """A host has an address that may not be connected to."""

    def __init__(self, host: str, address: str) -> None:
        self.place = host if host == address else f"{host} ({address})"
        super().__init__(f"{self.place} is not a public address")


async def admitted_addresses(
    host: str, port: int, *, admits: AddressFilter, family: int = socket.AF_UNSPEC
) -> Sequence[AddressInfo]:
    """Return the addresses of a host, which it may spell in any notation; LocalAddress if one is not admitted.

    The caller connects to these very addresses, so a second DNS answer cannot differ (DNS rebinding).
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    addresses = [(kind, protocol, str(endpoint[0])) for kind, _, protocol, _, endpoint in found]
    # All of them: the connection may be made to any.
    for _, _, address in addresses:
        if not admits(address):
            raise LocalAddress(host, address)
    return addresses


def metadata_host(text: str) -> str | None:
    """Return the cloud metadata host in a word of a command or in a URL; None if there is none."""
    if found := _EMBEDDED.search(text):
        return found[0]
    return next((host for host in _HOST.findall(text) if _is_metadata(host)), None)


def denied_url(url: str) -> PolicyDecision | None:
    """Return the denial if `url` may never be fetched, else None."""
    # Parsers differ here: `urlsplit` drops tabs and line breaks, and browsers take a backslash for a slash.
    if any(ord(char) < 32 or ord(char) == 127 for char in url) or "\\" in url:
        return PolicyDecision("deny", "network", "the URL contains a backslash or a control character")
    try:
        parts = urlsplit(url)
        host = _as_resolved(parts.hostname or "", parts.port)
    except ValueError:
        return PolicyDecision("deny", "network", "the URL is invalid")
    if parts.scheme not in _SCHEMES or not host:
        return PolicyDecision("deny", "network", "only http and https URLs with a host may be fetched")
    # Both: the text as it stands may hide a host from the parser, and the parsed host may differ from the text.
    if metadata_host(url) or _is_metadata(host):
        return PolicyDecision("deny", "metadata", f"{host} is a cloud metadata service with credentials")
    address = _parse_address(host)
    # A name without a dot is completed with the search domain of this network.
    is_local = "." not in host or host.endswith(_LOCAL_SUFFIXES) if address is None else not is_public(str(address))
    if is_local:
        return PolicyDecision("deny", "network", f"{host} is on this machine or its network, not on the internet")
    return None


def _as_resolved(host: str, port: int | None) -> str:
    """Return the host as a resolver reads it; ValueError if the host name or port is invalid."""
    # Resolvers fold compatibility characters and ignore invisible ones.
    folded = unicodedata.normalize("NFKC", host).translate(_DOTS)
    visible = "".join(char for char in folded if unicodedata.category(char) != "Cf").rstrip(".")
    if port == 0 or (visible and not _NAMED.fullmatch(visible)):
        raise ValueError(host)
    return visible


def _is_metadata(host: str) -> bool:
    address = _parse_address(host)
    return host.casefold().rstrip(".") in METADATA_NAMES or (
        address is not None and any(address in network for network in METADATA_NETWORKS)
    )


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that `host` spells in any notation that resolvers accept; None for a name."""
    bare = host.strip("[]").partition("%")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        # `inet_aton` ignores everything after a space, so only texts of nothing but numbers may reach it.
        if not re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)(\.(0[xX][0-9a-fA-F]+|\d+)){0,3}", bare) or len(bare) > 40:
            return None
        try:
            return IPv4Address(socket.inet_aton(bare))
        except OSError:
            return None
    # `::ffff:169.254.169.254` connects to the IPv4 address.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_public(text: str) -> bool:
    """Return whether `text` is a public internet address; False for anything that is not an address.

    IPv4 addresses embedded in an IPv6 address must be public too.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    # Python counts some multicast and reserved addresses as global.
    return all(
        each.is_global and not each.is_multicast and not each.is_reserved and each != _AZURE_HOST
        for each in _embedded_addresses(address)
    )


def _embedded_addresses(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    # 6to4 and Teredo addresses lead through a gateway to the IPv4 address inside them.
    inner = (address.sixtofour, *(address.teredo or ()))
    return (address, *(each for each in inner if each))
