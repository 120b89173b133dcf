"""A linked worktree as the repository it belongs to sees it: a folder in its git directory that points back."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from scaffold.core.errors import GitFailed
from scaffold.host.files import write_atomic

PLAIN = frozenset({"HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "commondir", "gitdir", "index", "logs"})
"""What is in a registration that nobody did anything special with."""


def private_dir(checkout: Path) -> Path:
    """Return the git directory that belongs to the linked worktree at `checkout` alone.

    Raises GitFailed if there is none, or if the pointer there leads to somebody else's: to the user's own checkout,
    whose HEAD and index would then be changed instead, or to another worktree's.
    """
    found = pointed_at(checkout)
    if found is None:
        raise GitFailed(f"{checkout} is not a git repository any more: its .git is gone", _fix(checkout))
    back = points_to(found)
    if back is None or not (found / "commondir").is_file():
        raise GitFailed(f"{checkout} is not a worktree of ours any more: its .git leads to {found}", _fix(checkout))
    if not _same(back, checkout) and pointed_at(back) == found:
        raise GitFailed(f"{checkout} pretends to be {back}: its .git leads to the same place", _fix(checkout))
    return found


def pointed_at(checkout: Path) -> Path | None:
    """Return the git directory that the file `.git` in `checkout` names; None if there is no such file."""
    pointer = checkout / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return None
    said = os.fsdecode(pointer.read_bytes())
    return (checkout / said.removeprefix("gitdir: ").rstrip("\n")).resolve() if said.startswith("gitdir: ") else None


def checkout_around(folder: Path) -> Path | None:
    """Return the checkout that `folder` is or lies in, without links; None if there is none.

    A folder that everybody may write to is none: anybody may have put a `.git` there.
    """
    here = folder.resolve()
    found = (above for above in (here, *here.parents) if os.path.lexists(above / ".git"))
    return next((above for above in found if not above.stat().st_mode & stat.S_IWOTH), None)


def repository_of(checkout: Path) -> tuple[Path, ...]:
    """Return the folders that git needs for a checkout: itself, and git directories that lie elsewhere.

    Where a pointer leads to no git directory, that is left out: it might have been put there to lead us astray.
    """
    try:
        registration = pointed_at(checkout)
        if registration is None:
            return (checkout,)
        shared = common_dir(registration) if (registration / "commondir").is_file() else registration
    except OSError:
        return (checkout,)
    plausible = (registration / "HEAD").is_file() and (shared / "HEAD").is_file() and (shared / "objects").is_dir()
    return (checkout, registration, shared) if plausible else (checkout,)


def points_to(registration: Path) -> Path | None:
    """Return the checkout that `registration` is for, be it there or not; None if it is no registration."""
    try:
        said = os.fsdecode((registration / "gitdir").read_bytes()).rstrip("\n")
    except OSError:
        return None
    return (registration / said).parent


def link(registration: Path, checkout: Path) -> None:
    """Let `registration` be for `checkout` from now on."""
    write_atomic(registration / "gitdir", os.fsencode(f"{checkout.resolve() / '.git'}\n"))


def common_dir(registration: Path) -> Path:
    """Return the git directory that `registration` shares with the other worktrees."""
    return (registration / os.fsdecode((registration / "commondir").read_bytes()).rstrip("\n")).resolve()


def belongs(registration: Path, common: Path) -> bool:
    """Return whether `registration` is a place for a worktree of the git directory `common`, be it gone or not."""
    return registration.parent == (common / "worktrees").resolve()


def plain(registration: Path, *allowed: str) -> bool:
    """Return whether there are no locks, settings, unfinished work or anything else but what is `allowed`."""
    return {entry.name for entry in registration.iterdir()} <= PLAIN.union(allowed)


def under(common: Path, folder: Path) -> Iterator[Path]:
    """Name the registrations in the git directory `common` that are for checkouts inside `folder`."""
    places, outermost = common / "worktrees", folder.resolve()
    for registration in sorted(places.iterdir()) if places.is_dir() else []:
        checkout = points_to(registration)
        if checkout is not None and checkout.resolve().is_relative_to(outermost):
            yield registration


def modules(folder: Path) -> Iterator[Path]:
    """Name the submodules' repositories in `folder`; their names may have several parts, and they may have some too."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (entry / "HEAD").is_file() and (entry / "objects").is_dir():
            yield entry
            yield from modules(entry / "modules")
        elif entry.is_dir() and not entry.is_symlink():
            yield from modules(entry)


def _same(one: Path, other: Path) -> bool:
    """Return whether both name the same place; the disk is asked only where their words differ."""
    return one == other or one.resolve() == other.resolve()


def _fix(checkout: Path) -> str:
    return f"remove {checkout} if nothing in it is worth keeping, then try again"
