"""Where a repository keeps what its worktrees share, found without starting git: `status` is called all day."""

from pathlib import Path

from scaffold.core.errors import RepositoryUnfit

GITFILE = "gitdir: "


def common_dir_around(start: Path) -> Path:
    """Return the git directory that the checkout around `start` shares with its worktrees, absolute.

    Raises RepositoryUnfit where there is no checkout. What git would refuse to work with is still found: a reader
    needs nothing but the place.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        git_dir = _git_dir(folder / ".git")
        if git_dir is not None:
            return _shared(git_dir)
        if _is_git_dir(folder):
            what = f"{start} is a bare repository, or inside a git directory: there are no files to work on"
            raise RepositoryUnfit(what, "clone it, and name the clone, or name the checkout instead")
    raise RepositoryUnfit(
        f"{start} is not in a git repository", "run `git init` and make a first commit, or name another directory"
    )


def _git_dir(entry: Path) -> Path | None:
    """Return the git directory that `.git` is, or names; None if it is neither."""
    if entry.is_file():
        text = entry.read_text("utf-8", errors="surrogateescape")
        named = entry.parent / text.removeprefix(GITFILE).rstrip("\n")
        return named.resolve() if text.startswith(GITFILE) and _is_git_dir(named) else None
    return entry.resolve() if _is_git_dir(entry) else None


def _is_git_dir(folder: Path) -> bool:
    """Tell by what git itself goes by: a head, and objects and refs, or where they are shared."""
    if not (folder / "HEAD").is_file():
        return False
    return (folder / "commondir").is_file() or ((folder / "objects").is_dir() and (folder / "refs").is_dir())


def _shared(git_dir: Path) -> Path:
    """Return the directory that a worktree's own git directory names, or `git_dir` itself."""
    pointer = git_dir / "commondir"
    if not pointer.is_file():
        return git_dir
    return (git_dir / pointer.read_text("utf-8", errors="surrogateescape").rstrip("\n")).resolve()
