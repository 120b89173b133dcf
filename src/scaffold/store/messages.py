"""Messages between agents: to one of them, or to all who subscribed to a channel.

One mailbox for both databases. A scope keeps apart who can reach whom: in a repository's database each run is one, in
the user's all sessions together.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scaffold.core.model import Envelope
from scaffold.store.columns import OBJECT, Calendar, moment, moment_if_any, stamp
from scaffold.store.connection import Connection, Row

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
WAITING = """
SELECT * FROM envelope WHERE scope = :scope AND recipient = :recipient AND (channel IS NULL OR channel <> :but)
                         AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq LIMIT :limit
"""
# The last one stays, whatever became of it: numbers never repeat.
FORGET = """
DELETE FROM envelope WHERE scope = :scope AND expires_at <= :now
                       AND seq < (SELECT MAX(last.seq) FROM envelope AS last WHERE last.scope = :scope)
RETURNING seq
"""


class Messages:
    """The messages of each scope, in the order they were sent; each is consumed once or expires unread."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

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
        """Store a message to one agent, on a channel if one is named, and return its number.

        StoreTrouble if there is no such scope.
        """
        return self._add(scope, sender, recipient, channel, body, expires_at)

    def subscribe(self, scope: str, channel: str, subscriber: str) -> None:
        """Have what others publish on the channel from now on sent to `subscriber`; repeating it changes nothing."""
        self._connection.write(SUBSCRIBE, scope=scope, channel=channel, subscriber=subscriber)

    def publish(
        self, scope: str, *, sender: str, channel: str, body: Mapping[str, Any], expires_at: datetime | None = None
    ) -> int:
        """Store a message to each subscriber but the sender and return to how many; each consumes its own."""
        rows = self._connection.rows(SUBSCRIBERS, scope=scope, channel=channel)
        recipients = [row["subscriber"] for row in rows if row["subscriber"] != sender]
        for recipient in recipients:
            self._add(scope, sender, recipient, channel, body, expires_at)
        return len(recipients)

    def peek(self, scope: str, recipient: str, *, channel: str | None = None, limit: int = 100) -> tuple[Envelope, ...]:
        """Return what waits for the agent on the channel, without one what was sent to it alone; nothing changes."""
        now = stamp(self._clock.now())
        rows = self._connection.rows(PEEK, scope=scope, recipient=recipient, channel=channel, now=now, limit=limit)
        return tuple(map(_envelope, rows))

    def waiting(self, scope: str, recipient: str, *, but: str = "", limit: int = 100) -> tuple[Envelope, ...]:
        """Return what waits for the agent, on whatever channel, except the channel `but`; nothing changes."""
        now = stamp(self._clock.now())
        rows = self._connection.rows(WAITING, scope=scope, recipient=recipient, but=but, now=now, limit=limit)
        return tuple(map(_envelope, rows))

    def consume(self, scope: str, seq: int) -> bool:
        """Take a message away; False if it was taken already, expired, or never was."""
        now = stamp(self._clock.now())
        return bool(self._connection.write_returning(CONSUME, scope=scope, seq=seq, now=now))

    def expire(self, scope: str) -> int:
        """Forget what is too old to be read, taken or not, and return how many they were."""
        return len(self._connection.write_returning(FORGET, scope=scope, now=stamp(self._clock.now())))

    def _add(
        self,
        scope: str,
        sender: str,
        recipient: str,
        channel: str | None,
        body: Mapping[str, Any],
        expires_at: datetime | None,
    ) -> int:
        (row,) = self._connection.write_returning(
            ADD,
            scope=scope,
            sender=sender,
            recipient=recipient,
            channel=channel,
            body=OBJECT.write(body),
            now=stamp(self._clock.now()),
            expires_at=stamp(expires_at),
        )
        return int(row["seq"])


def _envelope(row: Row) -> Envelope:
    return Envelope(
        seq=row["seq"],
        scope=row["scope"],
        sender=row["sender"],
        recipient=row["recipient"],
        channel=row["channel"],
        body=OBJECT.read(row["body"]),
        created_at=moment(row["created_at"]),
        expires_at=moment_if_any(row["expires_at"]),
    )
