"""Hold what an attempt has for itself on this machine: TCP ports, and a name for its databases.

A folder for scratch files needs none of this: TMPDIR is one already. The names reach commands and checks as variables.
None of them is `PORT` or another that programs read by themselves: a test of a default would fail with it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from scaffold.core.ids import RunId
from scaffold.host.tcp_ports import HeldPorts
from scaffold.run.context import RunContext
from scaffold.run.resources.attempt_resources import AttemptResources, note_of

PORTS = 4
"""An application, its database, and two more."""


@contextmanager
def held_resources(context: RunContext, run_id: RunId, name: str, *, noted: bool = False) -> Iterator[AttemptResources]:
    """Hold the resources of an attempt, by its id, or of a checkout, by its `name`, while the block runs.

    No other holder on this machine has the same ports meanwhile. After a kill they are free at once. If `noted`, other
    processes can see them.
    """
    held = HeldPorts(f"{run_id}/{name}", PORTS)
    note = note_of(context.run_folder(run_id), name)
    try:
        found = AttemptResources(
            ports=held.ports, database_name=database_name(run_id, name), scratch=str(context.temporary(run_id, name))
        )
        if noted:
            # Neither whole nor safe from a power cut: it decides nothing, and a part of it counts as none. So does one
            # for which the disk has no room.
            with suppress(OSError):
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_bytes(msgspec.json.encode(found))
        yield found
    finally:
        held.close()
        with suppress(OSError):
            note.unlink(missing_ok=True)


def database_name(run_id: RunId, name: str) -> str:
    """Return a name that every database accepts and that no other attempt has: at most 63 characters."""
    return re.sub("[^a-z0-9_]", "_", f"scaffold_{run_id}_{name}".casefold())[:63]
