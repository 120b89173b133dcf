"""Following the events of a run as they are written."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from scaffold.core.events import (
    StoredEvent,
)
from scaffold.core.model import Run
from scaffold.run.context import RunContext

POLL_S = 0.1


class EventSink(Protocol):
    """Takes events as they are recorded."""

    def show(self, recorded: StoredEvent) -> None:
        """Show one event."""
        ...

    def tick(self) -> None:
        """Refresh what shows the present: some time has passed."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


async def tail_events(site: RunContext, run: Run, sink: EventSink, *, since: int, done: Callable[[], bool]) -> None:
    """Show every event after `since` until `done` and nothing is left to show."""
    seq = since
    while True:
        ending = done()
        for recorded in site.store.events.since(run.id, seq):
            sink.show(recorded)
            seq = recorded.seq
        if ending:
            sink.close()
            return
        sink.tick()
        await asyncio.sleep(POLL_S)
