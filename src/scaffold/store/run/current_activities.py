"""What the processes of a run are busy with, and how long commands took before; only for people who watch."""

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.model import Activity, CurrentActivity
from scaffold.store.driver.columns import JsonColumn, read_struct, struct_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

SET = """
INSERT INTO step (run_id, attempt_id, fence, stage, work, folder, command, since)
VALUES (:run_id, :attempt_id, :fence, :stage, :work, :folder, :command, :since)
ON CONFLICT (run_id, attempt_id) DO UPDATE
SET fence = excluded.fence, stage = excluded.stage, work = excluded.work, folder = excluded.folder,
    command = excluded.command, since = excluded.since
WHERE step.fence <= excluded.fence
"""
CLEAR = "DELETE FROM step WHERE run_id = :run_id AND attempt_id = :attempt_id AND fence = :fence"
OF_RUN = """
SELECT step.*, command_duration.duration_s FROM step
LEFT JOIN command_duration ON command_duration.folder = step.folder AND command_duration.command = step.command
WHERE run_id = :run_id AND fence = :fence ORDER BY attempt_id
"""
KEEP_DURATION = """
INSERT INTO command_duration (folder, command, duration_s, ended_at)
VALUES (:folder, :command, :duration_s, :at)
ON CONFLICT (folder, command) DO UPDATE SET duration_s = excluded.duration_s, ended_at = excluded.ended_at
"""
DURATION = "SELECT duration_s FROM command_duration WHERE folder = :folder AND command = :command"
WORK = JsonColumn[Activity](Activity)
OF_RUN_ITSELF = ""
"""In place of the id of an attempt."""


class Activities(TableGateway):
    """The current activity of each attempt, and of each run's owner; the durations of commands in this repository."""

    def set(self, activity: CurrentActivity) -> None:
        """Store what an attempt, or the owner, is doing now."""
        self._connection.write(
            SET,
            **struct_columns(activity, attempt_id=activity.attempt_id or OF_RUN_ITSELF, work=WORK.write(activity.work)),
            folder=activity.work.folder,
            command=activity.work.command,
        )

    def clear(self, activity: CurrentActivity) -> None:
        """Forget what the attempt, or the owner, was doing."""
        attempt_id = activity.attempt_id or OF_RUN_ITSELF
        self._connection.write(CLEAR, run_id=activity.run_id, attempt_id=attempt_id, fence=activity.fence)

    def for_run(self, run_id: RunId, *, fence: int) -> tuple[CurrentActivity, ...]:
        """Return what processes of the run's owner with this fence are doing, the owner's own first."""
        return tuple(map(_read_activity, self._connection.rows(OF_RUN, run_id=run_id, fence=fence)))

    def keep_duration(self, work: Activity, duration_s: float) -> None:
        """Store how many seconds a whole command took, in place of what it took before."""
        self._connection.write(
            KEEP_DURATION,
            folder=work.folder,
            command=work.command,
            duration_s=round(duration_s, 3),
            at=self._now_text(),
        )

    def duration(self, work: Activity) -> float | None:
        """Return how many seconds the command took when it last ended; None if that is unknown."""
        row = self._connection.row(DURATION, folder=work.folder, command=work.command) if work.is_whole else None
        return None if row is None else float(row["duration_s"])


def _read_activity(row: Row) -> CurrentActivity:
    work = WORK.read(row["work"])
    attempt_id = AttemptId(row["attempt_id"]) if row["attempt_id"] != OF_RUN_ITSELF else None
    last_s = row["duration_s"] if work.is_whole else None
    return read_struct(CurrentActivity, row, attempt_id=attempt_id, work=work, last_s=last_s)
