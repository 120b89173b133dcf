"""The verdicts of second reviewers about changes."""

from scaffold.core.ids import ActionId, RunId
from scaffold.core.proof.reviewer_record import GivenVerdict
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO review_verdict (run_id, action_id, attempt_id, change, model, verdict, given_at)
VALUES (:run_id, :action_id, :attempt_id, :change, :model, :verdict, :given_at)
ON CONFLICT (attempt_id, change, model) DO NOTHING
"""
OF_ACTION = "SELECT * FROM review_verdict WHERE action_id = :action_id ORDER BY given_at, change"
ACTIONS = "SELECT DISTINCT action_id FROM review_verdict WHERE run_id = :run_id ORDER BY action_id"


class ReviewVerdicts(TableGateway):
    """One verdict for each change of an attempt and each reviewer."""

    def add(self, run_id: RunId, action_id: ActionId, given: GivenVerdict) -> None:
        """Store a verdict; the first one about a change stays."""
        self._connection.write(
            ADD,
            run_id=run_id,
            action_id=action_id,
            attempt_id=given.attempt_id,
            change=given.change,
            model=given.model,
            verdict=given.verdict,
            given_at=format_time(given.at),
        )

    def of_action(self, action_id: ActionId) -> tuple[GivenVerdict, ...]:
        """Return the verdicts about the changes of an action, oldest first."""
        return tuple(
            GivenVerdict(
                attempt_id=row["attempt_id"],
                model=row["model"],
                verdict=row["verdict"],
                change=row["change"],
                at=parse_time(row["given_at"]),
            )
            for row in self._connection.rows(OF_ACTION, action_id=action_id)
        )

    def actions(self, run_id: RunId) -> tuple[ActionId, ...]:
        """Return the actions of a run whose changes were judged."""
        return tuple(row["action_id"] for row in self._connection.rows(ACTIONS, run_id=run_id))
