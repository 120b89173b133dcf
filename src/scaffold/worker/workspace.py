"""The worktree of an attempt: made, kept clean, and never thrown away before its work is pinned."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitFailed
from scaffold.core.ids import AttemptId, Commit, RunId
from scaffold.core.legible import legible
from scaffold.core.model import Attempt, Run
from scaffold.core.states import Phase
from scaffold.git import commit, refs, worktree
from scaffold.git.command import Git
from scaffold.git.pool import Pool
from scaffold.worker.notice import warn
from scaffold.worker.site import Site

AT_WORK: frozenset[Phase] = frozenset({"executing", "verifying", "critiquing"})
"""Phases in which a worktree may hold work that is nowhere else: not yet begun before, handed in after."""


class Workspace(Struct, frozen=True, kw_only=True):
    """A checked-out worktree that belongs to one attempt alone."""

    path: Path
    git: Git
    base: Commit


async def open_workspace(site: Site, attempt: Attempt) -> Workspace:
    """Check out the attempt's base in a detached worktree, an earlier attempt's if there is one, with nothing of it.

    Submodules that cannot be had are told once in a run, as a warning.
    """
    slot = await _pool(site, attempt.run_id).take(attempt.id, attempt.base_sha)
    for missing in slot.missing:
        warn(site, attempt.run_id, f"The submodule {legible(missing.path)} stays empty: {missing.why}.")
    return Workspace(path=slot.git.cwd, git=slot.git, base=attempt.base_sha)


@contextlib.asynccontextmanager
async def set_aside(site: Site, attempt_id: AttemptId, work: Commit) -> AsyncIterator[None]:
    """Keep what an attempt has committed by a ref while its worktree shows something else.

    Whoever leaves by an error or dies leaves the ref, which counts for what there is to be rescued.
    """
    ref = refs.work_ref(attempt_id)
    await refs.pin(site.git, ref, work)
    yield
    await refs.delete(site.git, ref, old=work)


async def give_back(site: Site, attempt: Attempt) -> None:
    """Let the next attempt have the worktree of one whose candidate is pinned."""
    await _pool(site, attempt.run_id).give_back(attempt.id)


async def retire(site: Site, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Do as `rescue` does, but let the next attempt have the worktree."""
    pinned = await keep(site, run, attempt_id)
    await _pool(site, run.id).give_back(attempt_id)
    return pinned


async def rescue(site: Site, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Pin what the attempt's worktree holds under a rescue ref and remove the worktree.

    Returns the pinned commit, None when there was nothing beyond the base. To be called only when the attempt's
    processes are gone. Safe to repeat: what was pinned once stays, be the worktree half removed since.
    """
    pinned = await keep(site, run, attempt_id)
    await worktree.remove(site.repository, site.attempt_folder(run.id, attempt_id))
    return pinned


async def keep(site: Site, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Pin what the attempt's worktree holds under a rescue ref; None when there is nothing beyond the base."""
    attempt = site.store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    path = _folder_of(site, attempt)
    pinned = await refs.resolve(site.git, refs.rescue_ref(attempt_id))
    if pinned is None and attempt.phase in AT_WORK and path.is_dir():
        aside = await refs.resolve(site.git, refs.work_ref(attempt_id))
        pinned = aside or await _snapshot(site, run, attempt, path)
        if pinned is not None and not await refs.move(site.git, refs.rescue_ref(attempt_id), new=pinned, old=None):
            return await refs.resolve(site.git, refs.rescue_ref(attempt_id))  # somebody else was faster
        if aside is not None:
            await refs.delete(site.git, refs.work_ref(attempt_id), old=aside)
    return pinned


def _folder_of(site: Site, attempt: Attempt) -> Path:
    """Return where the attempt's worktree is: where it was made, should the repository have moved since."""
    folder = site.attempt_folder(attempt.run_id, attempt.id)
    return folder if folder.is_dir() or attempt.worktree is None else Path(attempt.worktree)


async def _snapshot(site: Site, run: Run, attempt: Attempt, path: Path) -> Commit | None:
    """Commit all that is at `path` and not ignored on top of the attempt's base; None if it is as its base.

    With an index of its own: it does not matter what was done to `.git` there, or what is checked out.
    """
    git, index = site.git.at(path), site.run_folder(run.id) / f"{attempt.id}.index"
    index.parent.mkdir(parents=True, exist_ok=True)
    people = {"author": run.settings.author, "committer": run.settings.committer}
    with contextlib.suppress(GitFailed):  # of a submodule that was tampered with nothing can be kept
        await commit.commit_submodules(git, f"Rescued work of attempt {attempt.id}\n", **people)
    env = {"GIT_DIR": str(site.repository.common_dir), "GIT_WORK_TREE": str(path), "GIT_INDEX_FILE": str(index)}
    try:
        await git("read-tree", attempt.base_sha, env=env)
        await _open_nested(git, path, env)
        await git("add", "--all", "--ignore-errors", "--", ".", env=env, ok=frozenset({0, 1}))
        tree = (await git("write-tree", env=env)).line
    finally:
        index.unlink(missing_ok=True)
    if tree == await commit.tree_of(site.git, attempt.base_sha):
        return None
    return await commit.commit_tree(
        site.git,
        tree,
        parents=[attempt.base_sha],
        message=f"Rescued work of attempt {attempt.id}\n",
        **people,
    )


def _pool(site: Site, run_id: RunId) -> Pool:
    return Pool(site.repository, site.attempt_folder(run_id, AttemptId("")))


async def _open_nested(git: Git, path: Path, env: Mapping[str, str]) -> None:
    """Make repositories inside the worktree plain folders, of which git keeps every file, their history included."""
    while nested := [name for name in await _untracked(git, env) if name.endswith("/")]:
        for name in nested:
            (path / name / ".git").rename(path / name / "nested.git")


async def _untracked(git: Git, env: Mapping[str, str]) -> list[str]:
    return (await git("ls-files", "--others", "--exclude-standard", "-z", env=env)).records
