"""Used worktrees made new: what git cleans, and what it does not look at."""

import os
import stat
from pathlib import Path

from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.worktree import renew_bare


async def recycle(git: Git, commit: Commit) -> bool:
    """Make a used worktree look as if `commit` had just been checked out, the folders of submodules empty.

    False if that cannot be done, or if something is left that a fresh one would not have: remove it then.
    """
    try:
        await renew_bare(git, commit)
    except GitFailed:
        return False
    return _looks_fresh(git.cwd)


def _looks_fresh(root: Path) -> bool:
    """Whether modes are those of new files and folders, nothing is linked elsewhere, and no repository is hidden."""
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
