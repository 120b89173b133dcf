"""Submodules of our worktrees: checked out from the objects that are in the repository, never fetched.

Each is a linked worktree of the repository that git keeps in `modules`, so that a commit made in it outlives the
worktree, and is there for whoever takes the work.
"""

import shutil
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.registration import common_dir, modules, pointed_at, private_dir, under
from scaffold.host.files import FileLock

LIST = ".gitmodules"
KEPT = "refs/scaffold/keep/"
CHECKOUT_TIMEOUT_S = 900.0
LOCK_TIMEOUT_S = 300.0

_GITLINK = "160000 "
_LISTED = frozenset({0, 1})


class Missing(Struct, frozen=True):
    """A submodule whose folder stays empty, and why."""

    path: str
    """In the outermost repository."""
    why: str


class Link(Struct, frozen=True):
    """What the index says about a submodule."""

    path: str
    commit: Commit


def has_submodules(checkout: Path) -> bool:
    """Return whether submodules are listed in `checkout`."""
    return (checkout / LIST).is_file() and not (checkout / LIST).is_symlink()


async def populate(git: Git, *, within: str = "") -> tuple[Missing, ...]:
    """Check out every submodule of a worktree of ours, and theirs, as the index says; return those that could not be.

    What is there already is made to look like its commit; files that its repository ignores stay.
    """
    if not has_submodules(git.cwd):
        return ()
    names = await _names(git)
    missing: list[Missing] = []
    for link in await _links(git):
        path = f"{within}{link.path}"
        problem = await _check_out(git, link, names.get(link.path))
        if problem:
            missing.append(Missing(path, problem))
        else:
            missing.extend(await populate(git.at(git.cwd / link.path), within=f"{path}/"))
    return tuple(missing)


async def populated(git: Git) -> tuple[tuple[Git, Link], ...]:
    """Return git in every submodule that is checked out directly in this worktree, with what the index says of it."""
    if not has_submodules(git.cwd):
        return ()
    return tuple(
        (git.at(git.cwd / link.path), link) for link in await _links(git) if pointed_at(git.cwd / link.path) is not None
    )


async def keep(git: Git, commit: Commit) -> None:
    """Keep a submodule's commit from being pruned: nothing else may name it."""
    await git("update-ref", f"{KEPT}{commit}", commit)


def forget(common: Path, folder: Path) -> None:
    """Drop the registrations of all submodules inside `folder`, a worktree whose files are gone or about to go."""
    for module in modules(common / "modules"):
        for registration in under(module, folder):
            shutil.rmtree(registration)


async def _check_out(git: Git, link: Link, name: str | None) -> str | None:
    """Return why the submodule could not be checked out; None if it is there."""
    folder = git.cwd / link.path
    if name is None or not _safe(name):
        return f"{LIST} does not say which submodule it is"
    module = common_dir(private_dir(git.cwd)) / "modules" / name
    if not (module / "HEAD").is_file():
        return "its repository is not here: `git submodule update --init` in your checkout brings it"
    here = git.at(folder)
    if pointed_at(folder) is None:
        source = Git(module, environ=git.environ)
        if (await source("cat-file", "-e", f"{link.commit}^{{commit}}", ok=frozenset({0, 1, 128}))).exit_code:
            return f"its commit {link.commit[:12]} is not here: `git submodule update` in your checkout brings it"
        async with FileLock(module / "scaffold" / "worktree.lock", timeout_s=LOCK_TIMEOUT_S):
            await source("worktree", "add", "--detach", "--no-checkout", "--quiet", str(folder), link.commit)
        await here("reset", "--hard", "--quiet", timeout_s=CHECKOUT_TIMEOUT_S)
    else:
        private_dir(folder)
        await here("checkout", "--force", "--detach", "--quiet", link.commit, timeout_s=CHECKOUT_TIMEOUT_S)
        await here("clean", "-ffdq")
    return None


async def _links(git: Git) -> tuple[Link, ...]:
    entries = (await git("ls-files", "--stage", "-z")).records
    return tuple(_link(entry) for entry in entries if entry.startswith(_GITLINK))


def _link(entry: str) -> Link:
    said, _, path = entry.partition("\t")
    return Link(path, Commit(said.split()[1]))


async def _names(git: Git) -> dict[str, str]:
    """Return the names of the submodules by their paths."""
    answer = await git("config", "--file", LIST, "-z", "--get-regexp", r"^submodule\..*\.path$", ok=_LISTED)
    pairs = (record.partition("\n") for record in answer.records)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}


def _safe(name: str) -> bool:
    """Whether the name leads to no place outside of `modules`."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/")
