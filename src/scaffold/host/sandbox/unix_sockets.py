"""Unix sockets of other programs: a read-only mount does not keep a command from connecting to them."""

import contextlib
from pathlib import Path

from msgspec import structs

from scaffold.host.sandbox.confinement import Confinement

TABLE = Path("/proc/net/unix")
PATH_FIELD = 7


def without_foreign_sockets(confinement: Confinement) -> Confinement:
    """Return the confinement with the Unix sockets hidden that exist now outside of its writable folders."""
    own = (*confinement.writable, confinement.temporary, *confinement.sockets)
    foreign = (path for path in bound_sockets() if not any(path.is_relative_to(folder) for folder in own))
    return structs.replace(confinement, hidden=tuple(dict.fromkeys((*confinement.hidden, *foreign))))


def bound_sockets() -> tuple[Path, ...]:
    """Return the absolute paths of the sockets that programs of this machine have bound; empty if unknown."""
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = TABLE.read_bytes().splitlines()[1:]
    fields = (line.split(None, PATH_FIELD) for line in lines)
    named = {words[PATH_FIELD] for words in fields if len(words) > PATH_FIELD and words[PATH_FIELD].startswith(b"/")}
    return tuple(Path(name.decode(errors="surrogateescape")) for name in sorted(named))
