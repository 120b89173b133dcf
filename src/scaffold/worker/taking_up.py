"""Work that waited for a human goes on as it was: the next attempt at it need not be made anew."""

from scaffold.core.model import Attempt
from scaffold.store.database import Store
from scaffold.worker.station import Station


async def take_up(station: Station) -> Attempt | None:
    """Put the files of the attempt before into the worktree, and return it, if a human was to look at its change.

    Only on the same base: elsewhere it would be another change than the one that was looked at. HEAD stays.
    """
    store, base = station.site.store, station.workspace.base
    before = _before(store, station.task.attempt)
    if before is None or before.outcome != "waiting" or before.base_sha != base or before.head_sha is None:
        return None
    if not _was_shown(store, before):
        return None
    await station.workspace.git("read-tree", "-u", "--reset", before.head_sha)
    return before


def _before(store: Store, attempt: Attempt) -> Attempt | None:
    earlier = [each for each in store.attempts.of_action(attempt.action_id) if each.number < attempt.number]
    return earlier[-1] if earlier else None


def _was_shown(store: Store, attempt: Attempt) -> bool:
    """Tell whether it was the finished change that a human was asked about, not something on the way there."""
    return any(item.attempt_id == attempt.id and "change" in item.detail for item in store.inbox.all())
