"""The number of actions per goal and status, maintained incrementally so that its cost does not grow with the plan."""

from collections import Counter

from scaffold.core.ids import GoalId
from scaffold.store.driver.connection import ColumnValue, Connection

ADD = """
INSERT INTO action_status_count (goal_id, status, action_count) VALUES (:goal_id, :status, :actions)
ON CONFLICT (goal_id, status) DO UPDATE SET action_count = action_status_count.action_count + excluded.action_count
"""
OF_GOAL = "SELECT status, action_count FROM action_status_count WHERE goal_id = :goal_id AND action_count > 0"


class StatusCounts:
    """Counts by goal and status; a transaction's changes are written at its end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: Counter[tuple[GoalId, str]] = Counter()
        connection.keep(self)

    def count(self, goal_id: GoalId, status: str, actions: int) -> None:
        """Add `actions`, which may be negative, to the count of a status."""
        self._changes[goal_id, status] += actions

    def of_goal(self, goal_id: GoalId) -> dict[str, int]:
        """Return the goal's counts; statuses without actions are left out."""
        self.flush()
        return {row["status"]: row["action_count"] for row in self._connection.rows(OF_GOAL, goal_id=goal_id)}

    def flush(self) -> None:
        """Write the transaction's changes so far."""
        changes: list[dict[str, ColumnValue]] = [
            {"goal_id": goal_id, "status": status, "actions": actions}
            for (goal_id, status), actions in self._changes.items()
            if actions
        ]
        if changes:
            self._connection.write_each(ADD, changes)
        self._changes.clear()

    def forget(self) -> None:
        """Drop unwritten changes: the transaction is over."""
        self._changes.clear()
