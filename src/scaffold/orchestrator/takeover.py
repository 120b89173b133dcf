"""The lease of a run: who carries it out, and when another process may."""

from scaffold.core.errors import RunBusy, StaleFence
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.host.identity import alive, own_identity
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

LEASE_S = 5.0
"""How long an owner that gives no sign of life keeps its run, on the machine's monotonic clock."""
BEAT_S = 1.0
GLANCE_S = 0.1


def take_over(site: Site, run_id: RunId) -> Run:
    """Become the owner of a run; raises RunBusy while another living process is that has not let its lease expire."""
    store = site.store
    run = known_run(store, run_id)
    me = own_identity()
    if run.owner is not None and run.owner != me and alive(run.owner) and not expired(site, run):
        raise RunBusy(
            f"run {run_id} is being carried out by process {run.owner.pid}",
            f"Watch it with `scaffold status {run_id}`, or stop it with `scaffold stop {run_id}`.",
        )
    with store.transaction(durable=True):
        try:
            store.runs.take(run_id, me, expected_fence=run.fence)
            _forget_supervisors_within(store, run)
            store.runs.ask(run_id, None)  # what was asked of the owner before
        except StaleFence as stale:
            raise RunBusy(f"run {run_id} was taken by another process just now", "Try again.") from stale
    return known_run(store, run_id)


def _forget_supervisors_within(store: Store, run: Run) -> None:
    """Forget supervisors that were part of the owner before: nobody is to end that process for their sake."""
    for goal in store.goals.of_run(run.id):
        if goal.supervisor is not None and goal.supervisor == run.owner:
            store.goals.supervise(goal.id, None, was=goal.supervisor)


async def take_over_when_free(site: Site, run_id: RunId) -> Run:
    """Become the owner of a run; where it has one that lives, wait until that stirs, or its lease has expired."""
    run = known_run(site.store, run_id)
    beat = run.beat
    while beat is not None and run.beat == beat and run.owner is not None and alive(run.owner):
        if run.owner == own_identity() or expired(site, run):
            break
        await site.clock.sleep(GLANCE_S)
        run = known_run(site.store, run_id)
    return take_over(site, run_id)


def expired(site: Site, run: Run) -> bool:
    """Return whether the owner has given no sign of life for so long that others may take its run."""
    return _silent_s(site, run) > LEASE_S


async def keep_lease(site: Site, run: Run) -> None:
    """Give signs of life for as long as this runs; raises StaleFence once another process owns the run."""
    while True:
        with owned(site.store, run):
            site.store.runs.beat(run.id, fence=run.fence, at=site.clock.monotonic())
        await site.clock.sleep(BEAT_S)


def known_run(store: Store, run_id: RunId) -> Run:
    """Return the run, which is there: LookupError otherwise."""
    run = store.runs.get(run_id)
    if run is None:
        raise LookupError(run_id)
    return run


def _silent_s(site: Site, run: Run) -> float:
    """Return how long the owner gave no sign of life; nothing for one that has just begun."""
    return 0.0 if run.beat is None else site.clock.monotonic() - run.beat
