"""Recovery at every start: bring what a dead owner left unfinished to a state that work can resume from."""

import asyncio
from pathlib import Path

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import ORPHANED_BY_CRASH, WORKER_PHASES, AttemptOutcome
from scaffold.git import refs
from scaffold.git.checkouts import worktree, worktree_pool
from scaffold.git.checkouts.worktree_metadata import unfinished_registrations
from scaffold.host.process.child import kill_orphan
from scaffold.host.process_identity import own_identity
from scaffold.landing.facts.landing_record import (
    last_landed,
    require_landed_on_branch,
    resolve_intent,
    session_ref,
    session_tip,
)
from scaffold.landing.facts.story_steps import note_refused_edits, unpin_contained
from scaffold.orchestrator.owner.recovery.interrupted_moves import record_interrupted_moves
from scaffold.orchestrator.owner.recovery.orphaned_files import remove_leftovers
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS, EndCause
from scaffold.plan.budget import spending_limits
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.soft_timeouts import withdraw_settled
from scaffold.run.resources.sandbox import remove_temporary_folder
from scaffold.store.spending.run_budget import RunBudgetAccount
from scaffold.store.spending.shared_budget import settle_dead_owners
from scaffold.worker.workspace.attempt_worktree import rescue_and_remove
from scaffold.worker.workspace.rescue_diff import write_rescue_diff


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
    """Finish interrupted landings and notes, and release attempts and turns without a live process.

    Returns the number of attempts. Pins their work and removes their worktrees and all temporary files; submitted
    candidates stay queued. Only the run's owner may call this, while none of its workers or supervisors is running.
    Safe to repeat, and to be killed at any point.
    """
    store = context.store
    # Landings come first: they decide whether an attempt still has a candidate, which the rest must not release.
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
    # Their processes are gone, so that what they had sent is booked.
    account = RunBudgetAccount(store, run.id, spending_limits(run.settings.limits))
    settle_dead_owners(account, but=own_identity())
    with owner_transaction(store, run):
        withdraw_settled(store, run)
    await remove_stale_worktrees(context, run)
    # Last: all work is pinned now.
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
    """Recover what is left of a run whose processes were ended for `cause`, as `recover_run` does."""
    if cause == "limit":  # what ran has ended by itself, so these attempts have not begun
        await recover_run(context, run, outcome="budget", error=PAUSE_REASONS["limit"])
    else:
        await recover_run(context, run, outcome="cancelled", error=f"the run was {cause}")


async def release_attempt(
    context: RunContext, run: Run, attempt: Attempt, *, outcome: AttemptOutcome, error: str, died: bool = False
) -> None:
    """End an attempt, killing its worker if that is still alive: pin its work, remove its worktree, free its action.

    If the worker ended the attempt or submitted its candidate meanwhile, only the worktree is removed. `died`: the
    worker died while the run's owner lived.
    """
    if attempt.worker is not None:
        # Its lifeline should have ended it; a stopped process reads no
        # lifeline, and could write into the worktree later.
        await kill_orphan(attempt.worker)
    # The pin comes before the end: if this process dies in between, the attempt is still open and recovered again.
    pinned = await rescue_and_remove(context, run, attempt.id)
    await asyncio.to_thread(remove_temporary_folder, context, run, name=attempt.id)
    now = context.store.attempts.get(attempt.id)
    # Read again: the worker may have handed its candidate in just before it was killed.
    if now is not None and now.status != "ended" and now.phase in WORKER_PHASES:
        end_attempt(context.store, run, attempt.id, AttemptEnd(outcome, error, died=died), head=pinned)
        await write_rescue_diff(context, attempt.id)


async def remove_stale_worktrees(context: RunContext, run: Run) -> None:
    """Remove the run's worktrees that no worker uses, and the work refs of attempts that have landed."""
    for path in await _leftover_worktrees(context, run):
        attempt = context.store.attempts.last_in_workspace(path.name)
        if attempt is None:
            await worktree.remove(context.repository, path)
        elif attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue_and_remove(context, run, attempt.id)
    await _delete_refs_of_landing(context, run)
    kept = await refs.list_refs(context.git, refs.work_ref(AttemptId("")))
    for attempt in context.store.attempts.of_run(run.id) if kept else ():
        ref = refs.work_ref(attempt.id)
        # The ref transaction of the landing deletes it; it stays if the owner died and the branch had moved already.
        if attempt.outcome == "landed" and ref in kept:
            await refs.delete(context.git, ref, old=kept[ref])
        # So do those of the steps before it.
        if attempt.outcome == "landed" and kept:
            await unpin_contained(context, attempt, landed=True)


async def _delete_refs_of_landing(context: RunContext, run: Run) -> None:
    """Delete what kept the commits of lanes, and of changes about which no human is asked any more."""
    for ref, commit in (await refs.list_refs(context.git, refs.LANE_PREFIX)).items():
        attempt = context.store.attempts.get(refs.attempt_id_of_lane(ref))
        if attempt is not None and attempt.run_id == run.id:
            await refs.delete(context.git, ref, old=commit)
    for ref, commit in (await refs.list_refs(context.git, refs.REVIEW_PREFIX)).items():
        attempt = context.store.attempts.get(refs.attempt_id_of(ref))
        if attempt is not None and attempt.run_id == run.id and attempt.status == "ended":
            await refs.delete(context.git, ref, old=commit)


async def _leftover_worktrees(context: RunContext, run: Run) -> list[Path]:
    """Return the paths of the run's worktrees, on disk or registered in git: an interrupted removal leaves only one.

    Also those of which git has a part only, as it was killed.
    """
    folder = (context.run_folder(run.id) / "attempts").resolve()
    registered = {each.path for each in await worktree.list_worktrees(context.repository) if each.path.parent == folder}
    parts = [each.name for each in unfinished_registrations(context.repository.common_dir)]
    if parts:
        named = {worktree_pool.name_while_prepared(each.id) for each in context.store.attempts.of_run(run.id)}
        registered |= {folder / name for name in named if any(part.startswith(name) for part in parts)}
    return sorted(registered.union(folder.iterdir() if folder.is_dir() else ()))
