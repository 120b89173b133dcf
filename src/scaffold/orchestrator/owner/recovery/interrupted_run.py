"""Recovery at every start: finish or release what a dead owner left open, and remove the files of dead processes."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import ORPHANED_BY_CRASH, WORKER_PHASES, AttemptOutcome
from scaffold.git import refs
from scaffold.git.checkouts import worktree, worktree_pool
from scaffold.git.checkouts.worktree_metadata import deleted_registrations, submodule_git_dirs, unfinished_registrations
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.leftovers import left_by_dead_processes, made_by_dead_process
from scaffold.host.process.child import kill_orphan
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import importing
from scaffold.landing.facts.landing_record import (
    last_landed,
    require_landed_on_branch,
    resolve_intent,
    session_ref,
    session_tip,
)
from scaffold.landing.facts.story_steps import note_refused_edits, unpin_contained
from scaffold.orchestrator.owner.recovery.interrupted_moves import record_interrupted_moves
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS, EndCause
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.plan.budget import spending_limits
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.rescue_diff import write_failure_diffs, write_rescue_diff
from scaffold.run.failures.soft_timeouts import withdraw_settled
from scaffold.run.ignored_archive import archives_folder
from scaffold.run.resources.attempt_resources import resource_notes
from scaffold.run.resources.sandbox import remove_temporary_folder
from scaffold.store.spending.run_budget import RunBudgetAccount
from scaffold.store.spending.shared_budget import settle_dead_owners
from scaffold.verify.environment.golden import ENVIRONMENTS, remove_unfinished_builds
from scaffold.verify.environment.provisioning import forget_copies
from scaffold.worker.workspace.attempt_worktree import rescue_and_remove


async def ensure_session_branch(context: RunContext, run: Run) -> None:
    """Create the session branch at the run's base, unless it exists.

    Raises RepositoryError if something has landed and the branch was deleted or rewritten since.
    """
    landed = last_landed(context.store, run)
    if landed is not None:
        await require_landed_on_branch(context, run, landed, await session_tip(context, run))
    elif await refs.resolve(context.git, session_ref(run)) is None:
        await refs.move(context.git, session_ref(run), new=run.base_sha, old=None)


async def recover_run(
    context: RunContext, run: Run, *, outcome: AttemptOutcome = "lost", error: str = ORPHANED_BY_CRASH
) -> int:
    """Finish interrupted landings, notes and patches, and release attempts and turns without a live process.

    Returns the number of attempts. Pins their work and removes their worktrees and all temporary files; submitted
    candidates stay queued. Only the run's owner may call this, while none of its workers or supervisors is running.
    Safe to repeat, and to kill at any point.
    """
    store = context.store
    # Landings come first, because they decide whether an attempt still has a candidate, which must not be released.
    for intent in store.intents.open_of_run(run.id):
        await resolve_intent(context, run, intent)
    await record_interrupted_moves(context, run)
    await note_refused_edits(context, run)
    with owner_transaction(store, run):
        for turn in store.turns.open_of_run(run.id):
            store.turns.mark_lost(turn.id)
    orphans = [attempt for attempt in store.attempts.open_of_run(run.id) if attempt.phase in WORKER_PHASES]
    for attempt in orphans:
        await release_attempt(context, run, attempt, outcome=outcome, error=error)
    # The requests of dead processes are booked as spent.
    account = RunBudgetAccount(store, run.id, spending_limits(run.settings.limits))
    settle_dead_owners(account, but=own_identity())
    with owner_transaction(store, run):
        withdraw_settled(store, run)
    await write_failure_diffs(context, run)
    await remove_stale_worktrees(context, run)
    # Last, because all work must be pinned.
    await remove_leftovers(context, run)
    if orphans and outcome == "lost":
        with owner_transaction(store, run):
            text = (
                f"{count_of(len(orphans), 'attempt')} ended because the worker process died; "
                "the work is pinned and a new attempt starts."
            )
            store.events.append(run.id, NoticeRaised("info", text))
    return len(orphans)


async def recover_ended_run(context: RunContext, run: Run, cause: EndCause) -> None:
    """Recover a run whose processes were ended for `cause`, as `recover_run` does."""
    if cause == "limit":  # running attempts have ended, so these have not begun
        await recover_run(context, run, outcome="budget", error=PAUSE_REASONS["limit"])
    else:
        await recover_run(context, run, outcome="cancelled", error=f"the run was {cause}")


async def release_attempt(
    context: RunContext, run: Run, attempt: Attempt, *, outcome: AttemptOutcome, error: str, died: bool = False
) -> None:
    """End an attempt and kill its worker if it is alive: pin its work, remove its worktree, free its action.

    If the worker has ended the attempt or submitted its candidate, only the worktree is removed. `died`: the worker
    died while the run's owner lived.
    """
    if attempt.worker is not None:
        # A stopped process does not notice that its lifeline closed, and could write into the worktree later.
        await kill_orphan(attempt.worker)
    # Pinned first: if this process dies in between, the attempt is still open and is recovered again.
    pinned = await rescue_and_remove(context, run, attempt.id)
    now = context.store.attempts.get(attempt.id)
    # Read again, because the worker may have submitted its candidate just before it was killed.
    is_open = now is not None and now.status != "ended" and now.phase in WORKER_PHASES
    if now is not None and is_open and now.status == "claimed":
        with importing():
            from scaffold.worker.story.edits import save_left_folder
        await save_left_folder(context, now)
    await asyncio.to_thread(remove_temporary_folder, context, run, name=attempt.id)
    if is_open:
        end_attempt(context.store, run, attempt.id, AttemptEnd(outcome, error, died=died), head=pinned)
        await write_rescue_diff(context, attempt.id)


async def remove_stale_worktrees(context: RunContext, run: Run) -> None:
    """Remove the run's worktrees that no worker uses, and the work refs of attempts that have landed."""
    # On disk or registered in git: an interrupted removal leaves only one of the two.
    folder = (context.run_folder(run.id) / "attempts").resolve()
    registered = {each.path for each in await worktree.list_worktrees(context.repository) if each.path.parent == folder}
    # A killed git leaves incomplete registrations.
    parts = [each.name for each in unfinished_registrations(context.repository.common_dir)]
    if parts:
        named = {worktree_pool.name_while_prepared(each.id) for each in context.store.attempts.for_run(run.id)}
        registered |= {folder / name for name in named if any(part.startswith(name) for part in parts)}
    for path in sorted(registered.union(folder.iterdir() if folder.is_dir() else ())):
        attempt = context.store.attempts.last_in_workspace(path.name)
        if attempt is None:
            await worktree.remove(context.repository, path)
        elif attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue_and_remove(context, run, attempt.id)
    await _delete_refs_of_landing(context, run)
    kept = await refs.list_refs(context.git, refs.work_ref(AttemptId("")))
    for attempt in context.store.attempts.for_run(run.id) if kept else ():
        ref = refs.work_ref(attempt.id)
        # The landing deletes it, unless the owner died after the branch had moved.
        if attempt.outcome == "landed" and ref in kept:
            await refs.delete(context.git, ref, old=kept[ref])
        # The same holds for those of the steps before it.
        if attempt.outcome == "landed" and kept:
            await unpin_contained(context, attempt, landed=True)


async def _delete_refs_of_landing(context: RunContext, run: Run) -> None:
    # The refs of lanes, and of changes about which humans are no longer asked.
    for ref, commit in (await refs.list_refs(context.git, refs.LANE_PREFIX)).items():
        attempt = context.store.attempts.get(refs.attempt_id_of_lane(ref))
        if attempt is not None and attempt.run_id == run.id:
            await refs.delete(context.git, ref, old=commit)
    for ref, commit in (await refs.list_refs(context.git, refs.REVIEW_PREFIX)).items():
        attempt = context.store.attempts.get(refs.attempt_id_of(ref))
        if attempt is not None and attempt.run_id == run.id and attempt.status == "ended":
            await refs.delete(context.git, ref, old=commit)


async def remove_leftovers(context: RunContext, run: Run) -> None:
    """Remove the temporary files of a run that has no workers and supervisors, and whose work is pinned.

    Also removes files of other dead processes of this user in the system's temporary folder. What cannot be removed
    stays. Only the run's owner may call this.
    """
    store = context.store
    known = store.attempts.for_run(run.id)
    attempts = [each.id for each in known]
    baseline = store.baselines.for_run(run.id)
    worktrees = {context.worktree_of(each) for each in known}
    gone = [each for each in (*worktrees, context.landing_folder(run.id)) if not each.exists()]
    forget_copies(baseline.environment if baseline else None, gone)
    goals = [goal.id for goal in store.goals.for_run(run.id)]
    _remove_empty(context.process_log(run.id, each) for each in (*attempts, *goals))
    # In a thread, because deleting thousands of cache files would block the heartbeats.
    await asyncio.to_thread(_remove_files, context, run)
    await remove_unfinished_builds(context.repository, context.cache / ENVIRONMENTS)


def remove_if_empty(context: RunContext, run: Run) -> None:
    """Remove the run's folder and its parts if they are empty and no process owns the run."""
    if require_run(context.store, run.id).owner is not None:
        return
    folder = context.run_folder(run.id)
    _remove_empty([context.zygote_log(run.id)])
    for path in (folder / "logs", folder / "attempts", resource_notes(folder), folder):
        with suppress(OSError):
            path.rmdir()


def _remove_files(context: RunContext, run: Run) -> None:
    environments = context.cache / ENVIRONMENTS
    # Not below an environment: it has thousands of files, none of which is written atomically.
    written = (context.cache, environments, *environments.glob("*"))
    common = context.repository.common_dir
    deleted = (deleted_registrations(each) for each in (common, *submodule_git_dirs(common / "modules")))
    for path in (
        context.temporary_folder(run.id),
        context.wake_fifo(run.id).parent,
        resource_notes(context.run_folder(run.id)),
        *left_by_dead_processes((*written, *deleted)),
    ):
        delete_folder_if_possible(path)
    for each, _ in chain(context.projections.entries(), archives_folder(common).entries()):
        if made_by_dead_process(each.path.name):
            with suppress(OSError):
                each.delete()


def _remove_empty(logs: Iterable[Path]) -> None:
    for log in logs:
        if log.is_file() and log.stat().st_size == 0:
            log.unlink()
