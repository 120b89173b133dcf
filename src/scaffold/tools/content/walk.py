"""List the files below a folder that are worth searching."""

from collections.abc import Iterator
from pathlib import Path, PurePath

from scaffold.host.folder_tree import walk

SKIPPED_FOLDERS = frozenset({".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})
"""Skipped below the searched folder, but searched if named directly."""


def files_below(path: Path) -> Iterator[Path]:
    """Yield the files below `path` in walk order, or `path` itself if it is a file; symlinks are skipped."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        files = (Path(folder, name) for name in sorted(names) if name != ".git")
        yield from (file for file in files if not file.is_symlink())


def walk_order(path: PurePath) -> tuple[tuple[bool, str], ...]:
    """Return a sort key that puts relative paths in walk order: a folder's files first, then its subfolders."""
    return (*((True, name) for name in path.parts[:-1]), (False, path.name))
