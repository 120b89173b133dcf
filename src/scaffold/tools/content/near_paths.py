"""List the files of a folder that are worth searching, and those that a missing path may have meant."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from scaffold.host.folder_tree import walk

SKIPPED_FOLDERS = frozenset({".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})
"""Skipped below the searched folder, but searched if named directly."""
MAX_LOOKED_AT = 20_000
"""Files that are compared; in a larger folder, what comes later in walk order is not found."""
MAX_NAMED = 3
NEAR = 0.75
"""Names at least this similar count as near, from 0 to 1."""


def missing_file(root: Path, shown: str) -> str:
    """Return the answer to a path that names no file: the files it may have meant, or how to find it."""
    return _missing_answer("file", root, shown, near_files(root, shown))


def missing_folder(root: Path, shown: str) -> str:
    """Return the answer to a path that names no folder: the folders it may have meant, or how to find it."""
    return _missing_answer("folder", root, shown, near_folders(root, shown))


def near_files(root: Path, wanted: str) -> tuple[str, ...]:
    """Return paths of files below `root` with the name of `wanted`, or one like it: the most similar first."""
    return _nearest_paths(wanted, _listed_files(root))


def near_folders(root: Path, wanted: str) -> tuple[str, ...]:
    """Return paths of folders below `root`, as `near_files` does."""
    folders = (parent.as_posix() for file in _listed_files(root) for parent in PurePosixPath(file).parents)
    return _nearest_paths(wanted, (folder for folder in dict.fromkeys(folders) if folder != "."))


def _missing_answer(kind: str, root: Path, shown: str, near: tuple[str, ...]) -> str:
    if not near:
        return f"There is no {kind} {shown}; find it with glob or list_dir."
    before = f"{root.resolve()}/" if shown.startswith("/") else ""
    return f"There is no {kind} {shown}. Did you mean {' or '.join(before + path for path in near)}?"


def _listed_files(root: Path) -> Iterator[str]:
    top = root.resolve()
    return (file.relative_to(top).as_posix() for file in islice(files_below(top), MAX_LOOKED_AT))


def _nearest_paths(wanted: str, paths: Iterator[str]) -> tuple[str, ...]:
    name = _last_name(wanted)
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(name)
    near = []
    for path in paths:
        matcher.set_seq1(_last_name(path))
        # Cheap bounds first: a folder may have thousands of names.
        if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR and (score := matcher.ratio()) >= NEAR:
            near.append((score, SequenceMatcher(None, wanted, path).ratio(), path))
    return tuple(path for _, _, path in nlargest(MAX_NAMED, near))


def _last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].casefold()


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
