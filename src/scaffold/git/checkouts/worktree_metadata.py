"""Read and repair the files of a git directory without starting git: checkouts, branches, registered worktrees.

A repository keeps a registration, a folder that points back to the worktree, for each linked worktree.
"""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.git.common_dir import common_dir
from scaffold.host.atomic_files import delete_path, write_atomic
from scaffold.host.leftovers import own_mark

KNOWN_FILES = frozenset({"HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "commondir", "gitdir", "index", "logs"})
"""Files in a registration without locks, own config or unfinished operations."""
MAX_READ_BYTES = 4_096
"""Read at most this much of a file."""
HEADS = "refs/heads/"
OPERATION_FILES = ("rebase-merge/head-name", "rebase-apply/head-name")
HEAD_LOG = Path("logs", "HEAD")
_ID = re.compile("(?!0+$)(?:[0-9a-f]{40}|[0-9a-f]{64})")
_BRANCH = re.compile(r"ref: refs/heads/([^\s~^:?*\[\\\x00-\x20\x7f]{1,200})\s*")
_REFTABLE_HEAD = ".invalid"
"""The branch name that HEAD holds in a repository with the reftable backend."""


def find_registration(common: Path, checkout: Path) -> Path | None:
    """Return the registration that the git directory `common` has for the worktree at `checkout`, or None.

    `.git` in the checkout only chooses between several registrations: an agent may have changed it.
    """
    there = checkout.resolve()
    # Links are resolved only where the name fits: there are as many registrations as worktrees of all agents. An agent
    # may have put a link in the place of its worktree.
    names = {checkout.name, there.name}
    named = ((each, place) for each in _registrations(common) if (place := checkout_of(each)) and place.name in names)
    found = [each for each, place in named if place.resolve() == there]
    if len(found) > 1:
        claimed = gitdir_target(checkout)
        found = [each for each in found if each.resolve() == claimed]
    return found[0] if found else None


def restore_pointer(registration: Path, checkout: Path) -> None:
    """Make `.git` in `checkout` point to its registration again, whatever is there now."""
    if gitdir_target(checkout) != registration.resolve():
        delete_path(checkout / ".git")
        (checkout / ".git").write_bytes(os.fsencode(f"gitdir: {registration.resolve()}\n"))


def gitdir_target(checkout: Path) -> Path | None:
    """Return the git directory that the `.git` file in `checkout` points to, or None without such a file."""
    pointer = checkout / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return None
    text = os.fsdecode(pointer.read_bytes().partition(b"\0")[0])
    return (checkout / text.removeprefix("gitdir: ").rstrip("\n")).resolve() if text.startswith("gitdir: ") else None


def find_checkout(folder: Path) -> Path | None:
    """Return the checkout that contains `folder`, links resolved, or None.

    World-writable folders are skipped: any user could have put a `.git` there.
    """
    here = folder.resolve()
    found = (above for above in (here, *here.parents) if os.path.lexists(above / ".git"))
    return next((above for above in found if not above.stat().st_mode & stat.S_IWOTH), None)


def required_folders(checkout: Path) -> tuple[Path, ...]:
    """Return the folders that git needs for a checkout: itself, git directories outside it, and borrowed objects.

    A `.git` file that does not point to a git directory is ignored: it may have been planted.
    """
    try:
        registration = gitdir_target(checkout)
        if registration is None:
            return (checkout, *_borrowed_objects(checkout / ".git"))
        shared = common_dir(registration) if (registration / "commondir").is_file() else registration
    except OSError:
        return (checkout,)
    plausible = (registration / "HEAD").is_file() and (shared / "HEAD").is_file() and (shared / "objects").is_dir()
    return (checkout, registration, shared, *_borrowed_objects(shared)) if plausible else (checkout,)


def _borrowed_objects(git_dir: Path) -> Iterator[Path]:
    # A clone with --shared or --reference reads the objects of another repository.
    for line in _read_lines(git_dir / "objects" / "info" / "alternates"):
        folder = (git_dir / "objects" / line).resolve()
        if (folder / "pack").is_dir():
            yield folder


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


def is_registration(registration: Path, common: Path) -> bool:
    """Return whether the path `registration`, existing or not, is in `common`'s folder of registrations."""
    return registration.parent == (common / "worktrees").resolve()


def is_unmodified(registration: Path, *allowed: str) -> bool:
    """Return whether `registration` holds only known files and those `allowed`: no locks, config or unfinished work."""
    return {entry.name for entry in registration.iterdir()} <= KNOWN_FILES.union(allowed)


def branches_of_operations(git_dir: Path) -> frozenset[str]:
    """Return the short names of the branches that an unfinished rebase or bisect in a worktree will move or return to.

    `git_dir` is the worktree's own. Git keeps a branch in these files while HEAD is detached.
    """
    lines = [line for name in OPERATION_FILES for line in _read_lines(git_dir / name)]
    # A rebase with --update-refs lists each branch that it will move, followed by two commits.
    lines += _read_lines(git_dir / "rebase-merge" / "update-refs")[::3]
    # A bisect notes the short name of the branch, or a commit.
    bisected = _read_lines(git_dir / "BISECT_START")
    branches = [line.removeprefix(HEADS) for line in lines if line.startswith(HEADS)]
    return frozenset(branches + [line.removeprefix(HEADS) for line in bisected])


def _read_lines(file: Path) -> list[str]:
    try:
        return os.fsdecode(file.read_bytes()).splitlines()
    except OSError:
        return []


def commits_of_head(registration: Path) -> tuple[str, ...]:
    """Return the ids of the commits that HEAD of a worktree pointed to, by its log, each once, latest first.

    Empty if the log cannot be read or does not exist, for example with `core.logAllRefUpdates` off.
    """
    try:
        lines = (registration / HEAD_LOG).read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    ids = (line.split(" ", 2)[1:2] for line in reversed(lines))
    return tuple(dict.fromkeys(each[0] for each in ids if each and _ID.fullmatch(each[0])))


def detached_commit(registration: Path) -> str | None:
    """Return the commit id in a detached HEAD of a worktree; None if HEAD names a branch or is unreadable."""
    try:
        content = (registration / "HEAD").read_bytes()[:MAX_READ_BYTES].decode("ascii", "replace").strip()
    except OSError:
        return None
    return content if _ID.fullmatch(content) else None


def forget_log(registration: Path) -> None:
    """Delete the log of a worktree's HEAD, which belongs to the previous user of the worktree."""
    delete_path(registration / HEAD_LOG)


def registrations_under(common: Path, folder: Path) -> Iterator[Path]:
    """Yield the registrations in the git directory `common` of checkouts at or inside `folder`."""
    outermost = folder.resolve()
    for registration in _registrations(common):
        checkout = checkout_of(registration)
        if checkout is not None and checkout.resolve().is_relative_to(outermost):
            yield registration


def unfinished_registrations(common: Path) -> Iterator[Path]:
    """Yield the registrations that name no checkout, left by a killed git; `git worktree list` does not show them."""
    for registration in _registrations(common):
        if registration.is_dir() and not (registration / "gitdir").exists():
            yield registration


def _registrations(common: Path) -> list[Path]:
    registrations = common / "worktrees"
    return sorted(registrations.iterdir()) if registrations.is_dir() else []


def delete_registration(registration: Path) -> None:
    """Delete a registration; its checkout must be gone. Do nothing if it is missing.

    It is renamed first, to a name that identifies the process: after a kill it is either whole or a leftover, and a git
    that outlived its parent process cannot add to the folder that is being deleted.
    """
    common = registration.parent.parent
    gone = deleted_registrations(common) / f"{registration.name}{own_mark()}{secrets.token_hex(4)}"
    gone.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        registration.rename(gone)
        delete_path(gone)
    with contextlib.suppress(OSError):  # others are there
        registration.parent.rmdir()


def deleted_registrations(common: Path) -> Path:
    """Return the folder in which registrations of the git directory `common` are deleted; it may not exist."""
    return common / "scaffold"


def submodule_git_dirs(folder: Path) -> Iterator[Path]:
    """Yield the submodules' git directories in `folder`, nested ones too; a submodule's name may contain `/`."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (entry / "HEAD").is_file() and (entry / "objects").is_dir():
            yield entry
            yield from submodule_git_dirs(entry / "modules")
        elif entry.is_dir() and not entry.is_symlink():
            yield from submodule_git_dirs(entry)


def is_checkout_of(registration: Path, checkout: Path) -> bool:
    """Return whether `registration` belongs to the worktree at `checkout`."""
    found = checkout_of(registration)
    return found is not None and found.resolve() == checkout.resolve()


class CheckoutLocation(Struct, frozen=True):
    """A checkout and its common git directory.

    Both paths are absolute with links resolved; outside a repository both are the folder itself.
    """

    top: Path
    """The top of the checkout."""
    common_dir: Path
    """The git directory that the worktrees share; `top` if the repository may not own this checkout."""


def locate_checkout(start: Path) -> CheckoutLocation:
    """Return the location of the checkout that contains the folder `start`; raise OSError if `start` is missing."""
    folder = start.resolve(strict=True)
    for top in (folder, *folder.parents):
        if _is_checkout(top):
            return CheckoutLocation(top, _common_dir(top))
    return CheckoutLocation(folder, folder)


def _is_checkout(top: Path) -> bool:
    try:
        git_dir = top / ".git"
        is_repository = os.path.lexists(git_dir / "HEAD") and (git_dir / "objects").is_dir()
        return is_repository or gitdir_target(top) is not None
    except OSError:
        return False


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
                return _read_branch(git)
            if git.is_file():
                return _read_branch(each / _read_head(git).removeprefix("gitdir:").strip())
        except OSError:
            return None
    return None


def _read_branch(git: Path) -> str | None:
    found = _BRANCH.fullmatch(_read_head(git / "HEAD"))
    return found[1] if found and found[1] != _REFTABLE_HEAD else None


def _read_head(file: Path) -> str:
    # Opening a named pipe would wait for a writer.
    if not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(MAX_READ_BYTES).decode(errors="replace")
