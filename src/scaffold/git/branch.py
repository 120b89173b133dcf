"""Which branch a folder is on, read from its files: no process is started for it."""

import re
from pathlib import Path

LIMIT = 4_096
"""Bytes that are read of a file."""
_BRANCH = re.compile(r"ref: refs/heads/([^\s~^:?*\[\\\x00-\x20\x7f]{1,200})\s*")
_NOWHERE = ".invalid"
"""What the file says where refs are kept in tables."""


def branch_of(folder: Path) -> str | None:
    """Return the short name of the branch that the worktree around `folder` is on.

    None outside of a worktree, with a detached HEAD, and where it cannot be read.
    """
    for each in (folder, *folder.parents):
        git = each / ".git"
        try:
            if git.is_dir():
                return _branch(git)
            if git.is_file():
                return _branch(each / _start(git).removeprefix("gitdir:").strip())
        except OSError:
            return None
    return None


def _branch(git: Path) -> str | None:
    found = _BRANCH.fullmatch(_start(git / "HEAD"))
    return found[1] if found and found[1] != _NOWHERE else None


def _start(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(LIMIT).decode(errors="replace")
