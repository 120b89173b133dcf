"""How many actions of a goal have each status, kept up to date: counting them anew would cost more in larger plans."""

from collections import Counter

from scaffold.core.ids import GoalId
from scaffold.store.connection import Connection, Value

ADD = """
INSERT INTO tally (goal_id, status, actions) VALUES (:goal_id, :status, :actions)
ON CONFLICT (goal_id, status) DO UPDATE SET actions = tally.actions + excluded.actions
"""
OF_GOAL = "SELECT status, actions FROM tally WHERE goal_id = :goal_id AND actions > 0"


class Tally:
    """Counts by goal and status; what a transaction changes is written at its end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: Counter[tuple[GoalId, str]] = Counter()
        connection.keep(self)

    def count(self, goal_id: GoalId, status: str, actions: int) -> None:
        """Add to the count of a status, or take from it."""
        self._changes[goal_id, status] += actions

    def of_goal(self, goal_id: GoalId) -> dict[str, int]:
        """Return the goal's counts; statuses without any action are left out."""
        self.write_down()
        return {row["status"]: row["actions"] for row in self._connection.rows(OF_GOAL, goal_id=goal_id)}

    def write_down(self) -> None:
        """Write the transaction's changes so far."""
        changes: list[dict[str, Value]] = [
            {"goal_id": goal_id, "status": status, "actions": actions}
            for (goal_id, status), actions in self._changes.items()
            if actions
        ]
        if changes:
            self._connection.write_each(ADD, changes)
        self._changes.clear()

    def forget(self) -> None:
        """Drop what was counted: the transaction is over."""
        self._changes.clear()
