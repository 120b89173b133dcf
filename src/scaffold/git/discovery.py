"""Locate the checkout, the common git directory and the branch of a folder, without starting git."""

import os
import re
from pathlib import Path

from msgspec import Struct

from scaffold.git.worktree_metadata import checkout_of, common_dir, gitdir_target, is_registration

MAX_READ_BYTES = 4_096
"""Read at most this much of a file."""
_BRANCH = re.compile(r"ref: refs/heads/([^\s~^:?*\[\\\x00-\x20\x7f]{1,200})\s*")
_REFTABLE_HEAD = ".invalid"
"""The branch name that HEAD holds in a repository with the reftable backend."""


class CheckoutLocation(Struct, frozen=True):
    """A checkout and its common git directory.

    Both paths are absolute with links resolved; outside a repository both are the folder itself.
    """

    top: Path
    """The top of the checkout."""
    common_dir: Path
    """The git directory that the worktrees share; `top` if it is not certain that the repository owns this checkout."""


def locate_checkout(start: Path) -> CheckoutLocation:
    """Return the location of the checkout that contains the folder `start`; raise OSError if `start` is missing."""
    folder = start.resolve(strict=True)
    for top in (folder, *folder.parents):
        if _is_checkout(top):
            return CheckoutLocation(top, _common_dir(top))
    return CheckoutLocation(folder, folder)


def _is_checkout(top: Path) -> bool:
    try:
        return _is_git_directory(top / ".git") or gitdir_target(top) is not None
    except OSError:
        return False


def _is_git_directory(path: Path) -> bool:
    return os.path.lexists(path / "HEAD") and (path / "objects").is_dir()


def _common_dir(top: Path) -> Path:
    """Return the common git directory if the repository has `top` registered as a worktree, else `top`.

    A `.git` link or file alone proves nothing: any folder can point to another repository.
    """
    own = top / ".git"
    if own.is_dir():
        return top if own.is_symlink() else own
    try:
        registration = gitdir_target(top)
        if registration is None or not (registration / "commondir").is_file():
            return top
        common, back = common_dir(registration), checkout_of(registration)
    except OSError:
        return top
    registered = is_registration(registration, common) and back is not None and back.resolve() == top
    return common if registered else top


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
