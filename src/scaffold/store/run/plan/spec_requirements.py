"""Requirements: what the specification of a run asks for; they are stored once and never change."""

from collections.abc import Sequence

from scaffold.core.ids import RunId
from scaffold.core.proof.specification_audit import Requirement, RequirementId
from scaffold.store.driver.connection import Connection

ADD = """
INSERT INTO requirement (run_id, position, name, text, line) VALUES (:run_id, :position, :name, :text, :line)
"""
OF_RUN = "SELECT name, text, line FROM requirement WHERE run_id = :run_id ORDER BY position"


class Requirements:
    """The requirements of each run, in the order of its specification."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, run_id: RunId, requirements: Sequence[Requirement]) -> None:
        """Store the requirements of a run that has none yet."""
        for position, each in enumerate(requirements):
            self._connection.write(ADD, run_id=run_id, position=position, name=each.id, text=each.text, line=each.line)

    def of_run(self, run_id: RunId) -> tuple[Requirement, ...]:
        """Return the requirements; empty for a run that is not audited, or whose planner has not listed them yet."""
        return tuple(
            Requirement(id=RequirementId(row["name"]), text=row["text"], line=row["line"])
            for row in self._connection.rows(OF_RUN, run_id=run_id)
        )
