"""Start is resume: whatever a dead owner left half done is brought to a state work can go on from."""

from scaffold.core.events import Noticed
from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Outcome
from scaffold.git import refs, worktree
from scaffold.host.child import end_leftover
from scaffold.landing.record import read_back, session_ref
from scaffold.worker.ending import conclude
from scaffold.worker.site import Site
from scaffold.worker.workspace import rescue


async def ensure_session_branch(site: Site, run: Run) -> None:
    """Make the integration branch at the run's base, unless something has landed on it already."""
    if any(attempt.outcome == "landed" for attempt in site.store.attempts.of_run(run.id)):
        return
    if await refs.resolve(site.git, session_ref(run)) is None:
        await refs.move(site.git, session_ref(run), new=run.base_sha, old=None)


async def recover(site: Site, run: Run, *, outcome: Outcome = "lost", error: str = "orphaned_by_crash") -> int:
    """Settle half-done landings, end attempts without a living worker, pin their work, remove their worktrees.

    To be called by the run's owner while no worker of its own runs. Returns how many attempts were put back.
    Candidates that were handed in stay in the queue. Safe to repeat, and to be killed in the middle.
    """
    store = site.store
    for intent in store.intents.open_of_run(run.id):
        await read_back(site, run, intent)
    orphans = [attempt for attempt in store.attempts.open_of_run(run.id) if attempt.phase in WORKER_PHASES]
    for attempt in orphans:
        await put_back(site, run, attempt, outcome=outcome, error=error)
    await sweep(site, run)
    if orphans and outcome == "lost":
        with store.transaction():
            text = f"{len(orphans)} attempts had lost their worker; their work is pinned and they start again."
            store.events.append(run.id, Noticed("info", text))
    return len(orphans)


async def put_back(site: Site, run: Run, attempt: Attempt, *, outcome: Outcome, error: str) -> None:
    """End an attempt whose worker is gone or must go: pin what it did, remove its worktree, free its action."""
    if attempt.worker is not None:
        await end_leftover(attempt.worker)
    pinned = await rescue(site, run, attempt)
    conclude(site.store, run, attempt.id, outcome, error=error, head=pinned)


async def sweep(site: Site, run: Run) -> None:
    """Remove the run's worktrees that no worker uses any more, each after its work was pinned."""
    folder = site.run_folder(run.id) / "attempts"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        attempt = site.store.attempts.get(AttemptId(path.name))
        if attempt is None:
            await worktree.remove(site.repository, path)
        elif attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue(site, run, attempt)
