"""How the owner of each run has arranged the candidates that wait to land; only for people who watch."""

from collections.abc import Sequence

from scaffold.core.ids import RunId
from scaffold.core.queue import QueuePlace
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.gateway import TableGateway

SET = """
INSERT INTO merge_queue (run_id, fence, places) VALUES (:run_id, :fence, :places)
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, places = excluded.places
WHERE merge_queue.fence <= excluded.fence
"""
GET = "SELECT places FROM merge_queue WHERE run_id = :run_id"
PLACES = JsonColumn[tuple[QueuePlace, ...]](tuple[QueuePlace, ...])


class MergeQueues(TableGateway):
    """The places of the candidates in each run's merge queue."""

    def set(self, run_id: RunId, places: Sequence[QueuePlace], *, fence: int) -> None:
        """Store the arrangement, unless a later owner has stored one."""
        self._connection.write(SET, run_id=run_id, fence=fence, places=PLACES.write(tuple(places)))

    def of_run(self, run_id: RunId) -> tuple[QueuePlace, ...]:
        """Return the places as last stored: some candidates may have landed since."""
        row = self._connection.row(GET, run_id=run_id)
        return () if row is None else PLACES.read(row["places"])
