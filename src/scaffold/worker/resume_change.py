"""Resume a change that was waiting for approval instead of starting over."""

from scaffold.core.model import Attempt
from scaffold.store.database import Store
from scaffold.worker.attempt_context import AttemptContext


async def restore_waiting_change(context: AttemptContext) -> Attempt | None:
    """Restore the previous attempt's files if its change waited for approval; return that attempt, else None.

    Only on the same base: on another base the approval would be for a different change. HEAD does not move.
    """
    store, base = context.site.store, context.workspace.base
    before = _previous_attempt(store, context.task.attempt)
    if before is None or before.outcome != "waiting" or before.base_sha != base or before.head_sha is None:
        return None
    if not _was_submitted_for_approval(store, before):
        return None
    await context.workspace.git("read-tree", "-u", "--reset", before.head_sha)
    return before


def _previous_attempt(store: Store, attempt: Attempt) -> Attempt | None:
    earlier = [each for each in store.attempts.of_action(attempt.action_id) if each.number < attempt.number]
    return earlier[-1] if earlier else None


def _was_submitted_for_approval(store: Store, attempt: Attempt) -> bool:
    """Return whether the human was asked about the finished change, not about a tool call before it."""
    return any(item.attempt_id == attempt.id and "change" in item.detail for item in store.inbox.all())
