"""Remove the temporary files of dead processes of a run, which are found by names that tell whose they are."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scaffold.core.model import Run
from scaffold.git.checkouts.worktree_metadata import deleted_registrations, submodule_git_dirs
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.folder_tree import walk
from scaffold.host.leftovers import left_by_dead_processes
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.run.ignored_archive import archives_folder
from scaffold.run.resources.attempt_resources import resource_notes
from scaffold.verify.environment.golden import ENVIRONMENTS, remove_unfinished_builds
from scaffold.verify.environment.provisioning import forget_copies


async def remove_leftovers(context: RunContext, run: Run) -> None:
    """Remove the temporary files of a run none of whose workers and supervisors is running; its work must be pinned.

    Also removes what other dead processes of this user left in the system's temporary folder. What cannot be removed
    stays. Only the run's owner may call this.
    """
    store = context.store
    known = store.attempts.of_run(run.id)
    attempts = [each.id for each in known]
    baseline = store.baselines.of_run(run.id)
    worktrees = {context.worktree_of(each) for each in known}
    gone = [each for each in (*worktrees, context.landing_folder(run.id)) if not each.exists()]
    forget_copies(baseline.environment if baseline else None, gone)
    goals = [goal.id for goal in store.goals.of_run(run.id)]
    _remove_empty(context.process_log(run.id, each) for each in (*attempts, *goals))
    # In a thread: a folder with thousands of cache files would block the heartbeats.
    await asyncio.to_thread(_remove_files, context, run)
    await remove_unfinished_builds(context.repository, context.cache / ENVIRONMENTS)


def remove_if_empty(context: RunContext, run: Run) -> None:
    """Remove the run's folder, and its parts, if they have no content and no process owns the run."""
    if require_run(context.store, run.id).owner is not None:
        return
    folder = context.run_folder(run.id)
    _remove_empty([context.zygote_log(run.id)])
    for path in (folder / "logs", folder / "attempts", resource_notes(folder), folder):
        with suppress(OSError):
            path.rmdir()


def _remove_files(context: RunContext, run: Run) -> None:
    environments = context.cache / ENVIRONMENTS
    # Not below these: an environment has thousands of files, none of which is written atomically.
    written = (context.cache, environments, *environments.glob("*"))
    common = context.repository.common_dir
    deleted = (deleted_registrations(each) for each in (common, *submodule_git_dirs(common / "modules")))
    kept = (context.projections, archives_folder(common))
    mirrors = (Path(folder) for top in kept for folder, _, _ in walk(top))
    for path in (
        context.temporary_folder(run.id),
        context.wake_fifo(run.id).parent,
        resource_notes(context.run_folder(run.id)),
        *left_by_dead_processes((*written, *deleted, *mirrors)),
    ):
        delete_folder_if_possible(path)


def _remove_empty(logs: Iterable[Path]) -> None:
    """Remove logs of processes that printed nothing."""
    for log in logs:
        if log.is_file() and log.stat().st_size == 0:
            log.unlink()
