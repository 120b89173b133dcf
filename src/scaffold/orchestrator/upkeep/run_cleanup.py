"""Remove what ended runs and dead owners left behind, after pinning all unlanded work."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import GitError, RepositoryError, RunBusy, StaleFence
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt, Run
from scaffold.core.run_settings import KeepSettings
from scaffold.core.states import WORKER_PHASES, Cancelled, Completed, Failed, status_of
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.host.atomic_files import delete_path
from scaffold.orchestrator.owner.restart import clear_run
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.upkeep.expired_files import list_expired, remove_expired
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.resources.sandbox import leftover_services
from scaffold.views.store_reader import executing_process

CleanupVerdict = Literal["removed", "pinned", "kept"]


class CleanupStep(Struct, frozen=True, kw_only=True):
    """One leftover, what happens to it, and why."""

    kind: Literal["run", "attempt", "worktree", "folder", "ref", "services", "logs", "patches", "cache"]
    name: str
    verdict: CleanupVerdict
    why: str


class Leftovers(Struct, frozen=True, kw_only=True):
    """What a run without a live owner has left behind."""

    orphans: tuple[Attempt, ...]
    """Open attempts without a live worker."""
    worktrees: tuple[Path, ...]
    pins: tuple[tuple[str, Commit, Attempt], ...]
    """Work refs with their commits and attempts."""
    folders: tuple[Path, ...]
    """The folder of an ended run, and the run's folder for temporary files, as far as they exist."""
    services: Mapping[str, str]
    """External services that its checks left running, with the command that stops each."""

    @property
    def any(self) -> bool:
        """Return whether anything is left."""
        return bool(self.orphans or self.worktrees or self.pins or self.folders or self.services)


async def clean_up(context: RunContext, *, dry: bool, keep: KeepSettings | None = None) -> tuple[CleanupStep, ...]:
    """Remove leftovers and return what was removed, pinned or kept, and why; with `dry`, only return it.

    With `keep`, also remove expired logs, patches and caches. Runs with a live owner are not touched. Safe to repeat,
    and to kill at any point.
    """
    steps: list[CleanupStep] = []
    for run in context.store.runs.all():
        steps.extend(await _clean_up_or_keep(context, run, dry=dry))
    steps.extend(await _unknown_entries(context))
    if keep is not None:
        expired = list_expired(context, keep)
        if not dry:
            remove_expired(context, expired, keep)
        steps.extend(CleanupStep(kind=each.kind, name=each.name, verdict="removed", why=each.why) for each in expired)
    return tuple(steps)


async def _clean_up_or_keep(context: RunContext, run: Run, *, dry: bool) -> list[CleanupStep]:
    if (executing := executing_process(run)) is not None:
        return [CleanupStep(kind="run", name=run.id, verdict="kept", why=f"process {executing.pid} is executing it")]
    left = await _find_leftovers(context, run)
    if not left.any:
        return []
    if not dry:
        try:
            await _clean_up_run(context, run)
        except (RunBusy, StaleFence):
            return [CleanupStep(kind="run", name=run.id, verdict="kept", why="another process has just taken it")]
        except (RepositoryError, GitError) as error:
            return [CleanupStep(kind="run", name=run.id, verdict="kept", why=f"{error.what}. {error.fix}")]
    return list(_steps_of(run, left, {} if dry else leftover_services(context, run)))


async def _find_leftovers(context: RunContext, run: Run) -> Leftovers:
    attempts = {attempt.id: attempt for attempt in context.store.attempts.for_run(run.id)}
    kept = await refs.list_refs(context.git, refs.work_ref(AttemptId("")))
    pins = tuple(
        (ref, commit, attempts[of]) for ref, commit in kept.items() if (of := refs.attempt_id_of(ref)) in attempts
    )
    folder = context.run_folder(run.id).resolve()
    listed = await worktree.list_worktrees(context.repository)
    worktrees = {each.path for each in listed if each.path.is_relative_to(folder)}
    worktrees |= {path.parent for path in (*folder.glob("attempts/*/.git"), *folder.glob("landing/.git"))}
    return Leftovers(
        orphans=tuple(a for a in attempts.values() if a.status != "ended" and a.phase in WORKER_PHASES),
        worktrees=tuple(sorted(worktrees)),
        pins=tuple(pin for pin in pins if pin[2].status == "ended"),
        folders=tuple(path for path in _own_folders(context, run) if path.is_dir()),
        services=leftover_services(context, run),
    )


def _own_folders(context: RunContext, run: Run) -> tuple[Path, ...]:
    # The folder with the worktrees is only removed for an ended run.
    temporary = context.temporary_folder(run.id)
    return (context.run_folder(run.id), temporary) if _has_ended(run) else (temporary,)


async def _clean_up_run(context: RunContext, run: Run) -> None:
    # Taken over first, so that no other process resumes it while its worktrees are removed.
    mine = take_over_run(context, run.id)
    await clear_run(context, mine)
    # Looked up again, because the recovery has ended attempts and pinned their work.
    for ref, commit, attempt in (await _find_leftovers(context, mine)).pins:
        rescue = refs.rescue_ref(attempt.id)
        # The new ref comes first, so that a kill in between leaves two refs, never none. A landed attempt needs none.
        if attempt.outcome == "landed" or await refs.move(context.git, rescue, new=commit, old=None):
            await refs.delete(context.git, ref, old=commit)
    for folder in _own_folders(context, run):
        if folder.is_dir():
            delete_path(folder)
    with owner_transaction(context.store, mine):
        context.store.runs.release(mine.id, fence=mine.fence)


async def _unknown_entries(context: RunContext) -> list[CleanupStep]:
    # Folders and refs of runs that are not in this database may be in use, so they are kept.
    runs = [run.id for run in context.store.runs.all()]
    folder = context.run_folder(runs[0]).parent if runs else None
    why = "its run is not in this database; `scaffold salvage` shows pinned work"
    entries = sorted(folder.iterdir()) if folder is not None and folder.is_dir() else []
    unknown_folders = [path for path in entries if path.name not in runs]
    pins = await refs.list_refs(context.git, refs.work_ref(AttemptId("")))
    unknown_refs = [ref for ref in pins if context.store.attempts.get(refs.attempt_id_of(ref)) is None]
    return [
        *(CleanupStep(kind="folder", name=str(path), verdict="kept", why=why) for path in unknown_folders),
        *(CleanupStep(kind="ref", name=ref, verdict="kept", why=why) for ref in unknown_refs),
    ]


def _has_ended(run: Run) -> bool:
    return isinstance(run.state, Completed | Failed | Cancelled)


def _steps_of(run: Run, left: Leftovers, still_running: Collection[str]) -> Iterator[CleanupStep]:
    reason = f"run {run.id} is {status_of(run.state)}" if _has_ended(run) else f"the owner of run {run.id} is gone"
    for attempt in left.orphans:
        why = f"{reason}; its action can start again"
        yield CleanupStep(kind="attempt", name=attempt.id, verdict="pinned", why=why)
    for path in left.worktrees:
        why = f"{reason}; unlanded work in it is pinned"
        yield CleanupStep(kind="worktree", name=str(path), verdict="removed", why=why)
    for ref, _, attempt in left.pins:
        if attempt.outcome == "landed":
            yield CleanupStep(kind="ref", name=ref, verdict="removed", why="it has landed")
        else:
            yield CleanupStep(kind="ref", name=ref, verdict="pinned", why=f"as {refs.rescue_ref(attempt.id)}; {reason}")
    for name, command in left.services.items():
        if name in still_running:
            why = f"compose could not stop it; run `{command}`"
            yield CleanupStep(kind="services", name=name, verdict="kept", why=why)
        else:
            yield CleanupStep(kind="services", name=name, verdict="removed", why=reason)
    for folder in left.folders:
        yield CleanupStep(kind="folder", name=str(folder), verdict="removed", why=reason)
