"""The proxies of the environment, and the way to a URL through them."""

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

DEFAULT_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """A server: its host, without brackets, its port, and whether it speaks TLS."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """How a URL and `Host` name it: without the port if that is the usual one."""
        return str(self).removesuffix(f":{DEFAULT_PORTS['https' if self.tls else 'http']}")


class Route(Struct, frozen=True):
    """The way to a server; with a proxy for https the connection is a tunnel through it."""

    server: Address
    proxy: Address | None = None
    authorization: str = ""
    """The value of `Proxy-Authorization`; empty without credentials."""

    @property
    def tunnel(self) -> bool:
        """Return whether the proxy sees only encrypted bytes."""
        return self.proxy is not None and self.server.tls


class UnusableProxy(Exception):
    """The proxy of the environment does not speak HTTP, such as one for SOCKS."""


class ProxySettings:
    """The proxies from the usual environment variables; lower-case names take precedence."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._of = {
            word: environ.get(f"{word}_proxy") or environ.get(f"{word}_proxy".upper()) or ""
            for word in ("http", "https", "all", "no")
        }

    def way(self, url: str) -> Route:
        """Return the route to `url`; without a proxy for loopback hosts and those in `no_proxy`.

        ValueError if the URL is not valid, UnusableProxy if the proxy's is not.
        """
        parts = urlsplit(url)
        server = address(parts)
        proxy = self._of.get(parts.scheme) or self._of["all"]
        # An entry lists a host or its network, with or without its port, or a parent domain.
        exempt = self._of["no"].lower().replace(",", " ").split()
        is_exempt = any(_covers_host(name.removesuffix(f":{server.port}"), server.host) for name in exempt)
        if not proxy or is_exempt or is_loopback(server.host):
            return Route(server)
        try:
            there = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            there_address = address(there)
        except ValueError as error:
            raise UnusableProxy from error
        login = f"{unquote(there.username)}:{unquote(there.password or '')}" if there.username else ""
        basic = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        return Route(server, there_address, basic)


def _covers_host(name: str, host: str) -> bool:
    """Return whether an entry of `no_proxy`, without a port, means a host: `*`, a domain, an address, a network."""
    domain = name.removeprefix("*").lstrip(".")
    if name == "*" or domain == host or (domain and host.endswith(f".{domain}")):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name.strip("[]"), strict=False)
    except ValueError:
        return False


def address(parts: SplitResult) -> Address:
    """Return the server of a URL; ValueError if it names none that speaks HTTP."""
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(parts.scheme)
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    return Address(host, parts.port or DEFAULT_PORTS[parts.scheme], parts.scheme == "https")


def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without brackets, is the loopback, or any address of this machine."""
    try:
        there = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return there.is_loopback or there.is_unspecified
