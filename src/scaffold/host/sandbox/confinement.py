"""What a command may reach, as a value; which mechanism holds it to that is another question."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.model import Network

Level = Literal["bubblewrap", "landlock", "seatbelt", "none"]
"""What holds a command, from strong to not at all; `seatbelt` is macOS's."""

Reach = Network | Literal["open"]
"""What a command reaches: as its user says, or all of the machine's network, for what is trusted to install things."""

GIBIBYTE = 1 << 30


class Limits(Struct, frozen=True, kw_only=True):
    """What one command may use up, -1 for as much as the system gives; time is bounded by whoever runs it."""

    processes: int = 1_000
    memory_bytes: int = 16 * GIBIBYTE
    """Private memory of each process."""
    file_bytes: int = 16 * GIBIBYTE
    """Of each file it writes."""


FREE = Limits(memory_bytes=-1, file_bytes=-1)
"""What holds for a command without a confinement."""


class Confinement(Struct, frozen=True, kw_only=True):
    """What a command may reach; all paths are absolute and without links. What is not named can be read only."""

    writable: tuple[Path, ...]
    """Folders it may change."""
    temporary: Path
    """Its own TMPDIR, writable; the system's temporary folders are empty for it and cannot be written."""
    sealed: tuple[Path, ...] = ()
    """What in the writable folders stays as it is; what is not there cannot be made."""
    hidden: tuple[Path, ...] = ()
    """Files and folders whose content it never sees."""
    shown: tuple[Path, ...] = ()
    """What can be read although it lies in something hidden or in a temporary folder of the system."""
    network: Reach = "loopback"
    hosts: tuple[str, ...] = ()
    """With `hosts`: names it may connect to, `*.example.com` for all below one, each with an optional `:PORT`."""
    limits: Limits = Limits()


class Enclosure(Struct, frozen=True):
    """A confinement and what holds a command to it."""

    level: Level
    confinement: Confinement
    proxy: Path | None = None
    """The socket of the proxy that leads to the named hosts; without one there are none."""
