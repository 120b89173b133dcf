"""Find dependencies that are taken from the repository itself: the work's own code can replace an installed package."""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

REQUIREMENT_FILES = ("*requirements*.txt", "*requirements*.in", "constraints*.txt")
"""Names of files with one requirement for pip a line, in lower case."""

_NAMED = re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*@\s*(?:file:|[./])\S*")
_LOCAL_PATH = re.compile(r"(?:file:|link:|portal:|\.{1,2}(?:/|$)|~?/)")
_ARCHIVE = re.compile(r"[^\s:]+\.(?:whl|zip|tgz|tar\.\w+)$")
_VERSION = re.compile(r"[\^~*=<>!\d]")
_OPTION = re.compile(r"(?:-e|--editable|-f|--find-links)[\s=]+")
_SCHEME = re.compile(r"[\w+.-]+:")
_EXTRAS = re.compile(r"\[[\w\s,.-]*\]$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


def is_requirement_file(path: str) -> bool:
    """Return True for a file with requirements for pip, by its name or because it is in a folder of such files."""
    folder, _, name = path.casefold().rpartition("/")
    inside = posixpath.basename(folder) == "requirements" and name.endswith((".txt", ".in"))
    return inside or any(fnmatchcase(name, glob) for glob in REQUIREMENT_FILES)


def local_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a file for pip that name a folder or archive here, except the project itself (`-e .`)."""
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line and _is_local(line))


def local_entries(value: object, name: str = "") -> Iterator[str]:
    """Yield the local dependencies below a part of a TOML or JSON manifest, however deep."""
    match value:
        case str() if _is_local(value) or (name and _LOCAL_PATH.match(value)):
            yield f"{name} {value}".strip()
        case dict():
            yield from _of_table(value, name)
        case list():
            for each in value:
                yield from local_entries(each)


def _of_table(table: dict[str, Any], name: str) -> Iterator[str]:
    # Poetry, PDM and pipenv write `{path = "..."}`, and some `{file = "..."}` for an archive. `path` is a package, too.
    place = table.get("path", table.get("file"))
    if isinstance(place, str) and not _VERSION.match(place):
        yield f"{name} {place}".strip()
        return
    for key, each in table.items():
        yield from local_entries(each, key)


def _is_local(requirement: str) -> bool:
    if _NAMED.match(requirement):
        return True
    option = _OPTION.match(requirement)
    place = requirement[option.end() if option else 0 :].partition(" ;")[0].strip()
    if _is_project(place):
        return False
    # The value of an option names a folder if it has no scheme, as in `-e tools` and `-f wheels`.
    is_folder = option is not None and _SCHEME.match(place) is None
    return is_folder or _LOCAL_PATH.match(place) is not None or _ARCHIVE.match(place) is not None


def _is_project(place: str) -> bool:
    return _EXTRAS.sub("", place).removeprefix("file:").rstrip("/") == "."
