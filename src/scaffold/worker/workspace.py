"""The worktree of an attempt: made, kept clean, and never thrown away before its work is pinned."""

from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt, Run
from scaffold.git import commit, refs, worktree
from scaffold.git.command import Git
from scaffold.worker.site import Site


class Workspace(Struct, frozen=True, kw_only=True):
    """A checked-out worktree that belongs to one attempt alone."""

    path: Path
    git: Git
    base: Commit


async def open_workspace(site: Site, attempt: Attempt) -> Workspace:
    """Check out the attempt's base in a fresh, detached worktree."""
    path = site.attempt_folder(attempt.run_id, attempt.id)
    await worktree.add(site.repository, path, attempt.base_sha)
    return Workspace(path=path, git=site.git.at(path), base=attempt.base_sha)


async def keep_work(workspace: Workspace, run: Run, message: str) -> Commit | None:
    """Commit everything git does not ignore; None when nothing differs from the last commit.

    The commit is made here, outside the agent, whether or not the agent committed by itself.
    """
    return await commit.commit_all(workspace.git, message, author=run.settings.author, committer=run.settings.committer)


async def rescue(site: Site, run: Run, attempt: Attempt) -> Commit | None:
    """Pin what the attempt's worktree holds under a rescue ref and remove the worktree.

    Returns the pinned commit, None when there was nothing beyond the base. To be called only when the
    attempt's processes are gone. Safe to repeat.
    """
    path = site.attempt_folder(attempt.run_id, attempt.id)
    pinned: Commit | None = None
    if (path / ".git").exists():
        workspace = Workspace(path=path, git=site.git.at(path), base=attempt.base_sha)
        pinned = await pin_work(workspace, run, attempt.id)
    await worktree.remove(site.repository, path)
    return pinned


async def pin_work(workspace: Workspace, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Commit and pin all that is in the workspace under the attempt's rescue ref; None if it is as its base."""
    await keep_work(workspace, run, f"Rescued work of attempt {attempt_id}")
    head = await refs.resolve(workspace.git, "HEAD")
    if head is None or head == workspace.base:
        return None
    await refs.pin(workspace.git, refs.rescue_ref(attempt_id), head)
    return head
