"""Sockets on loopback for a command under Landlock, which has no network of its own.

The broker creates each internet socket and ties it to the loopback device, which only root could undo: so no listener
can be reached from elsewhere, whatever its address. It also performs `bind` and `connect`. A connection leads only to
an address that a process of the same command has bound, or to an allowed port, so the other servers of this machine
stay out of reach. The command itself can make neither call, so that changing one meanwhile gains nothing.
"""

import _socket
import errno
import os
import sys
from _collections_abc import Collection  # known by that name already; `collections` takes 2 ms

MOST_KEPT, LEAST_KEPT = 512, 16
RESERVED = 620
"""Descriptors for the stock of files and for answering calls."""
SOCKADDR_BYTES = 128
TYPE_MASK = 0xF
SO_BINDTODEVICE = 25
LOOPBACK = b"lo"

Address = tuple[str, int]
"""An IP address as text and a port."""


class LoopbackSockets:
    """The sockets of one command that are neither bound nor connected yet, and the addresses it has bound."""

    def __init__(self, descriptors: int, ports: Collection[int]) -> None:
        """`descriptors` is how many this process may have open; most of them may be in use for files.

        `ports` of this machine's 127.0.0.1 may be connected to.
        """
        self._most = max(LEAST_KEPT, min(MOST_KEPT, descriptors - RESERVED))
        # A socket that has a peer or a port must be held by the command alone: else it could not close it.
        self._kept: dict[int, _socket.socket] = {}
        self._bound: set[Address] = set()
        self._allowed = {("127.0.0.1", port) for port in ports}

    def create(self, family: int, kind: int, protocol: int) -> int:
        """Return the descriptor of a new socket, which is ours to close; OSError EPERM unless it is TCP."""
        if kind & TYPE_MASK != _socket.SOCK_STREAM or protocol not in {0, _socket.IPPROTO_TCP}:
            raise _os_error(errno.EPERM)
        made = _socket.socket(family, kind & (TYPE_MASK | _socket.SOCK_NONBLOCK), protocol)
        made.setsockopt(_socket.SOL_SOCKET, SO_BINDTODEVICE, LOOPBACK)
        if len(self._kept) >= self._most:
            self._kept.pop(next(iter(self._kept))).close()
        self._kept[os.fstat(made.fileno()).st_ino] = made
        return os.dup(made.fileno())

    def bind(self, inode: int, raw: bytes) -> None:
        """Bind the socket with this inode to a `struct sockaddr`; OSError as from the call."""
        made = self._kept_socket(inode)
        host, port = _parse_address(raw, made.family)
        if not _is_loopback(host) and host not in {"0.0.0.0", "::"}:  # noqa: S104 - on the loopback device only
            raise _os_error(errno.EADDRNOTAVAIL)
        for other in _reached_addresses(host, port, dual=True) - self._bound:
            # Another server of the user that shares its port would get connections meant for this one.
            made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEPORT, 0)
            # Also refused if another would share it: the command can set the option again at any moment.
            probe = _socket.socket(_socket.AF_INET6 if ":" in other[0] else _socket.AF_INET, _socket.SOCK_STREAM)
            try:
                probe.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)  # closed connections do not count
                probe.bind(other)
            finally:
                probe.close()
        made.bind((host, port))
        dual = made.family == _socket.AF_INET6 and not made.getsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY)
        host, port, *_ = made.getsockname()
        self._bound.update(_reached_addresses(host, port, dual=dual))
        self._release_socket(inode)

    def connect(self, inode: int, raw: bytes) -> None:
        """Connect the socket with this inode to a `struct sockaddr`; OSError as from the call."""
        made = self._kept_socket(inode)
        host, port = _parse_address(raw, made.family)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - as the kernel takes it
        if not _is_loopback(host):
            raise _os_error(errno.ENETUNREACH)
        address = host.removeprefix("::ffff:"), port
        if address not in self._bound and address not in self._allowed:
            raise _os_error(errno.ECONNREFUSED)
        try:
            made.connect((host, port))
        except BlockingIOError:  # it goes on in the background
            self._release_socket(inode)
            raise
        self._release_socket(inode)

    def blocks(self, inode: int) -> bool:
        """Return True if the socket's calls wait until they are done."""
        return os.get_blocking(self._kept_socket(inode).fileno())

    def _kept_socket(self, inode: int) -> _socket.socket:
        if inode not in self._kept:
            raise _os_error(errno.EPERM)
        return self._kept[inode]

    def _release_socket(self, inode: int) -> None:
        if made := self._kept.pop(inode, None):
            made.close()


def _parse_address(raw: bytes, family: int) -> Address:
    """Return the address of a `struct sockaddr_in` or `sockaddr_in6`."""
    size = 16 if family == _socket.AF_INET else 24
    if len(raw) < size:
        raise _os_error(errno.EINVAL)
    if int.from_bytes(raw[:2], sys.byteorder) != family:
        raise _os_error(errno.EAFNOSUPPORT)
    port = int.from_bytes(raw[2:4], "big")
    return _socket.inet_ntop(family, raw[4:8] if family == _socket.AF_INET else raw[8:24]), port


def _is_loopback(host: str) -> bool:
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")


def _reached_addresses(host: str, port: int, *, dual: bool) -> set[Address]:
    """Return the loopback addresses that reach a socket bound to `host`; `dual` if one for IPv6 also takes IPv4."""
    match host:
        case "0.0.0.0":  # noqa: S104 - compared only
            return {("127.0.0.1", port)}
        case "::":
            return {("::1", port), *({("127.0.0.1", port)} if dual else ())}
        case _:
            return {(host.removeprefix("::ffff:"), port)}


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
