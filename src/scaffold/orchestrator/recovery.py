"""Start is resume: whatever a dead owner left half done is brought to a state work can go on from."""

from pathlib import Path

from scaffold.core.events import Noticed
from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Outcome
from scaffold.git import refs, worktree
from scaffold.host.child import end_leftover
from scaffold.landing.record import last_landed, read_back, require_on_branch, session_ref, session_tip
from scaffold.worker.ending import conclude
from scaffold.worker.lease import owned
from scaffold.worker.site import Site
from scaffold.worker.workspace import rescue


async def ensure_session_branch(site: Site, run: Run) -> None:
    """Make the integration branch at the run's base; once something has landed it must be there, with all of it.

    Raises RepositoryUnfit if it was deleted or rewritten since.
    """
    landed = last_landed(site.store, run)
    if landed is not None:
        await require_on_branch(site, run, landed, await session_tip(site, run))
    elif await refs.resolve(site.git, session_ref(run)) is None:
        await refs.move(site.git, session_ref(run), new=run.base_sha, old=None)


async def recover(site: Site, run: Run, *, outcome: Outcome = "lost", error: str = "orphaned_by_crash") -> int:
    """Settle half-done landings and open turns, and put attempts without a living worker back; return how many.

    Their work is pinned, their worktrees are removed; candidates that were handed in stay in the queue. To be called by
    the run's owner while no worker or supervisor of its own runs. Safe to repeat, and to be killed in the middle.
    """
    store = site.store
    for intent in store.intents.open_of_run(run.id):
        await read_back(site, run, intent)
    with owned(store, run):
        for turn in store.turns.open_of_run(run.id):
            store.turns.lose(turn.id)
    orphans = [attempt for attempt in store.attempts.open_of_run(run.id) if attempt.phase in WORKER_PHASES]
    for attempt in orphans:
        await put_back(site, run, attempt, outcome=outcome, error=error)
    await sweep(site, run)
    if orphans and outcome == "lost":
        with owned(store, run):
            text = f"{len(orphans)} attempts had lost their worker; their work is pinned and they start again."
            store.events.append(run.id, Noticed("info", text))
    return len(orphans)


async def put_back(site: Site, run: Run, attempt: Attempt, *, outcome: Outcome, error: str) -> None:
    """End an attempt whose worker is gone or must go: pin what it did, remove its worktree, free its action.

    One that was ended or handed in by its worker's last breath stays as it is; just its worktree goes.
    """
    if attempt.worker is not None:
        await end_leftover(attempt.worker)
    pinned = await rescue(site, run, attempt.id)
    now = site.store.attempts.get(attempt.id)
    if now is not None and now.status != "ended" and now.phase in WORKER_PHASES:
        conclude(site.store, run, attempt.id, outcome, error=error, head=pinned)


async def sweep(site: Site, run: Run) -> None:
    """Remove the run's worktrees that no worker uses any more, and the refs that kept what has landed since."""
    for path in await _left_behind(site, run):
        attempt = site.store.attempts.get(AttemptId(path.name))
        if attempt is None:
            await worktree.remove(site.repository, path)
        elif attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue(site, run, attempt.id)
    kept = await refs.listed(site.git, refs.work_ref(AttemptId("")))
    for attempt in site.store.attempts.of_run(run.id) if kept else ():
        ref = refs.work_ref(attempt.id)
        if attempt.outcome == "landed" and ref in kept:
            await refs.delete(site.git, ref, old=kept[ref])


async def _left_behind(site: Site, run: Run) -> list[Path]:
    """Return where the run's worktrees are, and where git believes that one is: a removal may have been cut in two."""
    folder = (site.run_folder(run.id) / "attempts").resolve()
    registered = {each.path for each in await worktree.listed(site.repository) if each.path.parent == folder}
    return sorted(registered.union(folder.iterdir() if folder.is_dir() else ()))
