"""The versions of files that a conversation has read or written."""

from collections.abc import Mapping

from scaffold.core.ids import ConversationId
from scaffold.store.driver.columns import format_time
from scaffold.store.driver.gateway import TableGateway

SET_VERSION = """
INSERT INTO seen_file (conversation_id, path, version, at) VALUES (:id, :path, :version, :at)
ON CONFLICT (conversation_id, path) DO UPDATE SET version = excluded.version, at = excluded.at
"""
DELETE_VERSION = "DELETE FROM seen_file WHERE conversation_id = :id AND path = :path"
VERSIONS = "SELECT path, version FROM seen_file WHERE conversation_id = :id ORDER BY at, path"


class SeenFileVersions(TableGateway):
    """What conversations know of files; a version is a text that only the tools understand."""

    def keep(self, conversation_id: ConversationId, versions: Mapping[str, str | None]) -> None:
        """Store the versions of files by absolute path; None forgets a file."""
        at = format_time(self._clock.now())
        for path, version in versions.items():
            if version is None:
                self._connection.write(DELETE_VERSION, id=conversation_id, path=path)
            else:
                self._connection.write(SET_VERSION, id=conversation_id, path=path, version=version, at=at)

    def of(self, conversation_id: ConversationId) -> Mapping[str, str]:
        """Return the versions by absolute path, those stored last at the end."""
        return {row["path"]: row["version"] for row in self._connection.rows(VERSIONS, id=conversation_id)}
