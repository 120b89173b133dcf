"""Secrets in folders that a command reads through: what it does not name, and shows all the same."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from scaffold.policy.secrets import is_secret_name
from scaffold.policy.shell.places import FileSystem
from scaffold.policy.shell.script import Simple

MOST_WALKED = 1_000
"""Names that are looked at; what lies beyond is the sandbox's to hide."""

_LONG = frozenset({"--recursive", "--dereference-recursive"})
_UNREAD = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Folders too full to look into; none of them is where people keep secrets."""


def searched_secret(simple: Simple, folders: tuple[str, ...], files: FileSystem) -> str | None:
    """Return the name of a secret that a search through these absolute paths would read; None if none is seen."""
    name, arguments = simple.words[0].text, [word.text for word in simple.words[1:]]
    if not _goes_through(name, arguments):
        return None
    included, excluded = _values("--include", arguments), _values("--exclude", arguments)
    for found in _below(folders, files, hidden=name != "rg"):
        wanted = not included or any(fnmatchcase(found, glob) for glob in included)
        if wanted and not any(fnmatchcase(found, glob) for glob in excluded):
            return found
    return None


def _goes_through(name: str, arguments: list[str]) -> bool:
    if name == "rg":
        return True
    flags = (word for word in arguments if word.startswith("-"))
    return name in {"grep", "diff"} and any(
        word in _LONG or (not word.startswith("--") and bool(set(word) & set("rR"))) for word in flags
    )


def _values(flag: str, arguments: list[str]) -> list[str]:
    return [word.removeprefix(f"{flag}=") for word in arguments if word.startswith(f"{flag}=")]


def _below(folders: tuple[str, ...], files: FileSystem, *, hidden: bool) -> Iterator[str]:
    """Yield the names of secret files below the folders, those nearest first."""
    waiting, walked = list(folders), 0
    while waiting and walked < MOST_WALKED:
        folder = waiting.pop(0)
        for entry in files.entries(folder):
            walked += 1
            if entry.name in _UNREAD or (entry.name.startswith(".") and not hidden):
                continue
            if is_secret_name(entry.name):
                yield entry.name
            elif entry.is_folder:
                waiting.append(f"{folder.rstrip('/')}/{entry.name}")
