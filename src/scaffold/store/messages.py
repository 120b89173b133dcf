"""Messages between the agents of a run: to one of them, or to all who subscribed to a channel."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scaffold.core.ids import RunId
from scaffold.core.model import Envelope
from scaffold.store.columns import OBJECT, Calendar, moment, moment_if_any, stamp
from scaffold.store.connection import Connection, Row

SUBSCRIBE = """
INSERT INTO subscription (run_id, channel, subscriber) VALUES (:run_id, :channel, :subscriber)
ON CONFLICT (run_id, channel, subscriber) DO NOTHING
"""
SUBSCRIBERS = "SELECT subscriber FROM subscription WHERE run_id = :run_id AND channel = :channel ORDER BY subscriber"
ADD = """
INSERT INTO message (run_id, seq, sender, recipient, channel, body, created_at, expires_at)
VALUES (:run_id, (SELECT COALESCE(MAX(seq), 0) + 1 FROM message WHERE run_id = :run_id), :sender, :recipient, :channel,
        :body, :now, :expires_at)
RETURNING seq
"""
PEEK = """
SELECT * FROM message WHERE run_id = :run_id AND recipient = :recipient AND channel IS NOT DISTINCT FROM :channel
                        AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq LIMIT :limit
"""
CONSUME = """
UPDATE message SET consumed_at = :now
WHERE run_id = :run_id AND seq = :seq AND consumed_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
RETURNING seq
"""
FORGET = "DELETE FROM message WHERE run_id = :run_id AND consumed_at IS NULL AND expires_at <= :now RETURNING seq"


class Messages:
    """The messages of each run, in the order they were sent; each is consumed once or expires unread."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def send(
        self,
        run_id: RunId,
        *,
        sender: str,
        recipient: str,
        body: Mapping[str, Any],
        expires_at: datetime | None = None,
    ) -> int:
        """Store a message to one agent and return its number; StoreTrouble if there is no such run."""
        return self._add(run_id, sender, recipient, None, body, expires_at)

    def subscribe(self, run_id: RunId, channel: str, subscriber: str) -> None:
        """Have what others publish on the channel from now on sent to `subscriber`; repeating it changes nothing."""
        self._connection.write(SUBSCRIBE, run_id=run_id, channel=channel, subscriber=subscriber)

    def publish(
        self, run_id: RunId, *, sender: str, channel: str, body: Mapping[str, Any], expires_at: datetime | None = None
    ) -> int:
        """Store a message to each subscriber but the sender and return to how many; each consumes its own."""
        rows = self._connection.rows(SUBSCRIBERS, run_id=run_id, channel=channel)
        recipients = [row["subscriber"] for row in rows if row["subscriber"] != sender]
        for recipient in recipients:
            self._add(run_id, sender, recipient, channel, body, expires_at)
        return len(recipients)

    def peek(
        self, run_id: RunId, recipient: str, *, channel: str | None = None, limit: int = 100
    ) -> tuple[Envelope, ...]:
        """Return what waits for the agent on the channel, without one what was sent to it alone; nothing changes."""
        now = stamp(self._clock.now())
        rows = self._connection.rows(PEEK, run_id=run_id, recipient=recipient, channel=channel, now=now, limit=limit)
        return tuple(map(_envelope, rows))

    def consume(self, run_id: RunId, seq: int) -> bool:
        """Take a message away; False if it was taken already, expired, or never was."""
        now = stamp(self._clock.now())
        return bool(self._connection.write_returning(CONSUME, run_id=run_id, seq=seq, now=now))

    def expire(self, run_id: RunId) -> int:
        """Forget what nobody read in time and return how many they were."""
        return len(self._connection.write_returning(FORGET, run_id=run_id, now=stamp(self._clock.now())))

    def _add(
        self,
        run_id: RunId,
        sender: str,
        recipient: str,
        channel: str | None,
        body: Mapping[str, Any],
        expires_at: datetime | None,
    ) -> int:
        (row,) = self._connection.write_returning(
            ADD,
            run_id=run_id,
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
        run_id=row["run_id"],
        sender=row["sender"],
        recipient=row["recipient"],
        channel=row["channel"],
        body=OBJECT.read(row["body"]),
        created_at=moment(row["created_at"]),
        expires_at=moment_if_any(row["expires_at"]),
    )
