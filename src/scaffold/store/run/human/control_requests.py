"""Control requests: what humans request of goals and actions, until the run's owner has handled it."""

from scaffold.core.ids import ControlRequestId, RunId
from scaffold.core.model import ControlRequest
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO control_request (id, run_id, position, kind, goal_id, action_id, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM control_request WHERE run_id = :run_id),
        :kind, :goal_id, :action_id, :at)
"""
OPEN_OF_RUN = "SELECT * FROM control_request WHERE run_id = :run_id AND completed_at IS NULL ORDER BY position"
COMPLETE = "UPDATE control_request SET completed_at = :at WHERE id = :id AND completed_at IS NULL"


class ControlRequests(TableGateway):
    """The requests about each run's goals and actions, in order; those about a whole run are stored with the run."""

    def add(self, request: ControlRequest) -> None:
        """Store a request for the run's owner."""
        self._connection.write(
            ADD,
            id=request.id,
            run_id=request.run_id,
            kind=request.kind,
            goal_id=request.goal_id,
            action_id=request.action_id,
            at=format_time(request.created_at),
        )

    def open_of_run(self, run_id: RunId) -> tuple[ControlRequest, ...]:
        """Return the run's requests that are not handled yet."""
        return tuple(map(_control_request, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def settle(self, request_id: ControlRequestId) -> None:
        """Mark a request as handled; safe to repeat."""
        self._connection.write(COMPLETE, id=request_id, at=format_time(self._clock.now()))


def _control_request(row: Row) -> ControlRequest:
    return ControlRequest(
        id=row["id"],
        run_id=row["run_id"],
        kind=row["kind"],
        goal_id=row["goal_id"],
        action_id=row["action_id"],
        created_at=parse_time(row["created_at"]),
    )
