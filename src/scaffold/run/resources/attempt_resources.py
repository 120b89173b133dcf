"""What an attempt has for itself on this machine, as its worker noted it; few imports, because commands read it."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct


class AttemptResources(Struct, frozen=True, kw_only=True):
    """The resources of an attempt, or of a checkout in which candidates are verified; by default none."""

    ports: tuple[int, ...] = ()
    database_name: str = ""
    """Lower-case letters, digits and underscores: a name for databases, schemas, queues, buckets."""
    scratch: str = ""
    """The folder of its temporary files; each command's TMPDIR is below it."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables by which commands learn of them."""
        ports = {f"SCAFFOLD_PORT_{number}": str(port) for number, port in enumerate(self.ports)}
        return {**ports, "SCAFFOLD_DATABASE_NAME": self.database_name} if ports else {}

    @property
    def fields(self) -> Mapping[str, object]:
        """Return them as commands print them."""
        return {"ports": self.ports, "database_name": self.database_name or None, "scratch": self.scratch or None}


def resources_in_use(worktree: str | None) -> AttemptResources:
    """Return the resources of the attempt that works in this worktree; none if it holds none now."""
    if worktree is None:
        return AttemptResources()
    path = Path(worktree)
    try:
        return msgspec.json.decode(note_of(path.parent.parent, path.name).read_bytes(), type=AttemptResources)
    except (OSError, msgspec.MsgspecError):
        return AttemptResources()


def resource_notes(run_folder: Path) -> Path:
    """Return the folder of all notes of a run; a worker that was killed leaves its own."""
    return run_folder / "resources"


def note_of(run_folder: Path, name: str) -> Path:
    """Return the file in which the resources of this name are noted while they are held."""
    return resource_notes(run_folder) / f"{name}.json"
