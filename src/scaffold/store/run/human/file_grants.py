"""File grants: entries added to actions' files at their agents' request. They are only ever added."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from scaffold.core.events import FilesGranted
from scaffold.core.ids import ActionId, RunId
from scaffold.core.model import FileGrant, FileGrantor
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.run.event_log import RunTableGateway

ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD = """
INSERT INTO file_grant (action_id, position, path, granted_by, reason, created_at)
VALUES (:action_id, (SELECT COUNT(*) FROM file_grant WHERE action_id = :action_id), :path, :granted_by, :reason, :at)
ON CONFLICT (action_id, path, granted_by) DO NOTHING
RETURNING path
"""
OF_ACTION = "SELECT * FROM file_grant WHERE action_id = :action_id ORDER BY position"
OF_RUN = """
SELECT file_grant.* FROM file_grant JOIN action ON action.id = file_grant.action_id
WHERE action.run_id = :run_id ORDER BY action_id, file_grant.position
"""


class FileGrants(RunTableGateway):
    """The grants of each action, oldest first."""

    def add(self, action_id: ActionId, paths: Sequence[str], *, by: FileGrantor, reason: str) -> None:
        """Add entries to the action's files; does nothing for those that the same grantor has granted before."""
        action = self._connection.require_row(ACTION, "action", action_id)
        given = {"action_id": action_id, "granted_by": by, "reason": reason, "at": format_time(self._clock.now())}
        new = [path for path in paths if self._connection.write_returning(ADD, path=path, **given)]
        if new:
            self._events.append(action["run_id"], FilesGranted(action["key"], tuple(new), by, reason))

    def of_action(self, action_id: ActionId) -> tuple[FileGrant, ...]:
        """Return the grants of the action."""
        return tuple(map(_grant, self._connection.rows(OF_ACTION, action_id=action_id)))

    def of_run(self, run_id: RunId) -> Mapping[ActionId, tuple[FileGrant, ...]]:
        """Return the grants of the run's actions; actions without any are left out."""
        by_action = groupby(self._connection.rows(OF_RUN, run_id=run_id), lambda row: row["action_id"])
        return {action_id: tuple(map(_grant, rows)) for action_id, rows in by_action}


def _grant(row: Row) -> FileGrant:
    return FileGrant(path=row["path"], by=row["granted_by"], reason=row["reason"], at=parse_time(row["created_at"]))
