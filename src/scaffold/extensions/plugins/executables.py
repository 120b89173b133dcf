"""The plugins folder: which of its files are plugins."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.printable_text import one_line


class PluginFiles(Struct, frozen=True):
    """The plugins in a folder, by name, and a line about each file that looks like one but is none."""

    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


def plugin_files(folder: Path, *, me: int) -> PluginFiles:
    """Return the plugins of the user `me` in `folder`, which may be missing; hidden files and folders are no plugins.

    Other users must not be able to change one: it runs with the user's files.
    """
    try:
        with os.scandir(folder) as listing:
            entries = sorted((entry for entry in listing if not entry.name.startswith(".")), key=lambda each: each.name)
        changed_by = _changed_by_others(folder.stat(), me)
    except OSError:
        return PluginFiles()
    if entries and changed_by:
        return PluginFiles(notices=(f"plugins in {folder} do not run: the folder {changed_by}",))
    files, notices = [], []
    for entry in entries:
        problem = _problem(entry, me)
        if problem is None:
            files.append(folder / entry.name)
        elif problem:
            notices.append(f"plugin {one_line(entry.name)} does not run: it {problem}")
    return PluginFiles(tuple(files), tuple(notices))


def _problem(entry: os.DirEntry[str], me: int) -> str | None:
    """Return why a file that looks like a plugin is none; empty if it does not look like one, None if it is one."""
    try:
        if entry.is_symlink():
            return "is a symbolic link; copy the program itself there"
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return ""
    if problem := _changed_by_others(status, me):
        return problem
    return None if os.access(entry.path, os.X_OK) else "is not executable for you"


def _changed_by_others(status: os.stat_result, me: int) -> str:
    if status.st_uid != me:
        return "is not yours; change its owner (`chown`)"
    if status.st_mode & 0o022:
        return "can be changed by others; forbid that (`chmod go-w`)"
    return ""


def named(files: Sequence[Path], names: Sequence[str]) -> tuple[Path, ...]:
    """Return the files that have one of the names, with or without their extension."""
    return tuple(file for file in files if {file.name, file.stem} & set(names))
