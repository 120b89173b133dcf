"""Submodules of our worktrees: checked out from objects already in the repository, never fetched.

Each is a linked worktree of the submodule's repository in `modules`, so a commit made in it outlives the worktree and
is available to later attempts. Git never enters a submodule on its own: an agent may have put another repository
there. We run git in it through the registration that was created with the checkout.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.checkouts.worktree_metadata import (
    checkout_of,
    delete_registration,
    find_registration,
    registrations_under,
    restore_pointer,
    submodule_git_dirs,
)
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import common_dir
from scaffold.host.atomic_files import FileLock
from scaffold.host.contained_path import ContainedPath

GITMODULES = ".gitmodules"
KEEP_PREFIX = "refs/scaffold/keep/"
CHECKOUT_TIMEOUT_S = 900.0
LOCK_TIMEOUT_S = 300.0

GITLINK_MODE = "160000"
"""The mode of a gitlink, in octal as git writes it."""
_GITLINK_BYTES = int(GITLINK_MODE, 8).to_bytes(4, "big")
"""The same mode in the index file."""
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


async def gitlinks(git: Git, *, index: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[Gitlink, ...]:
    """Return the submodules in the index of one of our worktrees, or in another `index`, which `env` then names.

    Starts no process if there are none. Whether .gitmodules names them does not matter.
    """
    if not _may_have_gitlinks(index or git.registration / "index"):
        return ()
    entries = (await git("ls-files", "--stage", "-z", env=env)).records
    parts = (entry.partition("\t") for entry in entries if entry.startswith(f"{GITLINK_MODE} "))
    return tuple(Gitlink(path, Commit(details.split()[1])) for details, _, path in parts)


async def check_out_submodules(git: Git, *, within: str = "") -> tuple[MissingSubmodule, ...]:
    """Check out all submodules of one of our worktrees, recursively, at the commits in the index; return the failures.

    A submodule that is already checked out is reset to its commit; its ignored files stay. The folders of the others
    are emptied.
    """
    links = await gitlinks(git)
    listed = git.cwd / GITMODULES
    is_listed = bool(links) and listed.is_file() and not listed.is_symlink()
    names = await _submodule_names(git, f"--file={GITMODULES}") if is_listed else {}
    missing: list[MissingSubmodule] = []
    for link in links:
        path = f"{within}{link.path}"
        found = await _check_out(git, link, names.get(link.path))
        if isinstance(found, Git):
            missing.extend(await check_out_submodules(found, within=f"{path}/"))
        else:
            missing.append(MissingSubmodule(path, found))
    return tuple(missing)


def checked_out_submodule(git: Git, link: Gitlink) -> Git | None:
    """Return git in a submodule that we checked out in this worktree; None if it is empty or not checked out.

    Its `.git` is not trusted.
    """
    folder = git.cwd / link.path
    if not is_gitlink_folder(git.cwd, link.path) or not any(folder.iterdir()):
        return None
    for module in submodule_git_dirs(common_dir(git.registration) / "modules"):
        registration = find_registration(module, folder)
        if registration is not None:
            return git.at(folder, git_dir=registration)
    return None


def checked_out_submodules(git: Git) -> Iterator[tuple[str, Git]]:
    """Yield the path and git of each submodule that we checked out in this worktree, nested ones too.

    Found by their registrations: an agent may have taken them out of the index.
    """
    top = git.cwd.resolve()
    for module in submodule_git_dirs(common_dir(git.registration) / "modules"):
        for registration in registrations_under(module, top):
            folder = checkout_of(registration)
            path = "" if folder is None else folder.resolve().relative_to(top).as_posix()
            if is_gitlink_folder(top, path):
                yield path, git.at(top / path, git_dir=registration)


def is_gitlink_folder(top: Path, path: str) -> bool:
    """Return whether `path` is a folder in the checkout `top`, not reached by links: one that git would enter."""
    folder = top / path
    try:
        return stat.S_ISDIR(folder.lstat().st_mode) and folder.parent.resolve() == (top.resolve() / path).parent
    except OSError:
        return False


def foreign_repositories(git: Git, links: Iterable[Gitlink]) -> tuple[str, ...]:
    """Return the paths of gitlinks whose folders contain a repository that we did not check out."""
    planted = (link for link in links if os.path.lexists(git.cwd / link.path / ".git"))
    return tuple(link.path for link in planted if checked_out_submodule(git, link) is None)


def empty_submodules(git: Git, links: Sequence[Gitlink]) -> None:
    """Empty the folders of submodules, checked out or not, and delete the registrations of their checkouts."""
    for link in links:
        _empty_folder(git, link)
    forget_submodules(common_dir(git.registration), git.cwd)


async def missing_gitlinks(git: Git, at: Commit, links: Sequence[Gitlink]) -> tuple[Gitlink, ...]:
    """Return the `links` whose commit is missing here, by the .gitmodules of the commit `at`."""
    if not links:
        return ()
    common, names = await _submodules_at(git, at)
    return tuple([link for link in links if await _missing_commit(git, common, link, names.get(link.path))])


async def submodule_repositories(git: Git, at: Commit) -> dict[str, Git]:
    """Return {path: git} for the submodule repositories that exist here, by the .gitmodules of the commit `at`."""
    common, names = await _submodules_at(git, at)
    modules = {path: common / "modules" / name for path, name in names.items() if _is_safe_name(name)}
    return {path: Git(module, environ=git.environ) for path, module in modules.items() if (module / "HEAD").is_file()}


async def keep_commit(git: Git, commit: Commit) -> None:
    """Pin a submodule's commit against pruning, because possibly no other ref reaches it."""
    await git("update-ref", f"{KEEP_PREFIX}{commit}", commit)


def forget_submodules(common: Path, folder: Path) -> None:
    """Delete the registrations of all submodules inside `folder`, a worktree that is deleted or about to be."""
    for module in submodule_git_dirs(common / "modules"):
        _forget_in(module, folder)


def _forget_in(module: Path, folder: Path) -> None:
    for registration in registrations_under(module, folder):
        delete_registration(registration)


async def _check_out(git: Git, link: Gitlink, name: str | None) -> Git | str:
    """Check out one submodule; return git in it, or the reason for the failure."""
    inner = checked_out_submodule(git, link)
    if inner is not None:
        restore_pointer(inner.registration, inner.cwd)
        await inner("checkout", "--force", "--detach", "--quiet", link.commit, timeout_s=CHECKOUT_TIMEOUT_S)
        # With a single -f git would keep nested repositories.
        await inner("clean", "-ffdq")
        return inner
    _empty_folder(git, link)
    common = common_dir(git.registration)
    if why := await _missing_commit(git, common, link, name):
        return why
    module, folder = common / "modules" / str(name), git.cwd / link.path
    source = Git(module, environ=git.environ)
    # Registrations of one repository are added one at a time; the checkout after it needs no lock.
    async with FileLock(module / "scaffold" / "worktree.lock", timeout_s=LOCK_TIMEOUT_S):
        _forget_in(module, folder)
        await source("worktree", "add", "--detach", "--no-checkout", "--quiet", str(folder), link.commit)
    inner = git.at(folder, git_dir=find_registration(module, folder))
    await inner("reset", "--hard", "--quiet", timeout_s=CHECKOUT_TIMEOUT_S)
    return inner


async def _missing_commit(git: Git, common: Path, link: Gitlink, name: str | None) -> str | None:
    if name is None or not _is_safe_name(name):
        return f"{GITMODULES} has no valid entry for it"
    module = common / "modules" / name
    if not (module / "HEAD").is_file():
        return "its repository is missing: run `git submodule update --init` in your checkout"
    source = Git(module, environ=git.environ)
    if (await source("cat-file", "-e", f"{link.commit}^{{commit}}", ok=frozenset({0, 1, 128}))).exit_code:
        return f"its commit {link.commit[:12]} is missing: run `git submodule update` in your checkout"
    return None


def _empty_folder(git: Git, link: Gitlink) -> None:
    """Empty the folder of a submodule; do nothing if its path is not a real folder of the checkout."""
    if is_gitlink_folder(git.cwd, link.path):
        place = ContainedPath(git.cwd, link.path)
        place.delete()
        with place.opened(create=True):
            pass


def _may_have_gitlinks(index: Path) -> bool:
    # False only if the index certainly has no gitlinks: reading the file saves a process.
    try:
        return _GITLINK_BYTES in index.read_bytes() or any(index.parent.glob("sharedindex.*"))
    except FileNotFoundError:
        return False


async def _submodules_at(git: Git, at: Commit) -> tuple[Path, dict[str, str]]:
    """Return the common git directory, and {path: name} of the submodules of a commit."""
    common = (await git("rev-parse", "--path-format=absolute", "--git-common-dir")).line
    return Path(common), await _submodule_names(git, f"--blob={at}:{GITMODULES}")


async def _submodule_names(git: Git, source: str) -> dict[str, str]:
    """Return {path: name} of the submodules, by the .gitmodules that the option `source` names."""
    answer = await git("config", source, "-z", "--get-regexp", r"^submodule\..*\.path$", ok=_LISTED)
    pairs = (record.partition("\n") for record in answer.records)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}


def _is_safe_name(name: str) -> bool:
    """Return whether the name, used as a path, stays inside `modules`."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/")
