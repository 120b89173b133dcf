"""Where a folder belongs: the top of its checkout, and what its worktrees share. No git is started."""

import os
from pathlib import Path

from msgspec import Struct

from scaffold.git.registration import belongs, common_dir, pointed_at, points_to


class Belonging(Struct, frozen=True):
    """Both paths are absolute and without links; outside of a repository both are the folder itself."""

    top: Path
    """The top of the checkout."""
    kin: Path
    """The git directory that the repository's worktrees share; the top where it is not certain to be one of them."""


def belonging(start: Path) -> Belonging:
    """Return where the folder `start` belongs; OSError if it is not there."""
    folder = start.resolve(strict=True)
    for top in (folder, *folder.parents):
        if _is_checkout(top):
            return Belonging(top, _shared(top))
    return Belonging(folder, folder)


def _is_checkout(top: Path) -> bool:
    try:
        return _is_git_directory(top / ".git") or pointed_at(top) is not None
    except OSError:
        return False


def _is_git_directory(path: Path) -> bool:
    return os.path.lexists(path / "HEAD") and (path / "objects").is_dir()


def _shared(top: Path) -> Path:
    """Return what the worktrees share, if the repository knows this folder as one of them.

    A folder may only claim to belong to a repository: by a link, or by a file that leads there. Its word is not taken.
    """
    own = top / ".git"
    if own.is_dir():
        return top if own.is_symlink() else own
    try:
        registration = pointed_at(top)
        if registration is None or not (registration / "commondir").is_file():
            return top
        common, back = common_dir(registration), points_to(registration)
    except OSError:
        return top
    known = belongs(registration, common) and back is not None and back.resolve() == top
    return common if known else top
