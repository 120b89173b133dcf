"""Find secret files that a recursive search would show although the command does not name them."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from scaffold.policy.secret.files import is_secret_file_name
from scaffold.policy.shell.script import SimpleCommand
from scaffold.policy.shell.workspace_paths import FileSystem

MAX_WALKED = 1_000
"""Maximum number of names checked; the sandbox hides the rest."""

_LONG = frozenset({"--recursive", "--dereference-recursive"})
_UNREAD = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Large folders that are skipped; people do not keep secrets there."""


def find_searched_secret(simple: SimpleCommand, folders: tuple[str, ...], files: FileSystem) -> str | None:
    """Return the name of a secret file that a search through these absolute paths would read; None if none is found."""
    name, arguments = simple.words[0].text, [word.text for word in simple.words[1:]]
    if not _is_recursive(name, arguments):
        return None
    included, excluded = _values("--include", arguments), _values("--exclude", arguments)
    for found in _below(folders, files, hidden=name != "rg"):
        searched = not included or any(fnmatchcase(found, glob) for glob in included)
        if searched and not any(fnmatchcase(found, glob) for glob in excluded):
            return found
    return None


def _is_recursive(name: str, arguments: list[str]) -> bool:
    if name == "rg":
        return True
    flags = (word for word in arguments if word.startswith("-"))
    return name in {"grep", "diff"} and any(
        word in _LONG or (not word.startswith("--") and bool(set(word) & set("rR"))) for word in flags
    )


def _values(flag: str, arguments: list[str]) -> list[str]:
    return [word.removeprefix(f"{flag}=") for word in arguments if word.startswith(f"{flag}=")]


def _below(folders: tuple[str, ...], files: FileSystem, *, hidden: bool) -> Iterator[str]:
    """Yield the names of secret files below the folders, breadth first."""
    pending, walked = list(folders), 0
    while pending and walked < MAX_WALKED:
        folder = pending.pop(0)
        for entry in files.entries(folder):
            walked += 1
            if entry.name in _UNREAD or (entry.name.startswith(".") and not hidden):
                continue
            if is_secret_file_name(entry.name):
                yield entry.name
            elif entry.is_folder:
                pending.append(f"{folder.rstrip('/')}/{entry.name}")
