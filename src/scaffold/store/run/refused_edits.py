"""Edits of stories that were rejected, until their stories' notes say why."""

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId, RunId
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.connection import Connection

ADD = "UPDATE attempt SET refused_edits = :refused WHERE id = :id"
SETTLE = "UPDATE attempt SET refused_edits = NULL WHERE id = :id"
OF_RUN = """
SELECT attempt.id, attempt.refused_edits, action.key AS step, story.key AS story
FROM attempt JOIN action ON action.id = attempt.action_id JOIN action AS story ON story.id = action.parent_id
WHERE attempt.run_id = :run_id AND attempt.refused_edits IS NOT NULL ORDER BY attempt.queued_seq
"""


class RejectedEdits(Struct, frozen=True, kw_only=True):
    """Why edits were rejected, and what they were."""

    why: str
    edits: str


class RefusedEdits(Struct, frozen=True, kw_only=True):
    """Rejected edits of a step's agent that are not in the notes yet."""

    attempt: AttemptId
    step: ActionKey
    story: ActionKey
    refusal: RejectedEdits


REFUSAL = JsonColumn[RejectedEdits](RejectedEdits)


class RefusedEditsOfStories:
    """Rejected edits, from the transaction that rejects them to the one after their note is written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, attempt: AttemptId, refusal: RejectedEdits) -> None:
        """Store that the edits of an attempt were rejected."""
        self._connection.write(ADD, id=attempt, refused=REFUSAL.write(refusal))

    def of_run(self, run_id: RunId) -> tuple[RefusedEdits, ...]:
        """Return those whose notes are missing, oldest first."""
        return tuple(
            RefusedEdits(
                attempt=row["id"], step=row["step"], story=row["story"], refusal=REFUSAL.read(row["refused_edits"])
            )
            for row in self._connection.rows(OF_RUN, run_id=run_id)
        )

    def settle(self, attempt: AttemptId) -> None:
        """Forget them: the notes say why."""
        self._connection.write(SETTLE, id=attempt)
