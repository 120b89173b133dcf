"""Messages between agents: to one agent, or to all subscribers of a channel.

Used by both databases. Agents can only reach each other within a scope: in a repository's database each run is a
scope, in the user's database all sessions share one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scaffold.core.model import Envelope
from scaffold.store.driver.columns import OBJECT, format_time, read_struct
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

SUBSCRIBE = """
INSERT INTO subscription (scope, channel, subscriber) VALUES (:scope, :channel, :subscriber)
ON CONFLICT (scope, channel, subscriber) DO NOTHING
"""
SUBSCRIBERS = "SELECT subscriber FROM subscription WHERE scope = :scope AND channel = :channel ORDER BY subscriber"
ADD = """
INSERT INTO envelope (scope, seq, sender, recipient, channel, body, created_at, expires_at)
VALUES (:scope, (SELECT COALESCE(MAX(seq), 0) + 1 FROM envelope WHERE scope = :scope), :sender, :recipient, :channel,
        :body, :now, :expires_at)
RETURNING seq
"""
PEEK = """
SELECT * FROM envelope WHERE scope = :scope AND recipient = :recipient AND channel IS NOT DISTINCT FROM :channel
                        AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq LIMIT :limit
"""
CONSUME = """
UPDATE envelope SET consumed_at = :now
WHERE scope = :scope AND seq = :seq AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
RETURNING seq
"""
UNREAD = """
SELECT * FROM envelope WHERE scope = :scope AND recipient = :recipient AND (channel IS NULL OR channel <> :but)
                         AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq LIMIT :limit
"""
# Keeps the newest message even if expired, so that numbers are never reused.
DELETE_EXPIRED = """
DELETE FROM envelope WHERE scope = :scope AND expires_at <= :now
                       AND seq < (SELECT MAX(last.seq) FROM envelope AS last WHERE last.scope = :scope)
RETURNING seq
"""


class Messages(TableGateway):
    """The messages of each scope, in sending order; each is consumed once or expires."""

    def send(
        self,
        scope: str,
        *,
        sender: str,
        recipient: str,
        body: Mapping[str, Any],
        channel: str | None = None,
        expires_at: datetime | None = None,
    ) -> int:
        """Store a message to one agent, on a channel if one is given, and return its number.

        Raises StoreError if there is no such scope.
        """
        (row,) = self._connection.write_returning(
            ADD,
            scope=scope,
            sender=sender,
            recipient=recipient,
            channel=channel,
            body=OBJECT.write(body),
            now=self._now_text(),
            expires_at=format_time(expires_at),
        )
        return int(row["seq"])

    def subscribe(self, scope: str, channel: str, subscriber: str) -> None:
        """Deliver what others publish on the channel from now on to `subscriber`; safe to repeat."""
        self._connection.write(SUBSCRIBE, scope=scope, channel=channel, subscriber=subscriber)

    def publish(
        self, scope: str, *, sender: str, channel: str, body: Mapping[str, Any], expires_at: datetime | None = None
    ) -> int:
        """Store one message per subscriber except the sender, each consumed separately; return how many."""
        rows = self._connection.rows(SUBSCRIBERS, scope=scope, channel=channel)
        recipients = [row["subscriber"] for row in rows if row["subscriber"] != sender]
        # A copy for each, as each reads at its own pace and consumes only its own.
        for recipient in recipients:
            self.send(scope, sender=sender, recipient=recipient, body=body, channel=channel, expires_at=expires_at)
        return len(recipients)

    def peek(self, scope: str, recipient: str, *, channel: str | None = None, limit: int = 100) -> tuple[Envelope, ...]:
        """Return the agent's unread messages on the channel, or direct messages if None; nothing is consumed."""
        now = self._now_text()
        rows = self._connection.rows(PEEK, scope=scope, recipient=recipient, channel=channel, now=now, limit=limit)
        return tuple(map(_read_envelope, rows))

    def waiting(self, scope: str, recipient: str, *, but: str = "", limit: int = 100) -> tuple[Envelope, ...]:
        """Return the agent's unread messages on any channel except `but`; nothing is consumed."""
        now = self._now_text()
        rows = self._connection.rows(UNREAD, scope=scope, recipient=recipient, but=but, now=now, limit=limit)
        return tuple(map(_read_envelope, rows))

    def consume(self, scope: str, seq: int) -> bool:
        """Consume a message; return False if it was already consumed, has expired, or never existed."""
        now = self._now_text()
        return bool(self._connection.write_returning(CONSUME, scope=scope, seq=seq, now=now))

    def expire(self, scope: str) -> int:
        """Delete expired messages, consumed or not, and return how many."""
        return len(self._connection.write_returning(DELETE_EXPIRED, scope=scope, now=self._now_text()))


def _read_envelope(row: Row) -> Envelope:
    return read_struct(Envelope, row, body=OBJECT.read(row["body"]))
