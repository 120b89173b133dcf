"""Leases: only the current owner of a run may write; a worker sends heartbeats."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from scaffold.core.errors import StaleFence, StoreError
from scaffold.core.model import Attempt, Run
from scaffold.core.ports import Clock
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.store.database import Store

# The owner stops a worker after 60 s without a heartbeat: `orchestrator/owner/processes/worker_exits.py`.
HEARTBEAT_S = 5.0


@contextmanager
def owner_transaction(store: Store, run: Run, *, durable: bool = False) -> Iterator[None]:
    """Run the block in a transaction of the run's owner; StaleFence, before any write, if another process owns it."""
    with store.transaction(durable=durable):
        store.runs.check(run.id, fence=run.fence)
        yield


@asynccontextmanager
async def send_heartbeats(store: Store, attempt: Attempt, clock: Clock, limit: TimeLimit) -> AsyncIterator[None]:
    """Send heartbeats, with the end of the attempt's time, while the block runs.

    If the attempt was ended, its next write raises StaleFence.
    """

    async def beat() -> None:
        while True:
            await clock.sleep(HEARTBEAT_S)
            # A heartbeat that fails must not end the attempt: the worker's next write says whether it was taken away.
            with suppress(StaleFence, StoreError), store.transaction():
                store.attempts.record_heartbeat(
                    attempt.id, fence=attempt.fence, at=clock.monotonic(), ends_at=limit.ends_at
                )

    heartbeats = asyncio.create_task(beat())
    try:
        yield
    finally:
        heartbeats.cancel()
        await asyncio.wait([heartbeats])
