"""The lease of a run: which process owns it, and when another may take over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

from scaffold.core.errors import RunBusy, StaleFence, StoreError
from scaffold.core.ids import RunId
from scaffold.core.model import ProcessIdentity, Run
from scaffold.core.states import Active, Paused, Saved
from scaffold.host.process_identity import is_alive, own_identity
from scaffold.host.user_dirs import user_dirs
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.store_reader import is_underway

LEASE_S = 5.0
"""Seconds without a heartbeat, on the machine's monotonic clock, after which another process may take the run."""
HEARTBEAT_S = 1.0
POLL_S = 0.1


def take_over_run(context: RunContext, run_id: RunId, *, restart: bool = False) -> Run:
    """Become the run's owner and return the run; raises RunBusy if another live process holds an unexpired lease.

    A control request to another owner is dropped. With `restart` this process continues for a dead owner: a request to
    that still applies, and a run that was paused for its model is active.
    """
    store = context.store
    run = require_run(store, run_id)
    me = own_identity()
    # For the message only; between two processes the fence decides, which `take` compares.
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
    _remember_repository(context)
    return require_run(store, run_id)


def _remember_repository(context: RunContext) -> None:
    # Without it, screens of all repositories of the user lack this one until its next run; the work does not suffer.
    with (
        suppress(StoreError),
        closing(UserStore.open(user_database(user_dirs().data), clock=context.clock)) as user,
        user.transaction(),
    ):
        user.repositories.remember(context.repository.common_dir, context.root)


def claim_run(store: Store, run: Run, *, restart: bool = False) -> None:
    """Become the owner of a run in the caller's transaction; raises StaleFence if it was taken since it was read.

    `restart` is that of `take_over_run`.
    """
    me = own_identity()
    if restart and isinstance(run.state, Paused) and is_underway(run):
        # In the same transaction as the claim, which clears what the run waits for: in between it would look paused.
        store.runs.move(run.id, Active(), fence=run.fence)
    store.runs.take(run.id, me, expected_fence=run.fence)
    # A supervisor inside of the previous owner's process must not be killed as an orphan.
    for goal in store.goals.for_run(run.id):
        if goal.supervisor is not None and goal.supervisor == run.owner:
            store.goals.supervise(goal.id, None, was=goal.supervisor)
    if run.owner != me and not restart:
        store.runs.ask(run.id, None)


async def take_over_run_when_free(context: RunContext, run_id: RunId, *, restart: bool = False) -> Run:
    """Take the run over, after waiting for a live owner's next heartbeat or the end of its lease.

    Raises RunBusy after a heartbeat, which shows that the owner works, and after `LEASE_S` without a first one.
    """
    run, since = require_run(context.store, run_id), context.clock.monotonic()
    beat = run.heartbeat_at
    while run.heartbeat_at == beat and run.owner is not None and is_alive(run.owner):
        # A stopped or hung owner never sends a heartbeat.
        if run.owner == own_identity() or is_lease_expired(context, run):
            break
        # A process that only hands the run over, or ends it, sends none and is soon done.
        if beat is None and context.clock.monotonic() - since > LEASE_S:
            break
        await context.clock.sleep(POLL_S)
        run = require_run(context.store, run_id)
    return take_over_run(context, run_id, restart=restart)


def release_run(store: Store, run: Run) -> None:
    """Let another process take a run that this process owns; raises StaleFence if another one owns it."""
    with owner_transaction(store, run, durable=True):
        store.runs.release(run.id, fence=run.fence)


def hand_over_run(store: Store, run: Run, restarter: ProcessIdentity) -> None:
    """Release a run that this process owns to the owner that `restarter` starts; raises as `release_run` does.

    A paused or saved run becomes active, so that the owner is replaced even if it is killed before it does anything.
    """
    with owner_transaction(store, run, durable=True):
        if isinstance(run.state, Paused | Saved):
            store.runs.move(run.id, Active(), fence=run.fence)
        store.runs.hand_over(run.id, restarter, fence=run.fence)


def is_lease_expired(context: RunContext, run: Run) -> bool:
    """Return whether the owner's last heartbeat is so old that another process may take the run."""
    # Before its first heartbeat, an owner keeps its lease.
    return run.heartbeat_at is not None and context.clock.monotonic() - run.heartbeat_at > LEASE_S


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
