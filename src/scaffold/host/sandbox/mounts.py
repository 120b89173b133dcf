"""Turn a confinement and the current state of the disk into an ordered list of mounts."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

import scaffold
from scaffold.host.sandbox.confinement import Confinement

ALWAYS_EMPTY = (Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108 - nothing is written there
"""The system's temporary folders and its sockets."""
ALWAYS_READABLE = (
    Path("/run/current-system"),
    Path("/run/opengl-driver"),
    Path(sys.prefix).resolve(),
    Path(sys.base_prefix).resolve(),
    Path(scaffold.__file__).resolve().parent,
)
"""Readable for every command: programs that some systems keep below /run, our interpreter, and this package."""
MAX_LINKS = 16

MountKind = Literal["writable", "readable", "emptied", "scratch", "masked", "linked"]
"""A writable folder | a read-only path | a folder shown as empty | a new folder that is gone with the command | a file
that cannot be read | a copy of a link."""
HIDDEN = ("emptied", "scratch", "masked")
SCRATCH = Path("/tmp")  # noqa: S108 - each command has its own


class Mount(Struct, frozen=True):
    """A mount at `path` (absolute, free of symlinks)."""

    path: Path
    kind: MountKind


class MountPlan(Struct, frozen=True):
    """The mounts, parents before children, and the paths that the reaper must guard meanwhile."""

    mounts: tuple[Mount, ...]
    held: tuple[Path, ...]
    """Protected paths that are missing or symlinks: a mount alone cannot protect these."""


def plan_mounts(confinement: Confinement) -> MountPlan:
    """Inspect the disk and return the mounts that enforce `confinement`.

    The deepest path decides; for the same path the precedence is writable, readable, hidden, protected.
    """
    kinds: dict[Path, MountKind] = {}
    for path in (*ALWAYS_EMPTY, *confinement.hidden):
        target = Path(os.path.realpath(path)) if stat.S_ISLNK(_path_mode(path)) else path
        # What is still a link leads in a circle, so there is nothing to read.
        if (mode := _path_mode(target)) and not stat.S_ISLNK(mode):
            kinds[target] = "emptied" if stat.S_ISDIR(mode) else "masked"
    if confinement.scratch and SCRATCH in kinds:
        kinds[SCRATCH] = "scratch"
    writable = (*confinement.writable, confinement.temporary)
    kinds |= dict.fromkeys(writable, "writable")
    for path in (*ALWAYS_READABLE, *confinement.readable):
        # The whole disk is mounted read-only already, so only what lies inside something hidden needs its own mount.
        if path not in writable and _kind_around(path, kinds) in HIDDEN and (mode := _path_mode(path)):
            # What a link leads to is readable only if that is named as well.
            kinds[path] = "linked" if stat.S_ISLNK(mode) else "readable"
    held: list[Path] = []
    for path in confinement.protected:
        _seal_path(path, writable, kinds, held)
    _pin_folders(kinds, writable, held)
    return MountPlan(mounts=tuple(_needed_mounts(kinds)), held=tuple(dict.fromkeys(held)))


def hiding_path(path: Path, confinement: Confinement) -> Path | None:
    """Return the hidden path, perhaps a folder around it, because of which a command cannot see `path`; None if it can.

    `path` is absolute, with links resolved.
    """
    shown = {*confinement.writable, confinement.temporary, *ALWAYS_READABLE, *confinement.readable}
    decided = {*ALWAYS_EMPTY, *confinement.hidden, *shown}
    nearest = next((each for each in (path, *path.parents) if each in decided), None)
    return None if nearest in shown else nearest


def is_placeholder(path: Path) -> bool:
    """Return True if `path` is only a placeholder that a reaper created while its command runs."""
    return stat.S_ISSOCK(mode := _path_mode(path)) and stat.S_IMODE(mode) == 0


def _seal_path(
    path: Path, writable: Sequence[Path], kinds: dict[Path, MountKind], held: list[Path], links: int = 0
) -> None:
    """Protect `path`, or the first non-folder between it and the writable folder it lies in.

    A symlink on the way is guarded, and its target is protected too.
    """
    root = _nearest_folder(path, writable)
    if root is None or links > MAX_LINKS:
        return
    for step in (*_folders_between(root, path), path):
        mode = _path_mode(step)
        # A hidden folder is empty and read-only: nothing can be created below it.
        if kinds.get(step) in HIDDEN:
            return
        if stat.S_ISLNK(mode):
            held.append(step)
            target = Path(os.path.realpath(step)) / path.relative_to(step)
            _seal_path(target, writable, kinds, held, links + 1)
            return
        # A missing folder on the way is sealed itself: a command that could create it could create `path` in it.
        if step == path or not stat.S_ISDIR(mode):
            kinds[step] = "readable"
            # Missing, or the placeholder of another command's reaper, which has to stay until our command ends too.
            if stat.S_IMODE(mode) == 0:
                held.append(step)
            return


def _pin_folders(kinds: dict[Path, MountKind], writable: Sequence[Path], held: Sequence[Path]) -> None:
    # A mount point cannot be moved away.
    for path in [*(path for path, kind in kinds.items() if kind != "writable"), *held]:
        root = _nearest_folder(path, writable)
        for parent in _folders_between(root, path) if root else ():
            if kinds.setdefault(parent, "writable") != "writable":
                break


def _folders_between(root: Path, path: Path) -> list[Path]:
    """Return the folders between `root` and `path`, outermost first."""
    return [parent for parent in reversed(path.parents) if parent != root and parent.is_relative_to(root)]


def _needed_mounts(kinds: Mapping[Path, MountKind]) -> Iterator[Mount]:
    # A mount on a parent would cover those that were made below it before.
    for path in sorted(kinds, key=lambda path: len(path.parts)):
        kind, above = kinds[path], _kind_around(path.parent, kinds)
        is_there = kind == above == "readable" or (kind == "linked" and above not in HIDDEN)
        if not is_there and not (kind in HIDDEN and above in HIDDEN):
            yield Mount(path, kind)


def _kind_around(path: Path, kinds: Mapping[Path, MountKind]) -> MountKind:
    return next((kinds[each] for each in (path, *path.parents) if each in kinds), "readable")


def _nearest_folder(path: Path, folders: Sequence[Path]) -> Path | None:
    """Return the innermost of `folders` that contains `path`; None if none does."""
    around = [folder for folder in folders if path.is_relative_to(folder)]
    return max(around, key=lambda folder: len(folder.parts), default=None)


def _path_mode(path: Path) -> int:
    """Return the mode of `path`, 0 if it is missing; a placeholder has permission bits 0."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
