"""The list of files that an agent gets at the start."""

import os
from collections.abc import Mapping
from pathlib import Path

from scaffold.core.printable_text import utf8_safe
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.folder_tree import is_folder
from scaffold.host.startup import lazy_import
from scaffold.tools.workspace import printable_name

MAX_ENTRIES = 50
REPOSITORY_NOTE = "scaffold.agent.repository_note:repository_note"
"""Takes a folder in a repository and the environment."""


async def folder_note(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the note for the agent about its folder; git is loaded only in a repository."""
    if find_checkout(folder) is None:
        return files_note(folder)
    note: str = await lazy_import(REPOSITORY_NOTE)(folder, environ)
    return note


def files_note(folder: Path) -> str:
    """Return a line with the names in the folder, folders with a slash; empty if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            names = sorted(each.name + "/" * is_folder(each) for each in found if each.name != ".git")
    except OSError:
        return ""
    shown = [printable_name(utf8_safe(name)) for name in names[:MAX_ENTRIES]]
    more = [f"... {len(names) - MAX_ENTRIES} more"] if len(names) > MAX_ENTRIES else []
    return f"Files at the start: {' '.join([*shown, *more])}" if shown else "Files at the start: none"
