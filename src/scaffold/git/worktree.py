"""Worktrees: detached checkouts that attempts work in, made one at a time."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitFailed
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.index import trusted
from scaffold.git.registration import belongs, common_dir, link, pointed_at, points_to, private_dir, under
from scaffold.git.repository import UNFINISHED, Repository
from scaffold.git.submodule import forget, populate, populated
from scaffold.host.files import FileLock

LOCK_TIMEOUT_S = 300.0
CHECKOUT_TIMEOUT_S = 900.0
LOCKS = ("index.lock", "HEAD.lock")


class Worktree(Struct, frozen=True, kw_only=True):
    """A checkout that git knows of, the user's own included."""

    path: Path
    """Absolute, symbolic links resolved by git."""
    head: Commit | None
    """None where no commit was made yet, and for a bare repository."""
    branch: str | None
    """Short name; None for a detached head."""
    locked: bool


async def add(repo: Repository, path: Path, commit: Commit) -> Git:
    """Check `commit` out at `path`, detached, and return git there; what is left of an earlier try is replaced.

    Only the registration is serial, the files are written side by side. Submodules whose objects are here are
    checked out, too. Raises GitFailed if something that is not a worktree of this repository is in the way.
    """
    git = await add_bare(repo, path, commit)
    await populate(git)
    return git


async def add_bare(repo: Repository, path: Path, commit: Commit) -> Git:
    """Do as `add` does, and leave the folders of submodules empty."""
    async with _lock(repo):
        await _clear(repo, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            await _register(repo, path, commit)
        except GitFailed:
            await _clear(repo, path)
            await _register(repo, path, commit)
    git = repo.git.at(path)
    await git("reset", "--hard", "--quiet", commit, timeout_s=CHECKOUT_TIMEOUT_S)
    return git


async def remove(repo: Repository, path: Path) -> None:
    """Remove the worktree at `path` with all that is in it; nothing happens if there is none.

    What it holds must have landed or be pinned. Raises GitFailed if something that is not a worktree of this
    repository is there.
    """
    if occupied(repo, path):
        async with _lock(repo):
            await _clear(repo, path)


def occupied(repo: Repository, path: Path) -> bool:
    """Return whether anything is at `path`, or a worktree is registered there or below."""
    return os.path.lexists(path) or any(under(repo.common_dir, path))


async def listed(repo: Repository) -> tuple[Worktree, ...]:
    """Return all worktrees, the main one first."""
    answer = await repo.git("worktree", "list", "--porcelain", "-z")
    return tuple(_parse(block) for block in os.fsdecode(answer.out).split("\0\0") if block)


async def on_branch(repo: Repository, branch: str) -> tuple[Worktree, ...]:
    """Return the worktrees that have `branch` (short name) checked out; git is asked only if a HEAD names it."""
    if not _named(repo.common_dir, branch):
        return ()
    return tuple(worktree for worktree in await listed(repo) if worktree.branch == branch)


async def restore(git: Git, commit: Commit) -> None:
    """Make the worktree look like `commit`, detached; files that git ignores stay, repositories made inside do not."""
    _forget_work(git, commit)
    await _check_out(git, commit)
    await git("clean", "-ffdq")
    await populate(git)


async def renew(git: Git, commit: Commit) -> None:
    """Make the worktree look as if `commit` had just been checked out: ignored files go too."""
    await renew_bare(git, commit)
    await populate(git)


async def renew_bare(git: Git, commit: Commit) -> None:
    """Do as `renew` does, and leave the folders of submodules empty.

    Cleaned first, so that nothing stands in for a file: what git knows is then checked out where it is not.
    """
    await drop_submodules(git)
    _forget_work(git, commit)
    await git("clean", "-ffdxq")
    await _check_out(git, commit)


async def drop_submodules(git: Git) -> None:
    """Delete the checkouts of submodules; what is committed in them stays in their repositories."""
    for inner, _ in await populated(git):
        await asyncio.to_thread(delete, inner.cwd)
        inner.cwd.mkdir()
    forget(common_dir(private_dir(git.cwd)), git.cwd)


async def unlock(git: Git) -> None:
    """Remove the locks that a killed git left in a worktree of ours that nobody works in now."""
    _drop(git, LOCKS)


def delete(path: Path) -> None:
    """Delete a file, or a folder, even if some of its folders may not be written to; nothing happens if it is gone."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        for folder in _folders(path):
            folder.chmod(0o700)
        shutil.rmtree(path)


def _forget_work(git: Git, commit: Commit) -> None:
    """Drop locks, unfinished work, and an index that hides changes: without one every file is written anew."""
    _drop(git, LOCKS + tuple(trace.partition("/")[0] for trace, *_ in UNFINISHED))
    if not trusted(private_dir(git.cwd) / "index", hash_bytes=len(commit) // 2):
        _drop(git, ("index",))


async def _check_out(git: Git, commit: Commit) -> None:
    """Check out rather than reset: a reset would move a branch that an agent checked out here."""
    await git("checkout", "--force", "--detach", "--quiet", commit, timeout_s=CHECKOUT_TIMEOUT_S)


def _drop(git: Git, names: tuple[str, ...]) -> None:
    git_dir = private_dir(git.cwd)
    for name in names:
        delete(git_dir / name)


def _named(common: Path, branch: str) -> bool:
    """Whether a HEAD may be at `branch`; those that are kept in tables cannot be read."""
    heads = (common / "HEAD", *common.glob("worktrees/*/HEAD"))
    return (common / "reftable").is_dir() or any(_says(head, f"ref: refs/heads/{branch}") for head in heads)


def _says(head: Path, words: str) -> bool:
    try:
        return os.fsdecode(head.read_bytes()).rstrip("\n") == words
    except FileNotFoundError:
        return False  # its worktree was removed just now


def _lock(repo: Repository) -> FileLock:
    return FileLock(repo.common_dir / "scaffold" / "worktree.lock", timeout_s=LOCK_TIMEOUT_S)


async def _register(repo: Repository, path: Path, commit: Commit) -> None:
    """Make an empty worktree; the user's choice of a part of the files is not copied to it."""
    await repo.git("worktree", "add", "--detach", "--no-checkout", "--quiet", str(path), commit)
    for chosen in ("config.worktree", "info"):
        delete(private_dir(path) / chosen)


async def _clear(repo: Repository, path: Path) -> None:
    """Make room at `path`: drop its files, then its registration, whichever of them there is."""
    pointed = pointed_at(path)
    if pointed and belongs(pointed, repo.common_dir) and points_to(pointed) and not _elsewhere(pointed, path):
        link(pointed, path)
    known = _real(path) in {worktree.path for worktree in (await listed(repo))[1:]}
    if not known and not _ours(repo, path):
        raise GitFailed(
            f"{path} is in the way: it is not a worktree of {repo.root}", "move it elsewhere, then try again"
        )
    await asyncio.to_thread(delete, path)
    forget(repo.common_dir, path)
    if known:
        await repo.git("worktree", "remove", "--force", "--force", str(path))


def _elsewhere(registration: Path, path: Path) -> bool:
    """Whether `registration` is for another worktree, that is there."""
    checkout = points_to(registration)
    return checkout is not None and checkout.resolve() != path.resolve() and pointed_at(checkout) == registration


def _real(path: Path) -> Path:
    """Return `path` as git writes it."""
    return path.resolve()


def _ours(repo: Repository, path: Path) -> bool:
    """Whether at `path` is nothing, an empty folder, or one that points to a registration here, be it gone."""
    if not path.is_dir():
        return not os.path.lexists(path)
    if (path / ".git").is_file():
        pointed = pointed_at(path)
        return pointed is not None and belongs(pointed, repo.common_dir)
    return not any(path.iterdir())


def _folders(path: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(path):
        yield Path(folder)


def _parse(block: str) -> Worktree:
    said = dict(line.partition(" ")[::2] for line in block.split("\0"))
    head = said.get("HEAD", "")
    return Worktree(
        path=Path(said["worktree"]),
        head=Commit(head) if head.strip("0") else None,
        branch=said["branch"].removeprefix("refs/heads/") if "branch" in said else None,
        locked="locked" in said,
    )
