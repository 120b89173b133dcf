"""What agents asked for: turns that wait for a human, assumptions made instead, files granted."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from scaffold.core.conversation import WaitingTurn
from scaffold.core.events import FilesGranted
from scaffold.core.ids import ActionId, AttemptId, RunId
from scaffold.core.model import Assumption, FileGrant, FileGrantor
from scaffold.store.driver.columns import JsonColumn, parse_time, read_struct, struct_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.run.event_log import RunTableGateway

ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD_GRANT = """
INSERT INTO file_grant (action_id, position, path, granted_by, reason, created_at)
VALUES (:action_id, (SELECT COUNT(*) FROM file_grant WHERE action_id = :action_id), :path, :granted_by, :reason, :at)
ON CONFLICT (action_id, path, granted_by) DO NOTHING
RETURNING path
"""
GRANTS_OF_ACTION = "SELECT * FROM file_grant WHERE action_id = :action_id ORDER BY position"
GRANTS_OF_RUN = """
SELECT file_grant.* FROM file_grant JOIN action ON action.id = file_grant.action_id
WHERE action.run_id = :run_id ORDER BY action_id, file_grant.position
"""
ADD_ASSUMPTION = """
INSERT INTO assumption (run_id, position, action_id, attempt_id, question, assumed, created_at)
VALUES (:run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM assumption WHERE run_id = :run_id), :action_id,
        :attempt_id, :question, :assumed, :created_at)
ON CONFLICT (attempt_id, question) DO UPDATE SET assumed = excluded.assumed WHERE excluded.assumed <> ''
"""
ASSUMPTIONS_OF_RUN = "SELECT * FROM assumption WHERE run_id = :run_id ORDER BY position"
KEEP_TURN = """
INSERT INTO waiting_turn (attempt_id, turn) VALUES (:attempt_id, :turn)
ON CONFLICT (attempt_id) DO UPDATE SET turn = excluded.turn
"""
GET_TURN = "SELECT turn FROM waiting_turn WHERE attempt_id = :attempt_id"
IS_KEPT = "SELECT 1 FROM waiting_turn WHERE attempt_id = :attempt_id"
FORGET_TURNS = "DELETE FROM waiting_turn WHERE attempt_id IN (SELECT id FROM attempt WHERE action_id = :action_id)"
TURN = JsonColumn[WaitingTurn](WaitingTurn)


class FileGrants(RunTableGateway):
    """The grants of each action, oldest first."""

    def add(self, action_id: ActionId, paths: Sequence[str], *, by: FileGrantor, reason: str) -> None:
        """Add entries to the action's files; does nothing for those that the same grantor has granted before."""
        action = self._connection.require_row(ACTION, "action", action_id)
        given = {"action_id": action_id, "granted_by": by, "reason": reason, "at": self._now_text()}
        new = [path for path in paths if self._connection.write_returning(ADD_GRANT, path=path, **given)]
        if new:
            self._events.append(action["run_id"], FilesGranted(action["key"], tuple(new), by, reason))

    def for_action(self, action_id: ActionId) -> tuple[FileGrant, ...]:
        """Return the grants of the action."""
        return tuple(map(_read_grant, self._connection.rows(GRANTS_OF_ACTION, action_id=action_id)))

    def for_run(self, run_id: RunId) -> Mapping[ActionId, tuple[FileGrant, ...]]:
        """Return the grants of the run's actions; actions without any are left out."""
        by_action = groupby(self._connection.rows(GRANTS_OF_RUN, run_id=run_id), lambda row: row["action_id"])
        return {action_id: tuple(map(_read_grant, rows)) for action_id, rows in by_action}


class Assumptions(RunTableGateway):
    """The assumptions of each run, oldest first; of an attempt, the latest about each question."""

    def add(self, run_id: RunId, assumption: Assumption) -> None:
        """Store an assumption; one that says nothing replaces none."""
        self._connection.write(ADD_ASSUMPTION, run_id=run_id, **struct_columns(assumption))

    def for_run(self, run_id: RunId) -> tuple[Assumption, ...]:
        """Return the run's assumptions."""
        rows = self._connection.rows(ASSUMPTIONS_OF_RUN, run_id=run_id)
        return tuple(read_struct(Assumption, row) for row in rows)


class WaitingTurns(TableGateway):
    """At most one turn for each attempt."""

    def keep(self, attempt_id: AttemptId, turn: WaitingTurn) -> None:
        """Store the turn of an attempt, in place of an earlier one."""
        self._connection.write(KEEP_TURN, attempt_id=attempt_id, turn=TURN.write(turn))

    def get(self, attempt_id: AttemptId) -> WaitingTurn | None:
        """Return the turn in which the attempt waited at its end; None if it did not wait."""
        row = self._connection.row(GET_TURN, attempt_id=attempt_id)
        return None if row is None else TURN.read(row["turn"])

    def is_kept(self, attempt_id: AttemptId) -> bool:
        """Return whether `get` returns a turn."""
        return self._connection.row(IS_KEPT, attempt_id=attempt_id) is not None

    def forget(self, action_id: ActionId) -> None:
        """Delete the turns of all attempts of the action: its wait is over."""
        self._connection.write(FORGET_TURNS, action_id=action_id)


def _read_grant(row: Row) -> FileGrant:
    return FileGrant(path=row["path"], by=row["granted_by"], reason=row["reason"], at=parse_time(row["created_at"]))
