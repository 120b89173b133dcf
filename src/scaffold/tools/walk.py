"""The files below a folder that are worth looking into."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

SKIPPED_FOLDERS = frozenset({".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})
"""Unless they are themselves what is looked into."""


def files_below(place: Path) -> Iterator[Path]:
    """Yield the files below `place`, or itself, in the order of a walk; links are neither followed nor yielded."""
    if place.is_file():
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        files = (Path(folder, name) for name in sorted(names) if name != ".git")
        yield from (file for file in files if not file.is_symlink())


def walk_order(path: PurePath) -> tuple[tuple[bool, str], ...]:
    """Return what sorts relative paths in the order of a walk: a folder's files, then the folders in it."""
    return (*((True, name) for name in path.parts[:-1]), (False, path.name))
