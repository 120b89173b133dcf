"""Create, reset, clean and remove worktrees: the detached checkouts that attempts work in."""

import asyncio
import os
import re
import struct
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts.submodule import (
    Gitlink,
    check_out_submodules,
    empty_submodules,
    forget_submodules,
    gitlinks,
)
from scaffold.git.checkouts.worktree_metadata import (
    branches_of_operations,
    checkout_of,
    delete_registration,
    find_registration,
    gitdir_target,
    is_checkout_of,
    is_registration,
    registrations_under,
    restore_pointer,
    set_checkout,
    unfinished_registrations,
)
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import git_dir_at
from scaffold.git.repository import UNFINISHED_OPERATIONS, Repository
from scaffold.host.atomic_files import FileLock, delete_path
from scaffold.host.folder_tree import walk

STATUS = ("status", "--porcelain", "-z", "--untracked-files=normal", "--no-renames")
"""Lists all differences from the commit that is checked out, but not empty folders."""
UNTRACKED = ("?? ", "!! ")
LOCK_TIMEOUT_S = 300.0
CHECKOUT_TIMEOUT_S = 900.0
LOCKS = ("index.lock", "HEAD.lock")
INDEX_HEADER = struct.Struct(">4sII")
"""The head of the index file: signature, version, number of entries."""
STAT_BYTES = 40
"""Size of the times, device, inode, mode, owner and file size that precede an entry's hash."""
ASSUME_UNCHANGED, EXTENDED = 0x80, 0x40
FLAGS = ASSUME_UNCHANGED | EXTENDED
SKIP_WORKTREE = 0x4000
"""A bit of the extended flags."""


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree that git lists, including the user's own checkout."""

    path: Path
    """Absolute, symbolic links resolved by git."""
    head: Commit | None
    """None before the first commit, and for a bare repository."""
    branch: str | None
    """Short name; None for a detached HEAD."""
    locked: bool


async def add(repo: Repository, path: Path, commit: Commit) -> Git:
    """Check `commit` out at `path`, detached, and return git there; leftovers of an earlier attempt are replaced.

    Only the registration takes a lock; files are written concurrently. Submodules whose objects are available are
    checked out too. Raises GitError if `path` exists and is not a worktree of this repository.
    """
    git = await add_without_submodules(repo, path, commit)
    await check_out_submodules(git)
    return git


async def add_without_submodules(repo: Repository, path: Path, commit: Commit) -> Git:
    """Add a worktree as `add` does, but leave the folders of submodules empty."""
    async with _worktree_lock(repo):
        await _delete_worktree(repo, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            git = await _register_worktree(repo, path, commit)
        except GitError:
            await _delete_worktree(repo, path)
            git = await _register_worktree(repo, path, commit)
    await git("reset", "--hard", "--quiet", commit, timeout_s=CHECKOUT_TIMEOUT_S)
    return git


def find_worktree(repo: Repository, path: Path) -> Git | None:
    """Return git in our worktree at `path`, whatever `.git` in it says; None without a registration."""
    registration = find_registration(repo.common_dir, path)
    return None if registration is None or not path.is_dir() else repo.git.at(path, git_dir=registration)


async def remove(repo: Repository, path: Path) -> None:
    """Remove the worktree at `path` and its files; do nothing if it does not exist.

    Its work must have landed or be pinned. Raises GitError if `path` exists and is not a worktree of this repository.
    """
    if is_occupied(repo, path):
        async with _worktree_lock(repo):
            await _delete_worktree(repo, path)


def is_occupied(repo: Repository, path: Path) -> bool:
    """Return whether `path` exists, or a worktree is registered at or below it, even partially."""
    known = registrations_under(repo.common_dir, path)
    return os.path.lexists(path) or any(known) or bool(_unfinished_at(repo, path))


async def list_worktrees(repo: Repository) -> tuple[Worktree, ...]:
    """Return all worktrees, the main one first."""
    answer = await repo.git("worktree", "list", "--porcelain", "-z")
    main, *linked = (_parse_worktree(block) for block in os.fsdecode(answer.out).split("\0\0") if block)
    # Of the main one git names the folder of its git directory, in which a submodule, for one, is not.
    if git_dir_at(repo.root / ".git") == repo.common_dir.resolve():
        main = structs.replace(main, path=repo.root)
    elif top := (
        await repo.git("config", f"--file={repo.common_dir / 'config'}", "core.worktree", ok=frozenset({0, 1}))
    ).line:
        main = structs.replace(main, path=(repo.common_dir / top).resolve())
    return (main, *linked)


async def worktrees_on_branch(repo: Repository, branch: str) -> tuple[Worktree, ...]:
    """Return the worktrees that have `branch` (short name) checked out; runs git only if one may have it.

    Includes worktrees in the middle of a rebase or bisect of the branch. Their HEAD is detached, but git moves the
    branch or returns to it at the end, and refuses to move it meanwhile.
    """
    # The git directories of the main worktree and of the linked ones.
    git_dirs = (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*")))
    busy = tuple(each for each in git_dirs if branch in branches_of_operations(each))
    # We cannot read HEAD with the reftable backend, so it may be on the branch.
    possible = busy or (repo.common_dir / "reftable").is_dir()
    if not possible and not any(_head_has(each / "HEAD", f"ref: refs/heads/{branch}") for each in git_dirs):
        return ()
    main, *linked = await list_worktrees(repo)
    within = {None if each == repo.common_dir else checkout_of(each) for each in busy}
    found = [main] if main.branch == branch or None in within else []
    places = {path.resolve() for path in within if path is not None}
    return (*found, *(each for each in linked if each.branch == branch or each.path.resolve() in places))


async def restore(git: Git, commit: Commit) -> None:
    """Reset the worktree to `commit`, detached; ignored files stay, nested repositories are deleted."""
    _forget_work(git, commit)
    left, changed = await _left_behind(git, commit, await gitlinks(git))
    if changed:
        await _check_out(git, commit)
    if left:
        # With a single -f git would keep nested repositories.
        await git("clean", "-ffdq")
    await check_out_submodules(git)


async def reset_and_clean(git: Git, commit: Commit) -> None:
    """Reset the worktree to a fresh checkout of `commit`; ignored files are deleted too."""
    await clean_without_submodules(git, commit)
    await check_out_submodules(git)


async def clean_without_submodules(git: Git, commit: Commit) -> None:
    """Reset as `reset_and_clean` does, but leave the folders of submodules empty.

    Cleans before the checkout, so that no untracked path blocks a tracked file.
    """
    links = await gitlinks(git)
    await asyncio.to_thread(empty_submodules, git, links)
    _forget_work(git, commit)
    left, changed = await _left_behind(git, commit, links, "--ignored")
    if left:
        await git("clean", "-ffdxq")
    if changed:
        await _check_out(git, commit)


async def _left_behind(git: Git, commit: Commit, links: Collection[Gitlink], *options: str) -> tuple[bool, bool]:
    """Return whether there is something untracked, and whether HEAD or a tracked file is not that of the commit.

    What commands leave behind is seldom both, and only that need be undone.
    """
    # Changes in submodules are not seen.
    if links or not _head_has(git.registration / "HEAD", commit):
        return True, True
    untracked = [line.startswith(UNTRACKED) for line in (await git(*STATUS, *options)).records]
    return any(untracked) or await asyncio.to_thread(_has_empty_folder, git.cwd), not all(untracked)


async def drop_submodules(git: Git) -> None:
    """Delete the checkouts of submodules; their commits stay in their repositories."""
    await asyncio.to_thread(empty_submodules, git, await gitlinks(git))


def _has_empty_folder(top: Path) -> bool:
    return any(not folders and not others for _, folders, others in walk(top))


async def remove_locks(git: Git) -> None:
    """Remove the locks that a killed git left in one of our worktrees; no process may be using it."""
    _delete_entries(git, LOCKS)


def _forget_work(git: Git, commit: Commit) -> None:
    """Delete locks, unfinished operations, and an index that hides changes: without an index git rewrites every file.

    Commands of agents and checks find the repository through `.git`, so it is restored, too.
    """
    restore_pointer(git.registration, git.cwd)
    _delete_entries(git, LOCKS + tuple(marker.partition("/")[0] for marker, *_ in UNFINISHED_OPERATIONS))
    # In a SHA-256 repository, ids and index entries are longer.
    if not shows_all_changes(git.registration / "index", hash_bytes=len(commit) // 2):
        _delete_entries(git, ("index",))


async def _check_out(git: Git, commit: Commit) -> None:
    # Not a reset, which would move a branch that an agent checked out here.
    await git("checkout", "--force", "--detach", "--quiet", commit, timeout_s=CHECKOUT_TIMEOUT_S)


def _delete_entries(git: Git, names: tuple[str, ...]) -> None:
    for name in names:
        delete_path(git.registration / name)


def _head_has(head: Path, content: str) -> bool:
    try:
        return os.fsdecode(head.read_bytes()).rstrip("\n") == content
    except FileNotFoundError:
        return False  # the worktree was removed meanwhile


def _worktree_lock(repo: Repository) -> FileLock:
    return FileLock(repo.common_dir / "scaffold" / "worktree.lock", timeout_s=LOCK_TIMEOUT_S)


async def _register_worktree(repo: Repository, path: Path, commit: Commit) -> Git:
    # Git copies a sparse-checkout config into a new worktree, which is deleted again.
    await repo.git("worktree", "add", "--detach", "--no-checkout", "--quiet", str(path), commit)
    git = repo.git.at(path, git_dir=find_registration(repo.common_dir, path))
    for copied in ("config.worktree", "info"):
        delete_path(git.registration / copied)
    return git


async def _delete_worktree(repo: Repository, path: Path) -> None:
    target = gitdir_target(path)
    # If a process was killed while it renamed a worktree, the registration still names the old path.
    if target and is_registration(target, repo.common_dir) and _was_here(target, path):
        set_checkout(target, path)
    # The main worktree, the user's own checkout, has no registration and is never deleted.
    registered = [each for each in registrations_under(repo.common_dir, path) if is_checkout_of(each, path)]
    if not registered and not _is_replaceable(repo, path):
        raise GitError(f"{path} exists and is not a worktree of {repo.root}", "move it elsewhere, then retry")
    await asyncio.to_thread(delete_path, path)
    forget_submodules(repo.common_dir, path)
    # Not by git: after a kill in the middle, git no longer lists the rest and cannot continue.
    for each in (*registered, *_unfinished_at(repo, path)):
        await asyncio.to_thread(delete_registration, each)


def _unfinished_at(repo: Repository, path: Path) -> list[Path]:
    """Return the leftovers of a git that was killed while it added or removed the worktree at `path`.

    Git names a registration after the folder, with a number if that name is taken.
    """
    named = re.compile(rf"{re.escape(path.name)}\d*")
    return [each for each in unfinished_registrations(repo.common_dir) if named.fullmatch(each.name)]


def _was_here(registration: Path, path: Path) -> bool:
    """Return whether `registration` belongs to a worktree that was renamed to `path` within its run's folder.

    A registration that `.git` names is not enough: an agent could name a worktree of the user on an unmounted disk.
    """
    checkout = checkout_of(registration)
    if checkout is None or checkout.parent.parts[-2:] != path.resolve().parent.parts[-2:]:
        return False
    return checkout.resolve() == path.resolve() or gitdir_target(checkout) != registration


def _is_replaceable(repo: Repository, path: Path) -> bool:
    """Return whether `path` is missing, an empty folder, or points to a (possibly deleted) registration of `repo`."""
    if not path.is_dir():
        return not os.path.lexists(path)
    if (path / ".git").is_file():
        target = gitdir_target(path)
        return target is not None and is_registration(target, repo.common_dir)
    return not any(path.iterdir())


def _parse_worktree(block: str) -> Worktree:
    fields = dict(line.partition(" ")[::2] for line in block.split("\0"))
    head = fields.get("HEAD", "")
    return Worktree(
        path=Path(fields["worktree"]),
        head=Commit(head) if head.strip("0") else None,
        branch=fields["branch"].removeprefix("refs/heads/") if "branch" in fields else None,
        locked="locked" in fields,
    )


def shows_all_changes(index: Path, *, hash_bytes: int) -> bool:
    """Return whether git sees changes of every file with this index; a missing index hides nothing.

    False for an unreadable index and for a split index.
    """
    if any(index.parent.glob("sharedindex.*")):
        return False
    try:
        return not _hides_changes(index.read_bytes(), hash_bytes)
    except FileNotFoundError:
        return True
    except (struct.error, IndexError, ValueError):
        return False


def _hides_changes(data: bytes, hash_bytes: int) -> bool:
    signature, version, count = INDEX_HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError(version)
    at = INDEX_HEADER.size
    for _ in range(count):
        name = at + STAT_BYTES + hash_bytes + 2
        # The higher byte of the flags; hardly an entry has any, and there are as many as files.
        if flags := data[name - 2] & FLAGS:
            if flags & ASSUME_UNCHANGED:
                return True
            name += 2
            if int.from_bytes(data[name - 2 : name], "big") & SKIP_WORKTREE:
                return True
        at = _entry_end(data, at, name, version)
    return False


def _entry_end(data: bytes, at: int, name: int, version: int) -> int:
    """Return the offset after the entry that starts at `at` and whose name starts at `name`."""
    if version == 4:
        while data[name] & 0x80:  # a varint: how many bytes of the previous name to drop
            name += 1
        return data.index(0, name + 1) + 1
    length = data.index(0, name) - at
    # Before version 4 an entry is padded with one to eight NULs to a multiple of eight bytes.
    return at + (length + 8) // 8 * 8
