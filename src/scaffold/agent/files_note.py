"""The list of files that an agent gets at the start."""

import os
from pathlib import Path

from scaffold.core.printable_text import utf8_safe
from scaffold.host.folder_tree import is_folder
from scaffold.tools.workspace import printable_name

MAX_ENTRIES = 50


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
