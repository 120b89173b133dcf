"""The turns in which agents wait for a human, until the wait is over."""

from scaffold.core.conversation import WaitingTurn
from scaffold.core.ids import ActionId, AttemptId
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.gateway import TableGateway

KEEP = """
INSERT INTO waiting_turn (attempt_id, turn) VALUES (:attempt_id, :turn)
ON CONFLICT (attempt_id) DO UPDATE SET turn = excluded.turn
"""
GET = "SELECT turn FROM waiting_turn WHERE attempt_id = :attempt_id"
IS_KEPT = "SELECT 1 FROM waiting_turn WHERE attempt_id = :attempt_id"
FORGET = "DELETE FROM waiting_turn WHERE attempt_id IN (SELECT id FROM attempt WHERE action_id = :action_id)"

TURN = JsonColumn[WaitingTurn](WaitingTurn)


class WaitingTurns(TableGateway):
    """At most one turn for each attempt."""

    def keep(self, attempt_id: AttemptId, turn: WaitingTurn) -> None:
        """Store the turn of an attempt, in place of an earlier one."""
        self._connection.write(KEEP, attempt_id=attempt_id, turn=TURN.write(turn))

    def get(self, attempt_id: AttemptId) -> WaitingTurn | None:
        """Return the turn in which the attempt waited at its end; None if it did not wait."""
        row = self._connection.row(GET, attempt_id=attempt_id)
        return None if row is None else TURN.read(row["turn"])

    def is_kept(self, attempt_id: AttemptId) -> bool:
        """Return whether `get` returns a turn."""
        return self._connection.row(IS_KEPT, attempt_id=attempt_id) is not None

    def forget(self, action_id: ActionId) -> None:
        """Delete the turns of all attempts of the action: its wait is over."""
        self._connection.write(FORGET, action_id=action_id)
