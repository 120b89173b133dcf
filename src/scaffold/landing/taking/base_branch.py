"""Move a branch of the user forward: the only way in which a checkout of the user is ever written."""

import os
from collections.abc import Sequence
from shlex import quote
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.git.repository import Repository, checkout_status

CHECKOUT_TIMEOUT_S = 900.0
FILTER_SETTINGS = r"^filter\..*\.(clean|smudge|process)$"


class BranchPlace(Struct, frozen=True, kw_only=True):
    """Where a branch is checked out, and why it cannot be moved there."""

    where: Literal["nowhere", "here", "elsewhere"]
    """In no worktree | in the checkout in which the command runs | in another one."""
    obstacle: str = ""
    """Why it cannot be moved; empty if it can."""
    fix: str = ""


async def find_branch(
    repository: Repository, branch: str, to: str | None, paths: Sequence[str], *, again: str
) -> BranchPlace:
    """Return where the branch is checked out, and whether it can be moved there to work that changes `paths`.

    `to` is a branch with exactly the commits to take, for a command that the user can run; None if there is none, so
    that the command `again` must be repeated. Raises RepositoryError if an operation is unfinished in the checkout.
    """
    for each in await worktree.worktrees_on_branch(repository, branch):
        if each.path.resolve() == repository.root.resolve():
            return await _checked_out_here(repository, branch, to, paths, again)
        # A deleted folder does not count, unless git's lock says that it is on a disk that is not mounted.
        if not (each.locked or each.path.exists()):
            continue
        if each.branch != branch:
            return BranchPlace(
                where="elsewhere",
                obstacle=f"a rebase or bisect of {branch} is unfinished in {each.path}",
                fix="Finish or abort it, then try again.",
            )
        path = quote(str(each.path))
        command = f"cd {path} && {again}" if to is None else f"git -C {path} merge --ff-only {quote(to)}"
        return BranchPlace(
            where="elsewhere",
            obstacle=f"{branch} is checked out in {each.path}, and a branch is never moved under its user",
            fix=f"Take it there: `{command}`.",
        )
    return BranchPlace(where="nowhere")


async def _checked_out_here(
    repository: Repository, branch: str, to: str | None, paths: Sequence[str], again: str
) -> BranchPlace:
    await checkout_status(repository)  # raises if an operation is unfinished
    git = repository.git
    # A branch that is not checked out moves without files, which the user's own git updates afterwards.
    around = f"git switch --detach && {again} && git switch {quote(branch)}"
    command = around if to is None else f"git merge --ff-only {quote(to)}"
    # Untracked files may stay: git refuses to overwrite them.
    args = ("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty")
    if changed := [record[3:] for record in (await git(*args)).records]:
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        return BranchPlace(
            where="here",
            obstacle=f"{branch} is checked out in {repository.root} with uncommitted changes: {shown}",
            fix="Commit or stash them (`git stash`), then try again.",
        )
    # We run git without sparse checkouts and the user's filters, so it would write other files than theirs.
    filtered = await _has_own_filters(repository, paths)
    asked = ("config", "--type=bool", "--get-all", "core.sparseCheckout")
    # The last value is the one that our own commands set.
    sparse = (await git(*asked, ok=frozenset({0, 1}))).line.split("\n")[-2:-1] == ["true"]
    if filtered or sparse:
        what = "filters of your own" if filtered else "only some of its files"
        return BranchPlace(
            where="here",
            obstacle=f"{branch} is checked out in {repository.root} with {what}, so only your git can update its files",
            fix=f"Take it there: `{command}`.",
        )
    return BranchPlace(where="here")


async def _has_own_filters(repository: Repository, paths: Sequence[str]) -> bool:
    # The filter of git-lfs is the same for everybody.
    git = repository.git
    configured = await git("config", "--name-only", "--get-regexp", FILTER_SETTINGS, ok=frozenset({0, 1}))
    names = {line.partition(".")[2].rpartition(".")[0] for line in configured.line.split("\n")} - {"lfs", ""}
    if not names:
        return False
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    found = (await git("check-attr", "-z", "--stdin", "filter", stdin=listed)).records
    return not names.isdisjoint(found[2::3])


async def advance(repository: Repository, place: BranchPlace, branch: str, *, old: Commit, new: Commit) -> None:
    """Move the branch from `old` forward to `new`, with the checkout if it is checked out here.

    Raises GitError, and changes nothing, if that would overwrite a file of the user or others moved the branch.
    """
    if place.where == "here":
        await _fast_forward(repository, branch, old=old, new=new)
    elif not await refs.move(repository.git, f"refs/heads/{branch}", new=new, old=old, known=old):
        raise _moved_error(branch)


async def _fast_forward(repository: Repository, branch: str, *, old: Commit, new: Commit) -> None:
    status = await checkout_status(repository)
    if status.branch != branch or status.head not in {old, new}:
        raise _moved_error(branch)
    # By default git silently overwrites ignored files of the user.
    # The user's `branch.NAME.mergeOptions` come first, so every option that could change the outcome is reset here.
    options = ("--ff-only", "--no-squash", "--commit", "--no-autostash", "--no-overwrite-ignore")
    args = ("merge", *options, "--no-verify-signatures", "--no-stat", "--quiet", new)
    done = await repository.git(*args, timeout_s=CHECKOUT_TIMEOUT_S, ok=frozenset({0, 1, 2, 128}))
    if done.exit_code != 0:
        text = " | ".join(line.strip() for line in done.err.decode(errors="replace").splitlines() if line.strip())
        raise GitError(
            f"git did not fast-forward {branch} in {repository.root}: {text}",
            "Move the files out of the way, or commit them, then try again; nothing was changed.",
        )
    if (found := await refs.resolve(repository.git, f"refs/heads/{branch}")) != new:
        raise GitError(
            f"git merged {new[:8]} in {repository.root}, and {branch} is at {found[:8] if found else 'no commit'}",
            f"Look at it with `git status`, and at `git config {quote(f'branch.{branch}.mergeOptions')}`.",
        )


def _moved_error(branch: str) -> GitError:
    return GitError(f"another process has just moved {branch}", "Nothing was changed. Try again.")
