"""The merge queue of each run: work that is done again after a conflict, and the order in which candidates land."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, Commit, RunId
from scaffold.core.landing.queue_place import QueuePlace
from scaffold.core.states import PAUSED_BY_USER
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.gateway import TableGateway

SET = """
INSERT INTO merge_queue (run_id, fence, places) VALUES (:run_id, :fence, :places)
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, places = excluded.places
WHERE merge_queue.fence <= excluded.fence
"""
GET = "SELECT places FROM merge_queue WHERE run_id = :run_id"
# The last work of each action that conflicted with what had landed, and that is being done again, or can be.
DONE_AGAIN = """
SELECT attempt.action_id, action.key, attempt.head_sha, attempt.base_sha
FROM attempt JOIN action ON action.id = attempt.action_id JOIN goal ON goal.id = action.goal_id
WHERE attempt.run_id = :run_id AND attempt.outcome = 'conflict' AND attempt.head_sha IS NOT NULL
      AND (action.status IN ('running', 'verifying', 'landing') OR (action.status = 'pending' AND action.unmet = 0))
      AND (goal.status = 'active' OR (goal.status = 'paused' AND goal.reason <> :by_user))
      AND attempt.number = (
          SELECT MAX(number) FROM attempt AS other WHERE other.action_id = attempt.action_id AND other.status = 'ended')
ORDER BY attempt.queued_seq
"""
PLACES = JsonColumn[tuple[QueuePlace, ...]](tuple[QueuePlace, ...])


class WorkDoneAgain(Struct, frozen=True):
    """An action, and its last work, which conflicted with what had landed."""

    action_id: ActionId
    key: ActionKey
    head: Commit
    base: Commit
    """The commit on which it was made."""


class MergeQueues(TableGateway):
    """What the owner of a run needs to order its candidates, and what people see of that order."""

    def set(self, run_id: RunId, places: Sequence[QueuePlace], *, fence: int) -> None:
        """Store the arrangement, unless a later owner has stored one."""
        self._connection.write(SET, run_id=run_id, fence=fence, places=PLACES.write(tuple(places)))

    def of_run(self, run_id: RunId) -> tuple[QueuePlace, ...]:
        """Return the places as last stored: some candidates may have landed since."""
        row = self._connection.row(GET, run_id=run_id)
        return () if row is None else PLACES.read(row["places"])

    def done_again(self, run_id: RunId) -> tuple[WorkDoneAgain, ...]:
        """Return the last work of actions that ended in a conflict, and that are being done again or can be.

        One whose action cannot begin is left out: what it lacks may be what waits for it. So is one whose goal the user
        paused.
        """
        rows = self._connection.rows(DONE_AGAIN, run_id=run_id, by_user=PAUSED_BY_USER)
        return tuple(WorkDoneAgain(row["action_id"], row["key"], row["head_sha"], row["base_sha"]) for row in rows)
