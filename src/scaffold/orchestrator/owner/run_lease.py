"""The lease of a run: which process owns it, and when another may take over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from scaffold.core.errors import RunBusy, StaleFence, StoreError
from scaffold.core.ids import RunId
from scaffold.core.model import ProcessIdentity, Run
from scaffold.core.states import Active, Paused, Saved
from scaffold.host.process_identity import is_alive, own_identity
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.views.store_reader import is_underway

LEASE_S = 5.0
"""How long an owner without heartbeats keeps its run, in seconds of the machine's monotonic clock."""
HEARTBEAT_S = 1.0
POLL_S = 0.1


def take_over_run(context: RunContext, run_id: RunId, *, restart: bool = False) -> Run:
    """Become the run's owner and return the run; raises RunBusy if another live process holds an unexpired lease.

    A user's request to the previous owner is dropped, unless that was this process. With `restart` this process goes on
    for a dead owner: a request to that still applies, and a run that it held while its model was away is active.
    """
    store = context.store
    run = require_run(store, run_id)
    me = own_identity()
    # These checks only give a good message. What decides between two processes is the fence that `take` compares.
    if run.owner is not None and run.owner != me and is_alive(run.owner) and not is_lease_expired(context, run):
        raise RunBusy(
            f"process {run.owner.pid} is executing run {run_id}",
            f"Watch it with `scaffold status {run_id}`, or stop it with `scaffold stop {run_id}`.",
        )
    with store.transaction(durable=True):
        try:
            claim_run(store, run, restart=restart)
        except StaleFence as stale:
            raise RunBusy(f"another process has just taken run {run_id}", "Try again.") from stale
    return require_run(store, run_id)


def claim_run(store: Store, run: Run, *, restart: bool = False) -> None:
    """Become the owner of a run as it was read; the caller owns the transaction. StaleFence if it was taken since.

    `restart` is that of `take_over_run`.
    """
    me = own_identity()
    if restart and isinstance(run.state, Paused) and is_underway(run):
        # Together with the claim, which forgets what the run waits for: in between it would look paused.
        store.runs.move(run.id, Active(), fence=run.fence)
    store.runs.take(run.id, me, expected_fence=run.fence)
    _forget_in_process_supervisors(store, run)
    if run.owner != me and not restart:
        store.runs.ask(run.id, None)


def _forget_in_process_supervisors(store: Store, run: Run) -> None:
    """Clear supervisors that ran inside the previous owner's process, so that it is not killed as an orphan."""
    for goal in store.goals.of_run(run.id):
        if goal.supervisor is not None and goal.supervisor == run.owner:
            store.goals.supervise(goal.id, None, was=goal.supervisor)


async def take_over_run_when_free(context: RunContext, run_id: RunId, *, restart: bool = False) -> Run:
    """Take the run over; if it has a live owner, first wait for that one's next heartbeat or for its lease to expire.

    A heartbeat shows that the owner is working, and `take_over_run` raises RunBusy. It does so, too, after `LEASE_S`
    without a first heartbeat.
    """
    run, since = require_run(context.store, run_id), context.clock.monotonic()
    beat = run.heartbeat_at
    while run.heartbeat_at == beat and run.owner is not None and is_alive(run.owner):
        # An owner that is stopped, or hangs, sends no heartbeat; waiting for one would never end.
        if run.owner == own_identity() or is_lease_expired(context, run):
            break
        # A process that only hands the run on, or ends it, sends none and is soon done.
        if beat is None and context.clock.monotonic() - since > LEASE_S:
            break
        await context.clock.sleep(POLL_S)
        run = require_run(context.store, run_id)
    return take_over_run(context, run_id, restart=restart)


def release_run(store: Store, run: Run) -> None:
    """Let another process take a run that this process owns; raises StaleFence if another one already has it."""
    with owner_transaction(store, run, durable=True):
        store.runs.release(run.id, fence=run.fence)


def hand_over_run(store: Store, run: Run, restarter: ProcessIdentity) -> None:
    """Release a run that this process owns to the owner that `restarter` starts; raises as `release_run` does.

    A paused or saved run is active from now on: the owner may be killed before it does anything, and is replaced then.
    """
    with owner_transaction(store, run, durable=True):
        if isinstance(run.state, Paused | Saved):
            store.runs.move(run.id, Active(), fence=run.fence)
        store.runs.hand_over(run.id, restarter, fence=run.fence)


def is_lease_expired(context: RunContext, run: Run) -> bool:
    """Return whether the owner's last heartbeat is so old that another process may take the run."""
    return _since_heartbeat_s(context, run) > LEASE_S


async def renew_lease(context: RunContext, run: Run) -> None:
    """Send heartbeats until cancelled; raises StaleFence once another process owns the run."""
    while True:
        with owner_transaction(context.store, run):
            context.store.runs.record_heartbeat(run.id, fence=run.fence, at=context.clock.monotonic())
        await context.clock.sleep(HEARTBEAT_S)


@asynccontextmanager
async def keeping_lease(context: RunContext, run: Run) -> AsyncIterator[None]:
    """Send heartbeats while the block runs; if another process takes the run, its next write raises StaleFence."""
    heartbeats = asyncio.create_task(_try_to_renew(context, run))
    try:
        yield
    finally:
        heartbeats.cancel()
        await asyncio.wait([heartbeats])


async def _try_to_renew(context: RunContext, run: Run) -> None:
    with suppress(StaleFence, StoreError):
        await renew_lease(context, run)


def require_run(store: Store, run_id: RunId) -> Run:
    """Return the run; raises LookupError if it does not exist."""
    run = store.runs.get(run_id)
    if run is None:
        raise LookupError(run_id)
    return run


def _since_heartbeat_s(context: RunContext, run: Run) -> float:
    """Return the seconds since the owner's last heartbeat; 0 if there was none yet."""
    return 0.0 if run.heartbeat_at is None else context.clock.monotonic() - run.heartbeat_at
