"""Leases: who owns a run may write, whoever was overtaken may not; a worker gives signs of life."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from scaffold.core.errors import StaleFence, StoreTrouble
from scaffold.core.model import Attempt, Run
from scaffold.core.ports import Clock
from scaffold.store.database import Store

BEAT_S = 5.0


@contextmanager
def owned(store: Store, run: Run, *, durable: bool = False) -> Iterator[None]:
    """Hold a transaction of the run's owner; StaleFence, and nothing is written, once another process owns it."""
    with store.transaction(durable=durable):
        store.runs.check(run.id, fence=run.fence)
        yield


@asynccontextmanager
async def beating(store: Store, attempt: Attempt, clock: Clock) -> AsyncIterator[None]:
    """Give signs of life for a claimed attempt meanwhile; that it was ended is for its next write to find out."""
    heart = asyncio.create_task(_beat(store, attempt, clock))
    try:
        yield
    finally:
        heart.cancel()
        await asyncio.wait([heart])


async def _beat(store: Store, attempt: Attempt, clock: Clock) -> None:
    while True:
        await clock.sleep(BEAT_S)
        with suppress(StaleFence, StoreTrouble), store.transaction():
            store.attempts.beat(attempt.id, fence=attempt.fence, at=clock.monotonic())
