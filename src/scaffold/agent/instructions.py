"""What a project tells agents: the nearest AGENTS.md, or CLAUDE.md where there is none beside it."""

import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

NAMES = ("AGENTS.md", "CLAUDE.md")
LIMIT = 32_000
"""Bytes that are read."""


class Instructions(Struct, frozen=True):
    """A project's words to agents, and where they stand."""

    path: Path
    text: str
    notice: str = ""
    """What the user should know about them, e.g. that they were cut; empty if all is well."""


def find_instructions(cwd: Path, *, home: Path) -> Instructions | None:
    """Return the nearest instructions from `cwd` upwards to its repository's root; None if there are none.

    Without a repository of the owner of `cwd` the search ends at `home` or at the file system's root, and counts only
    what is the owner's: others may leave files in shared folders. No link is followed out of the repository, or out of
    `home`: others may have made it, and what it leads to is nobody's business.
    """
    cwd = cwd.resolve()
    for place in _places(cwd, home.resolve()):
        for name in NAMES:
            found = _read(place.folder / name, place)
            if found is not None:
                return found
    return None


class _Place(Struct, frozen=True):
    """A folder to look in."""

    folder: Path
    within: Path
    """What links may not lead out of."""
    owner: int | None = None
    """Who must own what is found; None for anybody."""


def _places(cwd: Path, home: Path) -> Iterator[_Place]:
    upwards, owner = [cwd, *cwd.parents], _owner(cwd)
    root = next((folder for folder in upwards if _owner(folder / ".git") == owner), None)
    if root is not None:
        yield from (_Place(folder, root) for folder in upwards[: upwards.index(root) + 1])
        return
    for folder in upwards:
        yield _Place(folder, home if folder.is_relative_to(home) else folder, owner)
        if folder == home:
            return


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _read(path: Path, place: _Place) -> Instructions | None:
    """Return what a file says, None if there is no such regular file, or it is not the owner's."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or place.owner not in {None, status.st_uid}:
            return None
        reached = path.resolve()
        if not reached.is_relative_to(place.within):
            return Instructions(path, "", f"{path} is a link that leads out of {place.within} and is left out")
        with reached.open("rb") as file:
            data = file.read(LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Instructions(path, "", f"{path} cannot be read and is left out: {error.strerror}")
    text = data[:LIMIT].decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if len(data) <= LIMIT:
        return Instructions(path, text.strip())
    whole_lines = text[: text.rfind("\n") + 1] or text
    return Instructions(path, whole_lines.strip(), f"{path} is long; only its first {LIMIT:,} bytes are used")
