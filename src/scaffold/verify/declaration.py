"""What an action declared that it would touch: paths, folders and globs, as its plan wrote them."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from scaffold.policy.globs import matches

_WILD = re.compile(r"\[[^\]]*\]|[*?]")


def declared(path: str, files: Sequence[str]) -> bool:
    """Tell whether `path` is one of `files`, lies in a folder of them, or matches a glob; none means it does not."""
    return any(_covers(entry, path) for entry in files)


def meant(path: str, files: Sequence[str]) -> bool:
    """Tell whether `path` is declared by somebody who had it in mind.

    `**`, `.` and `*.py` declare everything there is: nobody who wrote them thought of the tests.
    """
    return any(_covers(entry, path) and (_plain(entry) == path or _specific(entry)) for entry in files)


def named(path: str, files: Sequence[str]) -> bool:
    """Tell whether `path` is declared by its own name, not by that of a folder it lies in."""
    name = path.rpartition("/")[2]
    return any(
        _plain(entry) == path
        or (_covers(entry, path) and _specific(last := _plain(entry).rpartition("/")[2]) and fnmatchcase(name, last))
        for entry in files
    )


def _plain(entry: str) -> str:
    return entry.removeprefix("./").rstrip("/")


def _covers(entry: str, path: str) -> bool:
    plain = _plain(entry)
    return path == plain or path.startswith(f"{plain}/") or matches(entry, path)


def _specific(entry: str) -> bool:
    """Tell whether some segment of a glob names more than a file type."""
    return any(_says_something(segment) for segment in entry.split("/") if segment not in {"", "."})


def _says_something(segment: str) -> bool:
    left = _WILD.sub("", segment)
    return bool(left) and (left == segment or not left.startswith("."))
