"""Submodules of our worktrees: checked out from objects already in the repository, never fetched.

Each is a linked worktree of the submodule's repository in `modules`, so a commit made in it outlives the worktree and
is available to later attempts.
"""

import shutil
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.worktree_metadata import (
    common_dir,
    gitdir_target,
    registrations_under,
    submodule_git_dirs,
    worktree_git_dir,
)
from scaffold.host.files import FileLock

GITMODULES = ".gitmodules"
KEEP_PREFIX = "refs/scaffold/keep/"
CHECKOUT_TIMEOUT_S = 900.0
LOCK_TIMEOUT_S = 300.0

_GITLINK = "160000 "
_LISTED = frozenset({0, 1})


class MissingSubmodule(Struct, frozen=True):
    """A submodule whose folder stays empty, and why."""

    path: str
    """Relative to the top of the outermost repository."""
    why: str


class Gitlink(Struct, frozen=True):
    """A submodule's entry in the index."""

    path: str
    commit: Commit


def has_submodules(checkout: Path) -> bool:
    """Return whether `checkout` has a .gitmodules file."""
    return (checkout / GITMODULES).is_file() and not (checkout / GITMODULES).is_symlink()


async def check_out_submodules(git: Git, *, within: str = "") -> tuple[MissingSubmodule, ...]:
    """Check out all submodules of one of our worktrees, recursively, at the commits in the index; return the failures.

    A submodule that is already checked out is reset to its commit; its ignored files stay.
    """
    if not has_submodules(git.cwd):
        return ()
    names = await _names(git)
    missing: list[MissingSubmodule] = []
    for link in await _gitlinks(git):
        path = f"{within}{link.path}"
        problem = await _check_out(git, link, names.get(link.path))
        if problem:
            missing.append(MissingSubmodule(path, problem))
        else:
            missing.extend(await check_out_submodules(git.at(git.cwd / link.path), within=f"{path}/"))
    return tuple(missing)


async def populated_submodules(git: Git) -> tuple[tuple[Git, Gitlink], ...]:
    """Return (git, index entry) of every submodule checked out directly in this worktree; nested ones excluded."""
    if not has_submodules(git.cwd):
        return ()
    return tuple(
        (git.at(git.cwd / link.path), link)
        for link in await _gitlinks(git)
        if gitdir_target(git.cwd / link.path) is not None
    )


async def keep_commit(git: Git, commit: Commit) -> None:
    """Pin a submodule's commit against pruning, because possibly no other ref reaches it."""
    await git("update-ref", f"{KEEP_PREFIX}{commit}", commit)


def forget_submodules(common: Path, folder: Path) -> None:
    """Delete the registrations of all submodules inside `folder`, a worktree that is deleted or about to be."""
    for module in submodule_git_dirs(common / "modules"):
        for registration in registrations_under(module, folder):
            shutil.rmtree(registration)


async def _check_out(git: Git, link: Gitlink, name: str | None) -> str | None:
    """Check out one submodule; return why that failed, None on success."""
    folder = git.cwd / link.path
    if name is None or not _safe(name):
        return f"{GITMODULES} has no valid entry for it"
    module = common_dir(worktree_git_dir(git.cwd)) / "modules" / name
    if not (module / "HEAD").is_file():
        return "its repository is missing: run `git submodule update --init` in your checkout"
    inner = git.at(folder)
    if gitdir_target(folder) is None:
        source = Git(module, environ=git.environ)
        if (await source("cat-file", "-e", f"{link.commit}^{{commit}}", ok=frozenset({0, 1, 128}))).exit_code:
            return f"its commit {link.commit[:12]} is missing: run `git submodule update` in your checkout"
        # Registrations of one repository are added one at a time; the checkout after it needs no lock.
        async with FileLock(module / "scaffold" / "worktree.lock", timeout_s=LOCK_TIMEOUT_S):
            await source("worktree", "add", "--detach", "--no-checkout", "--quiet", str(folder), link.commit)
        await inner("reset", "--hard", "--quiet", timeout_s=CHECKOUT_TIMEOUT_S)
    else:
        worktree_git_dir(folder)  # raises if .git no longer leads to this submodule's own registration
        await inner("checkout", "--force", "--detach", "--quiet", link.commit, timeout_s=CHECKOUT_TIMEOUT_S)
        # With a single -f git would keep nested repositories.
        await inner("clean", "-ffdq")
    return None


async def _gitlinks(git: Git) -> tuple[Gitlink, ...]:
    entries = (await git("ls-files", "--stage", "-z")).records
    return tuple(_parse_gitlink(entry) for entry in entries if entry.startswith(_GITLINK))


def _parse_gitlink(entry: str) -> Gitlink:
    details, _, path = entry.partition("\t")
    return Gitlink(path, Commit(details.split()[1]))


async def _names(git: Git) -> dict[str, str]:
    """Return {path: name} of the submodules."""
    answer = await git("config", "--file", GITMODULES, "-z", "--get-regexp", r"^submodule\..*\.path$", ok=_LISTED)
    pairs = (record.partition("\n") for record in answer.records)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}


def _safe(name: str) -> bool:
    """Return whether the name, used as a path, stays inside `modules`."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/")
