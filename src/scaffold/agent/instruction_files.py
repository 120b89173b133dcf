"""A project's instructions for agents: AGENTS.md of each folder up to the root, or CLAUDE.md where there is none."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.host.contained_path import ContainedPath

FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES = 32_000
"""Bytes read of a file."""


class Instructions(Struct, frozen=True):
    """A folder's instructions for agents, and their file."""

    path: Path
    text: str
    notice: str = ""
    """A warning for the user, e.g. that they were cut; empty if there is none."""
    name: str = ""
    """The file as seen from the working directory."""


def find_instructions(cwd: Path, *, home: Path) -> Sequence[Instructions]:
    """Return the instructions of the folders from the root of the repository of `cwd` down to `cwd`, in this order.

    The later ones are more specific; a file with the same text as an earlier one is left out. Without a repository of
    the owner of `cwd`, the search ends at `home` or the file system's root and accepts only the owner's files: others
    may leave files in shared folders. Links out of the repository or out of `home` are not followed: others may have
    made them to expose the user's files.
    """
    cwd = cwd.resolve()
    found: dict[str, Instructions] = {}
    for searched in reversed(list(_search_folders(cwd, home.resolve()))):
        each = next(filter(None, (_read_instructions(searched.folder / name, searched) for name in FILE_NAMES)), None)
        if each is not None:
            found.setdefault(each.text or each.notice, structs.replace(each, name=os.path.relpath(each.path, cwd)))
    return tuple(found.values())


class _SearchFolder(Struct, frozen=True):
    """A folder to look in."""

    folder: Path
    within: Path
    """The folder that links must not leave."""
    owner: int | None = None
    """The required owner of a file; None for any."""


def _search_folders(cwd: Path, home: Path) -> Iterator[_SearchFolder]:
    upwards, owner = [cwd, *cwd.parents], _owner_id(cwd)
    # A `.git` of another user does not make this folder part of their repository.
    root = next((folder for folder in upwards if _owner_id(folder / ".git") == owner), None)
    if root is not None:
        yield from (_SearchFolder(folder, root) for folder in upwards[: upwards.index(root) + 1])
        return
    for folder in upwards:
        yield _SearchFolder(folder, home if folder.is_relative_to(home) else folder, owner)
        if folder == home:
            return


def _owner_id(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _read_instructions(path: Path, searched: _SearchFolder) -> Instructions | None:
    # A file of another owner does not count: anybody may write one into a shared parent folder.
    try:
        status = path.stat()
        # Asked before the file is opened: opening a named pipe would wait for a writer.
        if not stat.S_ISREG(status.st_mode) or searched.owner not in {None, status.st_uid}:
            return None
        reached = path.resolve()
        if not reached.is_relative_to(searched.within):
            return Instructions(path, "", f"{path} is a link that points outside {searched.within} and is ignored")
        with ContainedPath(searched.within, str(reached.relative_to(searched.within))).reading() as file:
            # One byte more than is used tells whether something is missing.
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Instructions(path, "", f"{path} cannot be read and is ignored: {error.strerror}")
    text = data[:MAX_BYTES].decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if len(data) <= MAX_BYTES:
        return Instructions(path, text.strip())
    whole_lines = text[: text.rfind("\n") + 1] or text
    return Instructions(path, whole_lines.strip(), f"{path} is too long; only its first {MAX_BYTES:,} bytes are used")
