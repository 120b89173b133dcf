"""Temporary names that tell which process made them, so that another one can remove them once it is dead."""

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from scaffold.core.model import ProcessIdentity
from scaffold.host.process_identity import identify, is_alive, own_identity
from scaffold.host.startup import importing

TEMPORARY_PREFIX = "scaffold-"
_MARKED = re.compile(r"\.by-(?P<pid>\d+)-(?P<space>\w+)-(?P<hash>[0-9a-f]{8})\.")


def own_mark() -> str:
    """Return the part of a name that marks what this process made."""
    me = own_identity()
    return f".by-{me.pid}-{_pid_space()}-{_identity_hash(me)}."


def made_by_dead_process(name: str) -> bool:
    """Return True if a name has the mark of a process that is dead; False if unknown, as in another container."""
    found = _MARKED.search(name)
    if found is None or found["space"] != _pid_space():
        return False
    living = identify(int(found["pid"]))
    return living is None or not is_alive(living) or _identity_hash(living) != found["hash"]


def temporary_prefix(what: str = "") -> str:
    """Return the prefix of names in the system's temporary folder; paths of sockets have no room for `what`."""
    return f"{TEMPORARY_PREFIX}{what}{own_mark()}"


def new_temporary_folder(what: str, parent: Path | None) -> Path:
    """Create and return a new, private folder: for `what` in `parent`, or in the system's temporary folder."""
    with importing():  # many commands make no folder
        import tempfile
    if parent is None:
        return Path(tempfile.mkdtemp(prefix=temporary_prefix(what))).resolve()
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{what}-", dir=parent)).resolve()


def left_by_dead_processes(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield what dead processes left in the system's temporary folder and directly in `folders`, which may be missing.

    Links are not followed.
    """
    with importing():
        import tempfile
    for folder in (Path(tempfile.gettempdir()), *folders):
        with suppress(OSError):
            names = [name for name in os.listdir(folder) if made_by_dead_process(name)]  # noqa: PTH208 - names, not paths
            yield from (folder / name for name in names)


def _identity_hash(identity: ProcessIdentity) -> str:
    return hashlib.sha256(f"{identity.pid} {identity.started} {identity.boot}".encode()).hexdigest()[:8]


@functools.cache
def _pid_space() -> str:
    # Containers can share a temporary folder, but not their pids.
    if sys.platform != "linux":
        return "0"
    return hashlib.sha256(os.readlink("/proc/self/ns/pid").encode()).hexdigest()[:4]  # noqa: PTH115 - no path
