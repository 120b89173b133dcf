"""Match paths against an action's declared `files`: the paths, folders and globs in its plan."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from scaffold.policy.path.globs import matches

_WILD = re.compile(r"\[[^\]]*\]|[*?]")


def is_declared_path(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is one of `files`, is in a folder of them, or matches a glob; False if `files` is empty."""
    return any(covers(entry, path) for entry in files)


def is_declared_specifically(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is declared by an entry that names more than a file type.

    `**`, `.` and `*.py` cover everything, so they do not show that the plan meant to change a test.
    """
    return any(covers(entry, path) and (normalized(entry) == path or is_specific(entry)) for entry in files)


def is_declared_by_name(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is declared by its own file name, not only by a folder."""
    name = path.rpartition("/")[2]
    return any(
        normalized(entry) == path
        or (
            covers(entry, path)
            and is_specific(last := normalized(entry).rpartition("/")[2])
            and fnmatchcase(name, last)
        )
        for entry in files
    )


def normalized(entry: str) -> str:
    """Return an entry of `files` as a path or glob, without `./` and a slash at its end."""
    return entry.removeprefix("./").rstrip("/")


def covers(entry: str, path: str) -> bool:
    """Return True if an entry of `files` is the path, a folder of it, or a glob that matches it."""
    plain = normalized(entry)
    return path == plain or path.startswith(f"{plain}/") or matches(entry, path)


def is_specific(entry: str) -> bool:
    """Return True if a segment of a glob names more than a file type."""
    parts = [(segment, _WILD.sub("", segment)) for segment in entry.split("/") if segment not in {"", "."}]
    # What is left of `*.py` is a file type, what is left of `test_*.py` names something.
    return any(left and (left == segment or not left.startswith(".")) for segment, left in parts)
