"""The documents below a folder: what git ignores, and what holds secrets, are none."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from scaffold.core.errors import NotInRepository, UsageError
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import find_top
from scaffold.host.folder_tree import walk
from scaffold.memory.chunking.split import KINDS
from scaffold.memory.documents.source_files import PDF_SUFFIX
from scaffold.policy.secret.unreadable_files import secret_entry

OTHER_TEXTS = frozenset(
    {".adoc", ".bash", ".cc", ".cpp", ".cs", ".cxx", ".ex", ".exs", ".hh", ".hpp", ".html", ".kt", ".lua", ".org"}
    | {".php", ".pl", ".proto", ".r", ".rb", ".rst", ".scala", ".sh", ".sql", ".swift", ".tex", ".txt", ".zsh"}
)
SUFFIXES = frozenset({PDF_SUFFIX, *KINDS}) | OTHER_TEXTS
"""What is read of a folder; any other file can be named."""
SKIPPED = frozenset({"__pycache__", "node_modules", "target", "venv"})
MOST_FILES = 10_000


async def documents_below(folder: Path) -> list[Path]:
    """Return the documents below a folder, in order; UsageError if there are none, or too many."""
    names = await _names(folder)
    found = [folder / each for each in sorted(names) if _is_document(folder, each)]
    if not found:
        raise UsageError(f"there are no documents below {folder}", "Name a file, or another folder.")
    if len(found) > MOST_FILES:
        raise UsageError(f"{folder} has {len(found):,} documents, at most {MOST_FILES:,}", "Name a folder in it.")
    return found


async def _names(folder: Path) -> list[str]:
    """Return the paths of files relative to the folder: those that git does not ignore, without git those shown."""
    try:
        find_top(folder)
    except NotInRepository:
        return list(_walked(folder))
    listed = await Git(folder, environ=os.environ)("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return list(dict.fromkeys(listed.records))


def _walked(top: Path) -> Iterator[str]:
    for folder, folders, files in walk(top):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in SKIPPED]
        yield from (str((Path(folder) / each).relative_to(top)) for each in files if not each.startswith("."))


def _is_document(folder: Path, name: str) -> bool:
    path = folder / name
    if path.suffix.lower() not in SUFFIXES or secret_entry(str(path)):
        return False
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
