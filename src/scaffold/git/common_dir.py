"""Find a repository's common git directory without starting git, because `status` is called often."""

import os
from collections.abc import Collection
from pathlib import Path

from scaffold.core.errors import NotInRepository, RepositoryError

GITFILE = "gitdir: "


def find_common_dir(start: Path) -> Path:
    """Return the git directory that the checkout around `start` shares with its worktrees, absolute.

    Raises NotInRepository outside of a repository, another RepositoryError if it has no checkout. A repository that git
    would refuse to open is found too: readers only need the path.
    """
    return find_checkout(start)[1]


def find_checkout(start: Path) -> tuple[Path, Path]:
    """Return the top folder of the checkout around `start`, and its git directory as `find_common_dir` does."""
    top, git_dir = _find_checkout(start)
    return top, common_dir(git_dir) if (git_dir / "commondir").is_file() else git_dir


def find_top(start: Path) -> Path:
    """Return the top folder of the checkout around `start`; raises as `find_common_dir` does."""
    return _find_checkout(start)[0]


def _find_checkout(start: Path) -> tuple[Path, Path]:
    start = start.resolve()
    for folder in (start, *start.parents):
        git_dir = git_dir_at(folder / ".git")
        if git_dir is not None:
            return folder, git_dir
        if _is_git_dir(folder):
            what = f"{start} is a bare repository, or inside a git directory: there are no files to work on"
            raise RepositoryError(what, "clone it and use the clone, or use the checkout instead")
    raise not_in_repository(start)


def common_dir(registration: Path) -> Path:
    """Return the git directory that `registration` shares with the other worktrees."""
    # Like git, which knows no name beyond a zero byte.
    named = (registration / "commondir").read_bytes().partition(b"\0")[0]
    return (registration / os.fsdecode(named).rstrip("\n")).resolve()


def not_in_repository(start: Path) -> NotInRepository:
    """Return the error about a directory that is not in a git repository."""
    return NotInRepository(
        f"{start} is not in a git repository", "run `git init` and make a first commit, or use another directory"
    )


def is_git_dir_by_names(names: Collection[str]) -> bool:
    """Return whether git takes a folder with entries of these lower-case names for a git directory."""
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= set(names))


def git_dir_at(entry: Path) -> Path | None:
    """Return the git directory that `.git` is or points to, or None."""
    if entry.is_file():
        text = entry.read_text("utf-8", errors="surrogateescape")
        target = entry.parent / text.removeprefix(GITFILE).rstrip("\n")
        return target.resolve() if text.startswith(GITFILE) and _is_git_dir(target) else None
    return entry.resolve() if _is_git_dir(entry) else None


def _is_git_dir(folder: Path) -> bool:
    # Git's own test: HEAD exists, and objects and refs, or `commondir` that points to them.
    if not os.path.isfile(folder / "HEAD"):  # noqa: PTH113 - the method fails for a name that is too long
        return False
    return (folder / "commondir").is_file() or ((folder / "objects").is_dir() and (folder / "refs").is_dir())
