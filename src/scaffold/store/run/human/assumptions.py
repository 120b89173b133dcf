"""What agents assumed instead of asking a human, for the user to read."""

from scaffold.core.ids import RunId
from scaffold.core.model import Assumption
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.run.event_log import RunTableGateway

ADD = """
INSERT INTO assumption (run_id, position, action_id, attempt_id, question, assumed, created_at)
VALUES (:run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM assumption WHERE run_id = :run_id), :action_id,
        :attempt_id, :question, :assumed, :created_at)
ON CONFLICT (attempt_id, question) DO UPDATE SET assumed = excluded.assumed WHERE excluded.assumed <> ''
"""
OF_RUN = "SELECT * FROM assumption WHERE run_id = :run_id ORDER BY position"


class Assumptions(RunTableGateway):
    """The assumptions of each run, oldest first; of an attempt, the latest about each question."""

    def add(self, run_id: RunId, assumption: Assumption) -> None:
        """Store an assumption; one that says nothing replaces none."""
        self._connection.write(
            ADD,
            run_id=run_id,
            action_id=assumption.action_id,
            attempt_id=assumption.attempt_id,
            question=assumption.question,
            assumed=assumption.assumed,
            created_at=format_time(assumption.created_at),
        )

    def of_run(self, run_id: RunId) -> tuple[Assumption, ...]:
        """Return the run's assumptions."""
        return tuple(
            Assumption(
                action_id=row["action_id"],
                attempt_id=row["attempt_id"],
                question=row["question"],
                assumed=row["assumed"],
                created_at=parse_time(row["created_at"]),
            )
            for row in self._connection.rows(OF_RUN, run_id=run_id)
        )
