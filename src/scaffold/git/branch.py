"""Read the current branch from git's files, without starting a process."""

import re
from pathlib import Path

MAX_READ_BYTES = 4_096
"""Read at most this much of a file."""
_BRANCH = re.compile(r"ref: refs/heads/([^\s~^:?*\[\\\x00-\x20\x7f]{1,200})\s*")
_REFTABLE_HEAD = ".invalid"
"""The branch name that HEAD holds in a repository with the reftable backend."""


def current_branch(folder: Path) -> str | None:
    """Return the short name of the branch that the worktree around `folder` is on.

    None outside a worktree, with a detached HEAD, or if HEAD cannot be read.
    """
    for each in (folder, *folder.parents):
        git = each / ".git"
        try:
            if git.is_dir():
                return _branch(git)
            if git.is_file():
                return _branch(each / _read_head(git).removeprefix("gitdir:").strip())
        except OSError:
            return None
    return None


def _branch(git: Path) -> str | None:
    found = _BRANCH.fullmatch(_read_head(git / "HEAD"))
    return found[1] if found and found[1] != _REFTABLE_HEAD else None


def _read_head(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(MAX_READ_BYTES).decode(errors="replace")
