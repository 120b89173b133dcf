"""TCP ports of this machine that one holder has for itself: bound sockets, which the kernel closes when it dies.

A held port is bound without SO_REUSEADDR, which fails if anything has the port, and then gets SO_REUSEADDR without
listening: so another holder still fails, and a server that sets SO_REUSEADDR, as all common ones do, can listen there.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.atomic_files import write_atomic
from scaffold.host.process_identity import is_alive, own_identity

FIRST, COUNT = 20_000, 10_000
"""The range: below the one from which Linux and macOS choose ports for outgoing connections."""
SERVERS = "servers"
"""The folder of the user's data with a file for each server of pages that runs; it has no token."""


class HeldPorts:
    """Ports that belong to this process until `close`."""

    def __init__(self, name: str, count: int) -> None:
        """Hold `count` ports: the same ones for the same `name`, unless others have them.

        Raises ScaffoldError if there are not so many.
        """
        self.ports: tuple[int, ...] = ()
        with ExitStack() as held:
            for port in _candidate_ports(name):
                if (bound := _bind_port(port)) is not None:
                    held.enter_context(bound)
                    self.ports += (port,)
                if len(self.ports) == count:
                    break
            else:
                raise ScaffoldError(
                    f"no TCP port from {FIRST} to {FIRST + COUNT - 1} is free", "Stop a program that listens."
                )
            self._held = held.pop_all()

    def close(self) -> None:
        """Give the ports back; safe to repeat."""
        self._held.close()


def _candidate_ports(name: str) -> Iterator[int]:
    """Yield all ports of the range once, in an order that depends on the name."""
    digest = sha256(name.encode()).digest()
    # Odd, and no multiple of 5: such a step through 10,000 numbers meets each of them.
    start, step = int.from_bytes(digest[:8]), int.from_bytes(digest[8:16]) // 10 * 10 + 7
    return ((start + step * number) % COUNT + FIRST for number in range(COUNT))


def _bind_port(port: int) -> socket.socket | None:
    """Return a socket that has the port on all IPv4 addresses; None if any program has it on one, or on one of IPv6."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind(("", port))
        # Not kept: with it, a server for both kinds of addresses could not listen.
        _try_ipv6(port)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        bound.close()
        return None
    return bound


def _try_ipv6(port: int) -> None:
    """Raise OSError if a program has the port on an IPv6 address."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tried.bind(("::", port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        # This machine has no such addresses.


class ServedAddress(Struct, frozen=True):
    """A running server."""

    url: str
    """`http://127.0.0.1:PORT`, without a path."""
    process: ProcessIdentity


@contextmanager
def announced_address(data: Path, url: str) -> Iterator[None]:
    """Have `served_address` find this process at `url` for the time of the block; `data` is the user's folder."""
    path = data / SERVERS / f"{os.getpid()}.json"
    write_atomic(path, msgspec.json.encode(ServedAddress(url, own_identity())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def served_address(data: Path) -> str | None:
    """Return the address of a server that runs, the one started last; None without one."""
    found = list[tuple[float, str]]()
    for path in (data / SERVERS).glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):  # ended meanwhile, or half removed
            server = msgspec.json.decode(path.read_bytes(), type=ServedAddress)
            if is_alive(server.process):
                found.append((path.stat().st_mtime, server.url))
            else:
                path.unlink(missing_ok=True)  # it was killed
    return max(found)[1] if found else None
