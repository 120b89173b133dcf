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


class ProxySettings:
    """The proxies from the usual environment variables; lower-case names take precedence."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._of = {
            word: environ.get(f"{word}_proxy") or environ.get(f"{word}_proxy".upper()) or ""
            for word in ("http", "https", "all", "no")
        }

    def way(self, url: str) -> Route:
        """Return the route to `url`; without a proxy for loopback hosts and those in `no_proxy`.

        ValueError if the URL or the proxy's is not valid.
        """
        parts = urlsplit(url)
        server = address(parts)
        proxy = self._of.get(parts.scheme) or self._of["all"]
        if not proxy or self._excepts(server.host, parts.port) or is_loopback(server.host):
            return Route(server)
        there = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        login = f"{unquote(there.username)}:{unquote(there.password or '')}" if there.username else ""
        basic = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        return Route(server, address(there), basic)

    def _excepts(self, host: str, port: int | None) -> bool:
        """Return True if `no_proxy` lists `host`, with or without its port, or a parent domain."""
        names = [name.strip().lower().lstrip(".") for name in self._of["no"].split(",")]
        return any(
            name in {"*", candidate} or candidate.endswith(f".{name}")
            for name in names
            if name
            for candidate in (host, f"{host}:{port}")
        )


def address(parts: SplitResult) -> Address:
    """Return the server of a URL; ValueError if it names none that speaks HTTP."""
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(parts.scheme)
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    return Address(host, parts.port or DEFAULT_PORTS[parts.scheme], parts.scheme == "https")


def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without brackets, is the loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
