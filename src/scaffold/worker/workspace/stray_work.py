"""What an agent left in git besides the files of its worktree: staged versions, and commits that HEAD has left.

The rescue ref holds the files. These would be lost with the worktree's index and its log of HEAD.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.core.model import Attempt, Run
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.worktree_metadata import commits_of_head
from scaffold.git.client.command_line import Git
from scaffold.run.context import RunContext


async def pin_stray_work(
    context: RunContext, run: Run, attempt: Attempt, path: Path, *, pinned: Commit | None, staged: bool = True
) -> Commit | None:
    """Pin what neither the base nor `pinned` has under the attempt's keep ref; return that commit, None if nothing.

    `path` is the attempt's worktree. The commit's parents are what was pinned there before and the abandoned commits,
    and its tree is what was staged; not `staged` if all files have been committed, index and all. Safe to repeat.
    Call it only after the attempt's processes have ended.
    """
    git = worktree.find_worktree(context.repository, path)
    if git is None:
        return None
    known = [each for each in (attempt.start, pinned) if each is not None]
    if not staged and not _reflog_commits(git, known):
        return None
    before = await refs.resolve(context.git, refs.keep_ref(attempt.id))
    known += [before] if before else []
    left = await _left_commits(git, known)
    tree = await _staged_tree(context, git, (*known, *left)) if staged else None
    if not left and tree is None:
        return None
    return await _pin_commit(context, run, attempt, left, before, tree)


async def pin_staged(context: RunContext, run: Run, attempt: Attempt, git: Git) -> None:
    """Pin what is staged in the attempt's worktree, at which `git` works, under its keep ref.

    Call it only after the attempt's processes have ended, and before the files are staged.
    """
    await worktree.remove_locks(git)
    before = await refs.resolve(context.git, refs.keep_ref(attempt.id))
    known = (attempt.start, *([before] if before else []))
    if (tree := await _staged_tree(context, git, known)) is not None:
        await _pin_commit(context, run, attempt, (), before, tree)


async def _pin_commit(
    context: RunContext, run: Run, attempt: Attempt, left: tuple[Commit, ...], before: Commit | None, tree: str | None
) -> Commit:
    parents = (*([before] if before else []), *left) or (attempt.start,)
    identity = run.settings.identity

    async def make() -> Commit:
        tip = await commits.commit_tree(
            context.git,
            tree or await commits.tree_of(context.git, parents[0]),
            parents=parents,
            message=f"Commits and staged files of attempt {attempt.id} that are not in its worktree\n",
            author=identity.author,
            committer=identity.committer,
        )
        await refs.pin(context.git, refs.keep_ref(attempt.id), tip, known=attempt.start)
        return tip

    return await context.git.made_whole(make)


def _reflog_commits(git: Git, known: Collection[Commit]) -> list[str]:
    return [each for each in commits_of_head(git.registration) if each not in known]


async def _left_commits(git: Git, known: Collection[Commit]) -> tuple[Commit, ...]:
    seen = _reflog_commits(git, known)
    if not seen:
        return ()
    args = ("rev-list", "--topo-order", "--parents", "--ignore-missing", "--stdin")
    names = "\n".join([*seen, *(f"^{each}" for each in known), ""])
    lines = [line.split() for line in (await git(*args, stdin=names.encode())).line.splitlines()]
    parents = {parent for _, *above in lines for parent in above}
    return tuple(Commit(commit) for commit, *_ in lines if commit not in parents)


async def _staged_tree(context: RunContext, git: Git, known: Collection[Commit]) -> str | None:
    """Return the tree of the index; None if a known commit has it, or if it cannot be a tree.

    Unmerged or damaged entries cannot. What is checked out is among the known commits, or in their history.
    """
    with contextlib.suppress(GitError):
        await worktree.remove_locks(git)
        tree = (await git("write-tree")).line
        trees = {await commits.tree_of(context.git, each) for each in known}
        if tree not in {*trees, (await commits.read_head(git)).tree}:
            return tree
    return None
