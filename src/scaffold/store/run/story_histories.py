"""Histories of stories: what changed their steps beside the execution of these."""

from collections.abc import Sequence

from scaffold.core.ids import ActionId
from scaffold.plan.story.record import HistoryEntry
from scaffold.store.driver.columns import JsonColumn
from scaffold.store.driver.connection import Connection

ADD = "INSERT INTO story_history (story_id, position, entry) VALUES (:story_id, :position, :entry)"
OF_STORY = "SELECT entry FROM story_history WHERE story_id = :story_id ORDER BY position"

ENTRY = JsonColumn[HistoryEntry](HistoryEntry)


class StoryHistories:
    """The history of each story, which is an action; entries are only ever added."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, story_id: ActionId, entries: Sequence[HistoryEntry]) -> None:
        """Add entries at the end."""
        first = len(self.of_story(story_id))
        for position, entry in enumerate(entries, first):
            self._connection.write(ADD, story_id=story_id, position=position, entry=ENTRY.write(entry))

    def of_story(self, story_id: ActionId) -> tuple[HistoryEntry, ...]:
        """Return the entries, oldest first."""
        return tuple(ENTRY.read(row["entry"]) for row in self._connection.rows(OF_STORY, story_id=story_id))
