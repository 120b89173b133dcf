"""Clean a used worktree for reuse, and check what git's own cleaning misses."""

import os
import stat
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.worktree import clean_without_submodules


async def recycle_worktree(git: Git, commit: Commit) -> bool:
    """Reset a used worktree to a fresh checkout of `commit` with empty submodule folders; return whether that worked.

    False if git failed or something remains that a fresh worktree would not have; the caller then removes it.
    """
    try:
        await clean_without_submodules(git, commit)
    except GitError:
        return False
    return _looks_fresh(git.cwd)


def _looks_fresh(root: Path) -> bool:
    """Return whether all modes are those of new files and folders, with no hard links and no nested repository."""
    file_mode = stat.S_IMODE((root / ".git").lstat().st_mode)
    folder_mode = file_mode | (file_mode & 0o444) >> 2
    return _fresh_folder(root, folder_mode, frozenset({file_mode, folder_mode}), top=True)


def _fresh_folder(folder: Path, folder_mode: int, modes: frozenset[int], *, top: bool = False) -> bool:
    if stat.S_IMODE(folder.stat().st_mode) != folder_mode:
        return False
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == ".git":
                if not top:
                    return False
            elif entry.is_dir(follow_symlinks=False):
                if not _fresh_folder(Path(entry.path), folder_mode, modes):
                    return False
            elif not entry.is_symlink() and not _fresh_file(entry.stat(follow_symlinks=False), modes):
                return False
    return True


def _fresh_file(found: os.stat_result, modes: frozenset[int]) -> bool:
    return found.st_nlink == 1 and stat.S_IMODE(found.st_mode) in modes
