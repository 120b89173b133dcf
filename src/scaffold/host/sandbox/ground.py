"""The ground a confinement stands on: what of it is on the disk just now, as mounts in the order they are made."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

import scaffold
from scaffold.host.sandbox.confinement import Confinement

EMPTIED = (Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108 - nothing is written there
"""The system's temporary folders and the place of its sockets."""
NEEDED = (
    Path("/run/current-system"),
    Path("/run/opengl-driver"),
    Path(sys.prefix).resolve(),
    Path(sys.base_prefix).resolve(),
    Path(scaffold.__file__).resolve().parent,
)
"""What is shown to every command: programs that some systems keep below /run, our interpreter, and ourselves."""
MOST_LINKS = 16

Kind = Literal["writable", "readable", "emptied", "masked"]
"""A folder it may change | something it may read | an empty folder | a file that cannot be opened."""
HIDDEN = ("emptied", "masked")


class Mount(Struct, frozen=True):
    """What a command finds at `path` (absolute, without links)."""

    path: Path
    kind: Kind


class Ground(Struct, frozen=True):
    """What to mount, each below those before it, and what somebody has to hold meanwhile."""

    mounts: tuple[Mount, ...]
    held: tuple[Path, ...]
    """Sealed places that are empty or links: no mount holds these alone."""


def survey(confinement: Confinement) -> Ground:
    """Look at the disk and return what holds a command to `confinement`.

    The deepest path decides; of several for the same path, in this order: writable, shown, hidden, sealed.
    """
    kinds: dict[Path, Kind] = {}
    for path in (*EMPTIED, *confinement.hidden):
        _hide(path, kinds)
    writable = (*confinement.writable, confinement.temporary)
    kinds |= dict.fromkeys(writable, "writable")
    for path in (*NEEDED, *confinement.shown):
        if path not in writable and _around(path, kinds) in HIDDEN and _mode(path):
            kinds[path] = "readable"
    held: list[Path] = []
    for path in confinement.sealed:
        _seal(path, writable, kinds, held)
    _pin(kinds, writable, held)
    return Ground(mounts=tuple(_needed(kinds)), held=tuple(dict.fromkeys(held)))


def is_stand_in(path: Path) -> bool:
    """Tell whether at `path` stands only what a keeper put there for as long as its command runs."""
    return stat.S_ISSOCK(mode := _mode(path)) and stat.S_IMODE(mode) == 0


def _hide(path: Path, kinds: dict[Path, Kind]) -> None:
    place = path.resolve() if stat.S_ISLNK(_mode(path)) else path
    if mode := _mode(place):
        kinds[place] = "emptied" if stat.S_ISDIR(mode) else "masked"


def _seal(path: Path, writable: Sequence[Path], kinds: dict[Path, Kind], held: list[Path], links: int = 0) -> None:
    """Have the first thing on the way from a writable folder to `path` that is no folder stay as it is; or `path`.

    A link on the way is held as well as where it leads.
    """
    root = _nearest(path, writable)
    if root is None or links > MOST_LINKS:
        return
    for step in (*_between(root, path), path):
        mode = _mode(step)
        if kinds.get(step) in HIDDEN:
            return
        if stat.S_ISLNK(mode):
            held.append(step)
            led = Path(os.path.realpath(step)) / path.relative_to(step)
            _seal(led, writable, kinds, held, links + 1)
            return
        if step == path or not stat.S_ISDIR(mode):
            kinds[step] = "readable"
            if stat.S_IMODE(mode) == 0:
                held.append(step)
            return


def _pin(kinds: dict[Path, Kind], writable: Sequence[Path], held: Sequence[Path]) -> None:
    """Make mounts of the folders between a writable one and what is sealed or hidden in it: mounts cannot be moved."""
    for path in [*(path for path, kind in kinds.items() if kind != "writable"), *held]:
        root = _nearest(path, writable)
        for parent in _between(root, path) if root else ():
            if kinds.setdefault(parent, "writable") != "writable":
                break


def _between(root: Path, path: Path) -> list[Path]:
    """Return the folders below `root` that `path` lies in, the outermost first."""
    return [parent for parent in reversed(path.parents) if parent != root and parent.is_relative_to(root)]


def _needed(kinds: Mapping[Path, Kind]) -> Iterator[Mount]:
    """Yield the mounts that change something, those above first."""
    for path in sorted(kinds, key=lambda path: len(path.parts)):
        kind, above = kinds[path], _around(path.parent, kinds)
        if not (kind == above == "readable" or (kind in HIDDEN and above in HIDDEN)):
            yield Mount(path, kind)


def _around(path: Path, kinds: Mapping[Path, Kind]) -> Kind:
    """Return what `path`, or the folder nearest around it, is."""
    return next((kinds[each] for each in (path, *path.parents) if each in kinds), "readable")


def _nearest(path: Path, folders: Sequence[Path]) -> Path | None:
    """Return the innermost of `folders` that `path` lies in."""
    around = [folder for folder in folders if path.is_relative_to(folder)]
    return max(around, key=lambda folder: len(folder.parts), default=None)


def _mode(path: Path) -> int:
    """Return the mode of what stands at `path`, 0 for nothing; a keeper's stand-in lets nobody do anything."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
