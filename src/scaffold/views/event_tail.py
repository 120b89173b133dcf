"""Follow the events of a run as they are written."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from scaffold.core.errors import StoreUnavailable
from scaffold.core.events import StoredEvent
from scaffold.core.model import Run
from scaffold.run.context import RunContext

POLL_S = 0.1


class EventSink(Protocol):
    """Shows events as they are recorded."""

    def show(self, recorded: StoredEvent) -> None:
        """Show one event."""
        ...

    def tick(self) -> None:
        """Refresh the current state; called every `POLL_S`."""
        ...

    def close(self) -> None:
        """End: no more events will come."""
        ...


async def tail_events(context: RunContext, run: Run, sink: EventSink, *, since: int, done: Callable[[], bool]) -> None:
    """Show every event after number `since`; return once `done` and all are shown.

    Events recorded while the store cannot be read are shown later, unless the run is `done` first.
    """
    seq, ending = since, False
    try:
        while True:
            with suppress(StoreUnavailable):
                # `done` is asked before the events are read, so that the last round still shows what the end itself
                # recorded.
                ending = done()
                for recorded in context.store.events.since(run.id, seq):
                    sink.show(recorded)
                    seq = recorded.seq
            if ending:
                return
            with suppress(StoreUnavailable):
                sink.tick()
            await asyncio.sleep(POLL_S)
    finally:
        sink.close()
