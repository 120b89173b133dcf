"""What the user agreed to of the configuration that folders bring along."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from scaffold.store.columns import Calendar, Json, moment, stamp
from scaffold.store.connection import Connection

AGREE = """
INSERT INTO trust (identity, fingerprint, files, decided_at) VALUES (:identity, :fingerprint, :files, :at)
ON CONFLICT (identity, fingerprint) DO UPDATE SET decided_at = excluded.decided_at
"""
AGREED = "SELECT files, decided_at FROM trust WHERE identity = :identity ORDER BY decided_at, fingerprint"
REVOKE = "DELETE FROM trust WHERE identity = :identity"


DIGESTS = Json[Mapping[str, str]](dict[str, str])


class Agreement(Struct, frozen=True):
    """The digest of each file that was agreed to, by its name, and when that was."""

    files: Mapping[str, str]
    decided_at: datetime


class Trust:
    """Agreements by the identity of a repository, or of a folder outside of one."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def agree(self, identity: str, fingerprint: str, files: Mapping[str, str]) -> None:
        """Keep that the user agreed to these files; once more makes it the latest."""
        at = stamp(self._clock.now())
        written = DIGESTS.write(files)
        self._connection.write(AGREE, identity=identity, fingerprint=fingerprint, files=written, at=at)

    def agreed(self, identity: str) -> tuple[Agreement, ...]:
        """Return what was agreed to, the latest last."""
        rows = self._connection.rows(AGREED, identity=identity)
        return tuple(Agreement(DIGESTS.read(row["files"]), moment(row["decided_at"])) for row in rows)

    def revoke(self, identity: str) -> int:
        """Forget all that was agreed to, and return how many agreements that were."""
        known = len(self._connection.rows(AGREED, identity=identity))
        self._connection.write(REVOKE, identity=identity)
        return known
