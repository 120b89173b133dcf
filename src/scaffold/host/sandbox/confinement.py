"""What a command may access, as values independent of the mechanism that enforces it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.run_settings import NetworkMode

Level = Literal["bubblewrap", "landlock", "seatbelt", "none"]
"""The enforcing mechanism, from strong to none; `seatbelt` is macOS's."""

NetworkAccess = NetworkMode | Literal["open"]
"""The user's network mode, or `open`: the machine's whole network, for trusted installation commands."""

GIBIBYTE = 1 << 30


class ResourceLimits(Struct, frozen=True, kw_only=True):
    """Resource limits of one command, -1 for the system's limit; the caller limits the time."""

    processes: int = 1_000
    memory_bytes: int = 16 * GIBIBYTE
    """Private memory of each process."""
    file_bytes: int = 16 * GIBIBYTE
    """Size of each written file."""


UNCONFINED_LIMITS = ResourceLimits(memory_bytes=-1, file_bytes=-1)
"""Limits of a command without a confinement."""


class Confinement(Struct, frozen=True, kw_only=True):
    """What a command may access; paths are absolute and free of symlinks. Unnamed paths are read-only."""

    writable: tuple[Path, ...]
    """Folders it may write."""
    temporary: Path
    """Its writable TMPDIR; the system's temporary folders look empty and are read-only."""
    scratch: bool = False
    """Whether it has a new, writable /tmp of its own at the level `bubblewrap`, for programs that know no TMPDIR."""
    protected: tuple[Path, ...] = ()
    """Read-only paths in the writable folders; missing ones cannot be created."""
    hidden: tuple[Path, ...] = ()
    """Files and folders whose content is hidden."""
    readable: tuple[Path, ...] = ()
    """Readable paths inside hidden ones or the system's temporary folders."""
    sockets: tuple[Path, ...] = ()
    """Unix sockets outside the writable folders, or folders of such, that it may connect to."""
    network: NetworkAccess = "loopback"
    hosts: tuple[str, ...] = ()
    """If `network` is `hosts`: the allowed hosts, `*.example.com` for all subdomains, each with an optional `:PORT`."""
    ports: tuple[int, ...] = ()
    """Ports of this machine's 127.0.0.1 that it may connect to, at the levels other than `bubblewrap`."""
    limits: ResourceLimits = ResourceLimits()


class SandboxSpec(Struct, frozen=True):
    """A confinement and the mechanism that enforces it."""

    level: Level
    confinement: Confinement
    proxy: Path | None = None
    """The socket of the proxy to the allowed hosts; None: no host can be reached, but by `port`."""
    program: str = ""
    """At level `bubblewrap`: the bubblewrap to start; empty: the first installed one."""
    variables: Mapping[str, Path] = {}
    """What commands get besides their own variables: files that have other places inside."""
    port: int | None = None
    """The port of that proxy on loopback, at the levels other than `bubblewrap`."""
    known: frozenset[str] | None = None
    """Paths in the workspace named like secrets that are hidden, or are none; None: do not look for later ones."""


class DeferredSandbox:
    """The sandbox of commands that may never run: what it confines is found out for the first one.

    That takes a look through the home, the checkout and git's settings.
    """

    def __init__(
        self, level: Level, network: NetworkAccess, hosts: tuple[str, ...], build: Callable[[], Awaitable[SandboxSpec]]
    ) -> None:
        self.level = level
        self.network = network
        self.hosts = hosts
        self._build = build
        self._lock = asyncio.Lock()
        self._spec: SandboxSpec | None = None

    async def spec(self) -> SandboxSpec:
        """Return the sandbox, which is the same for all commands."""
        async with self._lock:
            self._spec = self._spec or await self._build()
            return self._spec


CommandSandbox = SandboxSpec | DeferredSandbox


async def built(sandbox: CommandSandbox | None) -> SandboxSpec | None:
    """Return a sandbox for a command that starts now."""
    return await sandbox.spec() if isinstance(sandbox, DeferredSandbox) else sandbox
