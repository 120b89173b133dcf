"""The worktree of an attempt: taken from the pool, and never removed before its work is pinned."""

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId, Commit, RunId
from scaffold.core.model import Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import AttemptPhase
from scaffold.git import commits, refs
from scaffold.git.checkouts import submodule, worktree
from scaffold.git.checkouts.untouched_files import unstage_untouched
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.client.command_line import Git
from scaffold.host.process.child import kill_orphan
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import require_attempt
from scaffold.run.ignored_archive import archive_ignored
from scaffold.run.notices import warn
from scaffold.worker.workspace.stray_work import pin_stray_work

UNPINNED_PHASES: frozenset[AttemptPhase] = frozenset({"executing", "verifying", "critiquing"})
"""Phases in which a worktree may hold the only copy of the work: before them there is none, after them it is pinned."""
UNOPENED_PHASE: AttemptPhase = "workspace"
"""The phase in which an attempt has not begun, and a shared worktree may still hold the work of an earlier one."""

SAME_PLACE = "at-"
"""Begins the name of a worktree that is a new one for each attempt, at the same place."""


class AttemptWorkspace(Struct, frozen=True, kw_only=True):
    """A checked-out worktree that belongs to one attempt alone, as long as that works."""

    path: Path
    git: Git
    base: Commit
    """The commit that the change starts from, earlier steps of a story included."""
    start: Commit
    """The commit at which the attempt begins."""
    opened: tuple[int, ...]
    """Which folder `path` is, and which file its `.git`: others there are not those that were checked out."""

    def require_present(self, *, confined: bool = True) -> None:
        """Raise GitError if the worktree was removed, or its `.git`, unless its agent is not `confined` and may do so.

        Also if they are there again: git's commands write a `.git` that is missing. Call it before anything that the
        worktree shows is taken for work, or blamed on it.
        """
        compared = len(self.opened) if confined else 1
        if not all(self.opened) or _worktree_identity(self.path)[:compared] != self.opened[:compared]:
            raise GitError(f"the worktree {self.path} was removed", "Leave the folders of a run to it.")


async def open_workspace(context: RunContext, attempt: Attempt) -> AttemptWorkspace:
    """Check out the commit at which the attempt begins, detached.

    That is a clean worktree, if possible one that another attempt has used; or, if the attempt shares it with earlier
    ones, as these left it, ignored files included. Warns once in a run about each submodule that cannot be checked out.
    """
    await pin_earlier_work(context, attempt)
    pool = _worktree_pool(context, attempt.run_id)
    take = pool.take_again if _shares_files(attempt) else pool.take
    slot = await take(attempt.workspace_name, attempt.start)
    for missing in slot.missing:
        warn(context, attempt.run_id, f"The submodule {utf8_safe(missing.path)} stays empty: {missing.why}.")
    path = slot.git.cwd
    opened = _worktree_identity(path)
    workspace = AttemptWorkspace(path=path, git=slot.git, base=attempt.base_sha, start=attempt.start, opened=opened)
    workspace.require_present()
    return workspace


def _shares_files(attempt: Attempt) -> bool:
    return bool(attempt.workspace) and not attempt.workspace.startswith(SAME_PLACE)


async def release_workspace(context: RunContext, run: Run, attempt: Attempt, candidate: Commit) -> None:
    """Return the worktree to the pool, unless the next step works there; the attempt's candidate must be pinned."""
    await pin_stray_work(context, run, attempt, _folder_of(context, attempt), pinned=candidate, staged=False)
    if attempt.kind != "step":
        await _worktree_pool(context, attempt.run_id).give_back(attempt.workspace_name)


async def rescue_and_release(context: RunContext, run: Run, attempt: Attempt) -> Commit | None:
    """As `rescue_and_remove`, but return the worktree to the pool, or leave a shared one to the next attempt."""
    pinned = await rescue_work(context, run, attempt.id)
    if not _shares_files(attempt):
        await _worktree_pool(context, run.id).give_back(attempt.workspace_name)
    return pinned


async def give_back_shared(context: RunContext, attempt: Attempt) -> None:
    """Return a shared worktree to the pool that no other attempt will use; its work must have landed or be pinned."""
    if _shares_files(attempt):
        await _worktree_pool(context, attempt.run_id).give_back(attempt.workspace)


async def rescue_and_remove(context: RunContext, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Pin the attempt's work under a rescue ref and remove its worktree; return the commit, None if nothing changed.

    Call it only after the attempt's processes have ended. Safe to repeat: an existing pin stays, even if the worktree
    is already partly removed.
    """
    pinned = await rescue_work(context, run, attempt_id)
    await worktree.remove(context.repository, context.worktree_of(require_attempt(context.store, attempt_id)))
    return pinned


async def pin_earlier_work(context: RunContext, attempt: Attempt) -> None:
    """Pin what an earlier attempt left in the shared worktree of an attempt that has not begun to work there.

    A user who stops an attempt ends it before its process, so that this one may be the first to find the work.
    """
    if not attempt.workspace or attempt.phase != UNOPENED_PHASE:
        return
    began = [each for each in context.store.attempts.for_workspace(attempt.workspace) if each.phase != UNOPENED_PHASE]
    run = context.store.runs.get(attempt.run_id)
    if run is None or not began or began[-1].phase not in UNPINNED_PHASES or began[-1].head_sha is not None:
        return
    if began[-1].worker is not None:
        await kill_orphan(began[-1].worker)
    await rescue_work(context, run, began[-1].id)


async def rescue_work(context: RunContext, run: Run, attempt_id: AttemptId) -> Commit | None:
    """Pin the attempt's work under a rescue ref and return the commit; None if it is unchanged from where it began."""
    attempt = require_attempt(context.store, attempt_id)
    await pin_earlier_work(context, attempt)
    path = _folder_of(context, attempt)
    ref = refs.rescue_ref(attempt.id)
    pinned = await refs.resolve(context.git, ref)
    # The user's `git gc` may have deleted a part of it; then the ref goes, and the work is pinned anew.
    if pinned is not None and not await context.git.has_all(pinned, known=attempt.start):
        await refs.delete(context.git, ref, old=pinned)
        pinned = None
    if pinned is None and attempt.phase in UNPINNED_PHASES:
        aside = await refs.resolve(context.git, refs.work_ref(attempt_id))
        # While work is judged, the worktree shows not, or not only, the work; while its agent goes on, later work.
        # A partial checkout must not pass for work: the phase before `executing` is not in UNPINNED_PHASES.
        is_later = attempt.phase == "executing" and any(_worktree_identity(path))
        pinned = await _pin_rescue(context, run, attempt, None if is_later else aside, path)
        # Only after the rescue ref exists, so that at every moment one ref holds the commit.
        if aside is not None:
            await refs.delete(context.git, refs.work_ref(attempt_id), old=aside)
        _forget_lost_turn(context, attempt, path)
    if attempt.phase in UNPINNED_PHASES:
        # After the pin, as they are less than the work; again if a kill came between.
        await _archive_if_present(context, run, attempt, path)
    await pin_stray_work(context, run, attempt, path, pinned=pinned or attempt.head_sha)
    return pinned


async def rescue_again(context: RunContext, run: Run, attempt_id: AttemptId) -> Commit | None:
    """As `rescue_work`, for an attempt that goes on: what changed since the last rescue is pinned on top of that."""
    before = await refs.resolve(context.git, refs.rescue_ref(attempt_id))
    attempt = context.store.attempts.get(attempt_id)
    if before is None or attempt is None:
        return await rescue_work(context, run, attempt_id)
    work = await _snapshot_work(context, run, attempt, _folder_of(context, attempt), after=before)
    if work is not None and await commits.tree_of(context.git, work) != await commits.tree_of(context.git, before):
        await refs.move(context.git, refs.rescue_ref(attempt_id), new=work, old=before, known=before)
    await _archive_if_present(context, run, attempt, _folder_of(context, attempt))
    return work


async def _pin_rescue(
    context: RunContext, run: Run, attempt: Attempt, aside: Commit | None, path: Path
) -> Commit | None:
    """Set the rescue ref to the work that was put `aside`, or else to a snapshot of the worktree; return the commit.

    None if nothing changed. The work is taken again if the user's `git gc` deletes a part of it meanwhile.
    """
    ref, known = refs.rescue_ref(attempt.id), attempt.start

    async def make() -> Commit | None:
        # If a part of that commit is gone, the worktree still has its files or later ones.
        is_whole = aside is not None and await context.git.has_all(aside, known=known)
        is_there = any(_worktree_identity(path))
        work = aside if is_whole or not is_there else await _snapshot_work(context, run, attempt, path)
        if work is None or await refs.move(context.git, ref, new=work, old=None, known=known):
            return work
        return await refs.resolve(context.git, ref)  # another process was faster

    return await context.git.made_whole(make)


def _forget_lost_turn(context: RunContext, attempt: Attempt, path: Path) -> None:
    """Forget the attempt's turn if its worktree was removed, before its work was rescued or meanwhile.

    Its agent cannot go on as if all were there, nor with a commit that may have been made while files went: what they
    were would be deleted as its work. Whoever ends an attempt looks first.
    """
    turn = context.store.kept_turns.get(attempt.id) if attempt.status != "ended" else None
    if turn is not None and turn.worktree != _worktree_identity(path):
        with context.store.transaction():
            context.store.kept_turns.forget(attempt.action_id)


async def committed_by_agent(git: Git, attempt_id: AttemptId, rescued: Commit) -> str:
    """Return the last commit of the attempt itself: that which was rescued, or the one that the snapshot is on."""
    subject = (await git("log", "-1", "--format=%s", rescued)).line
    return f"{rescued}^" if subject == _rescue_subject(attempt_id) else rescued


def _rescue_subject(attempt_id: AttemptId) -> str:
    return f"Rescued work of attempt {attempt_id}"


async def copied_files(context: RunContext, run_id: RunId, base: Commit) -> commits.KeptOut | None:
    """Return the ignored files that were copied into the run's worktrees and that `base` does not have.

    They are the user's own and no part of the work, even if an agent stops ignoring them, adds them to the index, or
    renames the folder around them. None if there are none.
    """
    baseline = context.store.baselines.for_run(run_id)
    copied = (*baseline.environment.files, *baseline.environment.built) if baseline else ()
    files = {file.target: Path(file.source) for file in copied}
    if not files:
        return None
    tracked = frozenset(await commits.listed_paths(context.git, base))
    return commits.KeptOut(base, {name: source for name, source in files.items() if name not in tracked})


def _worktree_identity(path: Path) -> tuple[int, ...]:
    # Inode and time together: a new file may have the inode of the one it replaces. Without the device, whose number
    # may be another one after the machine has started again.
    folder = inode = changed = 0
    with contextlib.suppress(OSError):
        folder = path.stat().st_ino
        pointer = (path / ".git").stat()
        inode, changed = pointer.st_ino, pointer.st_mtime_ns
    return folder, inode, changed


def _folder_of(context: RunContext, attempt: Attempt) -> Path:
    # The recorded path holds if the repository has been moved since.
    folder = context.worktree_of(attempt)
    return folder if folder.is_dir() or attempt.worktree is None else Path(attempt.worktree)


async def _snapshot_work(
    context: RunContext, run: Run, attempt: Attempt, path: Path, *, after: Commit | None = None
) -> Commit | None:
    """Commit all files at `path` that are not ignored; None if nothing changed from the attempt's base.

    The parent is `after`, or else the commit that is checked out there if it contains the base, or else the base. Uses
    its own index, so a damaged `.git` or another checkout there does not matter.
    """
    git = context.git.at(path)
    identity, message = run.settings.identity, f"{_rescue_subject(attempt.id)}\n"
    async with _own_index(context, run, attempt, path) as env:
        links = await submodule.gitlinks(git, index=Path(env["GIT_INDEX_FILE"]), env=env)
        moved: tuple[submodule.Gitlink, ...] = ()
        registered = worktree.find_worktree(context.repository, path)
        if registered is not None:
            with contextlib.suppress(GitError):  # a submodule with damaged objects cannot be saved
                moved = await commits.commit_submodules(
                    registered, links, message, author=identity.author, committer=identity.committer
                )
            links = await _release_planted(registered, links, env)
        await _open_nested(git, path, env)
        kept_out = await copied_files(context, run.id, attempt.start)
        await commits.stage_all(git, links, moved, env=env, options=("--ignore-errors",), kept_out=kept_out)
        tree = (await git("write-tree", env=env)).line
        if tree == await commits.tree_of(context.git, attempt.start):
            return None
        make = partial(
            commits.commit_tree,
            context.git,
            parents=[after or await _checked_out(registered, attempt.start)],
            message=message,
            author=identity.author,
            committer=identity.committer,
        )
        snapshot = await make(tree)
        modified = await commits.modified_files(context.git, attempt.start, snapshot)
        if not await unstage_untouched(git, modified, env=env):
            return snapshot
        tree = (await git("write-tree", env=env)).line
    return None if tree == await commits.tree_of(context.git, attempt.start) else await make(tree)


async def _archive_if_present(context: RunContext, run: Run, attempt: Attempt, path: Path) -> None:
    if any(_worktree_identity(path)):
        async with _own_index(context, run, attempt, path) as env:
            await archive_ignored(context, run, attempt, context.git.at(path), env=env)


@contextlib.asynccontextmanager
async def _own_index(context: RunContext, run: Run, attempt: Attempt, path: Path) -> AsyncIterator[Mapping[str, str]]:
    # An agent may have damaged the worktree's own index.
    folder = context.temporary(run.id, attempt.id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In a new folder: the lock of a killed git stays there and does not block the next rescue.
    with tempfile.TemporaryDirectory(dir=folder, prefix="rescue-", ignore_cleanup_errors=True) as own:
        env = {
            # The common directory: the worktree's own `.git` may be deleted, or point to a repository of the agent's.
            "GIT_DIR": str(context.repository.common_dir),
            "GIT_WORK_TREE": str(path),
            "GIT_INDEX_FILE": f"{own}/index",
        }
        await context.git.at(path)("read-tree", attempt.start, env=env)
        yield env


async def _checked_out(git: Git | None, base: Commit) -> Commit:
    # A HEAD that does not contain the base is another history, and not the agent's work on this one.
    with contextlib.suppress(GitError):
        if git is not None and await commits.contains(git, head := await commits.read_head(git), base):
            return head.commit
    return base


def _worktree_pool(context: RunContext, run_id: RunId) -> WorktreePool:
    return WorktreePool(context.repository, context.attempt_folder(run_id, AttemptId("")))


async def _open_nested(git: Git, path: Path, env: Mapping[str, str]) -> None:
    # Git would add a nested repository as a link, without its files and history.
    # Git lists a nested repository as a folder and adds it as a mere link to
    # a commit; repositories may be nested deeper.
    untracked = partial(git, "ls-files", "--others", "--exclude-standard", "-z", env=env)
    while nested := [name for name in (await untracked()).records if name.endswith("/")]:
        for name in nested:
            (path / name / ".git").rename(path / name / "nested.git")


async def _release_planted(
    git: Git, links: Sequence[submodule.Gitlink], env: Mapping[str, str]
) -> tuple[submodule.Gitlink, ...]:
    # A gitlink may hide a repository that the agent planted; its files are then added like others.
    planted = submodule.foreign_repositories(git, links)
    if planted:
        listed = b"".join(os.fsencode(path) + b"\0" for path in planted)
        await git("update-index", "--force-remove", "-z", "--stdin", stdin=listed, env=env)
    return tuple(link for link in links if link.path not in planted)
