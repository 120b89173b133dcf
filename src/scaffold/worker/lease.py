"""The lease of a run: who owns it may write, whoever was overtaken may not."""

from collections.abc import Iterator
from contextlib import contextmanager

from scaffold.core.model import Run
from scaffold.store.database import Store


@contextmanager
def owned(store: Store, run: Run, *, durable: bool = False) -> Iterator[None]:
    """Hold a transaction of the run's owner; StaleFence, and nothing is written, once another process owns it."""
    with store.transaction(durable=durable):
        store.runs.check(run.id, fence=run.fence)
        yield
