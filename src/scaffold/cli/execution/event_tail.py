"""Show the events of a run while this process executes it, and run the user's `notify` command for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.orchestrator.owner.notifications import notify_until_done
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.views.event_tail import EventSink, tail_events


def last_seq_before(context: RunContext, run_id: RunId) -> int:
    """Return the event after which a run that is about to be taken over is shown; 0 if it never had an owner."""
    run = require_run(context.store, run_id)
    return context.store.events.last_seq(run.id) if run.fence else 0


@asynccontextmanager
async def showing_events(context: RunContext, run: Run, sink: EventSink, *, since: int) -> AsyncIterator[None]:
    """Show the events after `since` while the block runs, including the last ones.

    The display ends after the notifier: if the user's command fails at the very end, that is an event, too.
    """
    finished = False
    notifier = asyncio.create_task(notify_until_done(context, run, run.settings.permissions.notify, lambda: finished))
    follower = asyncio.create_task(
        tail_events(context, run, sink, since=since, done=lambda: finished and notifier.done())
    )
    try:
        yield
    finally:
        finished = True
        await notifier
        await follower
