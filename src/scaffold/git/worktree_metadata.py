"""Worktree registrations: the folder that a repository keeps for each linked worktree and that points back to it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.host.files import write_atomic

KNOWN_FILES = frozenset({"HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "commondir", "gitdir", "index", "logs"})
"""Files in a registration without locks, own config or unfinished operations."""


def worktree_git_dir(checkout: Path) -> Path:
    """Return the private git directory of the linked worktree at `checkout`.

    Raises GitError if there is none, or if `.git` points to the git directory of the user's own checkout or of another
    worktree, whose HEAD and index would then be changed instead.
    """
    found = gitdir_target(checkout)
    if found is None:
        raise GitError(f"{checkout} is no longer a git worktree: its .git file is missing", _fix(checkout))
    back = checkout_of(found)
    if back is None or not (found / "commondir").is_file():
        raise GitError(f"{checkout} is no longer one of our worktrees: its .git points to {found}", _fix(checkout))
    if not _same(back, checkout) and gitdir_target(back) == found:
        raise GitError(f"the .git of {checkout} points to the git directory of {back}", _fix(checkout))
    return found


def gitdir_target(checkout: Path) -> Path | None:
    """Return the git directory that the `.git` file in `checkout` points to; None if there is no such file."""
    pointer = checkout / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return None
    text = os.fsdecode(pointer.read_bytes())
    return (checkout / text.removeprefix("gitdir: ").rstrip("\n")).resolve() if text.startswith("gitdir: ") else None


def find_checkout(folder: Path) -> Path | None:
    """Return the checkout that contains `folder`, links resolved; None if there is none.

    World-writable folders are skipped: any user could have put a `.git` there.
    """
    here = folder.resolve()
    found = (above for above in (here, *here.parents) if os.path.lexists(above / ".git"))
    return next((above for above in found if not above.stat().st_mode & stat.S_IWOTH), None)


def required_folders(checkout: Path) -> tuple[Path, ...]:
    """Return the folders that git needs for a checkout: itself, and git directories outside it.

    A `.git` file that does not point to a git directory is ignored: it may have been planted.
    """
    try:
        registration = gitdir_target(checkout)
        if registration is None:
            return (checkout,)
        shared = common_dir(registration) if (registration / "commondir").is_file() else registration
    except OSError:
        return (checkout,)
    plausible = (registration / "HEAD").is_file() and (shared / "HEAD").is_file() and (shared / "objects").is_dir()
    return (checkout, registration, shared) if plausible else (checkout,)


def checkout_of(registration: Path) -> Path | None:
    """Return the checkout that `registration` belongs to, existing or not; None if it is not a registration."""
    try:
        pointer = os.fsdecode((registration / "gitdir").read_bytes()).rstrip("\n")
    except OSError:
        return None
    return (registration / pointer).parent


def set_checkout(registration: Path, checkout: Path) -> None:
    """Point `registration` to `checkout`."""
    write_atomic(registration / "gitdir", os.fsencode(f"{checkout.resolve() / '.git'}\n"))


def common_dir(registration: Path) -> Path:
    """Return the git directory that `registration` shares with the other worktrees."""
    return (registration / os.fsdecode((registration / "commondir").read_bytes()).rstrip("\n")).resolve()


def is_registration(registration: Path, common: Path) -> bool:
    """Return whether the path `registration`, existing or not, is in `common`'s folder of registrations."""
    return registration.parent == (common / "worktrees").resolve()


def is_unmodified(registration: Path, *allowed: str) -> bool:
    """Return whether `registration` holds only known files and those `allowed`: no locks, config or unfinished work."""
    return {entry.name for entry in registration.iterdir()} <= KNOWN_FILES.union(allowed)


def registrations_under(common: Path, folder: Path) -> Iterator[Path]:
    """Yield the registrations in the git directory `common` of checkouts at or inside `folder`."""
    registrations, outermost = common / "worktrees", folder.resolve()
    for registration in sorted(registrations.iterdir()) if registrations.is_dir() else []:
        checkout = checkout_of(registration)
        if checkout is not None and checkout.resolve().is_relative_to(outermost):
            yield registration


def submodule_git_dirs(folder: Path) -> Iterator[Path]:
    """Yield the submodules' git directories in `folder`, nested ones too; a submodule's name may contain `/`."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (entry / "HEAD").is_file() and (entry / "objects").is_dir():
            yield entry
            yield from submodule_git_dirs(entry / "modules")
        elif entry.is_dir() and not entry.is_symlink():
            yield from submodule_git_dirs(entry)


def _same(one: Path, other: Path) -> bool:
    """Return whether both paths are the same; resolves links only if the texts differ."""
    return one == other or one.resolve() == other.resolve()


def _fix(checkout: Path) -> str:
    return f"remove {checkout} if it holds nothing worth keeping, then retry"
