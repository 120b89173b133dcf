"""A run that this process carries on is told of, to who looks on and to the user's own command, up to its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.cli.progress import Sink, follow
from scaffold.core.model import Run
from scaffold.orchestrator.notify import notify_on
from scaffold.worker.site import Site


def begins_after(site: Site, run: Run) -> int:
    """Return the event after which a run that was just taken over is told of: its taking, if it had an owner before."""
    return max(0, site.store.events.last_seq(run.id) - 1) if run.fence > 1 else 0


@asynccontextmanager
async def followed(site: Site, run: Run, sink: Sink, *, since: int) -> AsyncIterator[None]:
    """Tell what happens from the event after `since` on while the block goes on; also how it ended.

    Who looks on is told last: the command may fail at the very end, and that is an event, too.
    """
    finished = False
    notifier = asyncio.create_task(notify_on(site, run, run.settings.notify, lambda: finished))
    follower = asyncio.create_task(follow(site, run, sink, since=since, done=lambda: finished and notifier.done()))
    try:
        yield
    finally:
        finished = True
        await notifier
        await follower
