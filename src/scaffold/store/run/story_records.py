"""What changed the steps of stories, and the edits that were rejected."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, AttemptId, RunId
from scaffold.plan.story.record import HistoryEntry
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.gateway import TableGateway

SET_REFUSED = "UPDATE attempt SET refused_edits = :refused WHERE id = :id"
SETTLE = "UPDATE attempt SET refused_edits = NULL WHERE id = :id"
REFUSED_OF_RUN = """
SELECT attempt.id, attempt.refused_edits, action.key AS step, story.key AS story
FROM attempt JOIN action ON action.id = attempt.action_id JOIN action AS story ON story.id = action.parent_id
WHERE attempt.run_id = :run_id AND attempt.refused_edits IS NOT NULL ORDER BY attempt.queued_seq
"""
ADD_HISTORY = "INSERT INTO story_history (story_id, position, entry) VALUES (:story_id, :position, :entry)"
HISTORY_OF_STORY = "SELECT entry FROM story_history WHERE story_id = :story_id ORDER BY position"
ENTRY = JsonColumn[HistoryEntry](HistoryEntry)


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


class RefusedEditsOfStories(TableGateway):
    """Rejected edits, from the transaction that rejects them to the one after their note is written."""

    def add(self, attempt: AttemptId, refusal: RejectedEdits) -> None:
        """Store that the edits of an attempt were rejected."""
        self._connection.write(SET_REFUSED, id=attempt, refused=REFUSAL.write(refusal))

    def for_run(self, run_id: RunId) -> tuple[RefusedEdits, ...]:
        """Return those whose notes are missing, oldest first."""
        return tuple(
            RefusedEdits(
                attempt=row["id"], step=row["step"], story=row["story"], refusal=REFUSAL.read(row["refused_edits"])
            )
            for row in self._connection.rows(REFUSED_OF_RUN, run_id=run_id)
        )

    def settle(self, attempt: AttemptId) -> None:
        """Forget them: the notes say why."""
        self._connection.write(SETTLE, id=attempt)


class StoryHistories(TableGateway):
    """The history of each story, which is an action; entries are only ever added."""

    def add(self, story_id: ActionId, entries: Sequence[HistoryEntry]) -> None:
        """Add entries at the end."""
        first = len(self.for_story(story_id))
        for position, entry in enumerate(entries, first):
            self._connection.write(ADD_HISTORY, story_id=story_id, position=position, entry=ENTRY.write(entry))

    def for_story(self, story_id: ActionId) -> tuple[HistoryEntry, ...]:
        """Return the entries, oldest first."""
        return tuple(ENTRY.read(row["entry"]) for row in self._connection.rows(HISTORY_OF_STORY, story_id=story_id))
