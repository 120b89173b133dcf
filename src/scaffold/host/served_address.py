"""Where a server of the user's runs can be reached, for programs that link to its pages; never its tokens."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.core.model import ProcessIdentity
from scaffold.host.atomic_files import write_atomic
from scaffold.host.process_identity import is_alive, own_identity

FOLDER = "servers"


class ServedAddress(Struct, frozen=True):
    """A running server."""

    url: str
    """`http://127.0.0.1:PORT`, without a path."""
    process: ProcessIdentity


@contextmanager
def announced_address(data: Path, url: str) -> Iterator[None]:
    """Have `served_address` find this process at `url` for the time of the block; `data` is the user's folder."""
    path = data / FOLDER / f"{os.getpid()}.json"
    write_atomic(path, msgspec.json.encode(ServedAddress(url, own_identity())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def served_address(data: Path) -> str | None:
    """Return the address of a server that runs, the one started last; None without one."""
    found = list[tuple[float, str]]()
    for path in (data / FOLDER).glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):  # ended meanwhile, or half removed
            server = msgspec.json.decode(path.read_bytes(), type=ServedAddress)
            if is_alive(server.process):
                found.append((path.stat().st_mtime, server.url))
            else:
                path.unlink(missing_ok=True)  # it was killed
    return max(found)[1] if found else None
