"""What a user is still to be told: put there once, and kept until it was delivered or given up."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import RunId
from scaffold.core.model import ProcessIdentity
from scaffold.host.process_identity import is_alive
from scaffold.plan.notification import Notification
from scaffold.store.driver.columns import PROCESS, JsonColumn, format_time, parse_time
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO notification (id, channel, body, variables, due_at) VALUES (:id, :channel, :body, :variables, :due_at)
"""
SEE = "INSERT INTO notification_seen (id, at) VALUES (:id, :at) ON CONFLICT DO NOTHING RETURNING id"
FORGET_SEEN = "DELETE FROM notification_seen WHERE at < :before"
DUE = "SELECT * FROM notification WHERE due_at <= :now ORDER BY due_at, rowid"
NEXT_DUE = "SELECT MIN(due_at) AS at FROM notification"
CLAIM = "UPDATE notification SET sender = :sender WHERE id = :id AND channel = :channel"
REMOVE = "DELETE FROM notification WHERE id = :id AND channel = :channel"
PUT_OFF = """
UPDATE notification SET tries = tries + 1, due_at = :due_at, sender = NULL WHERE id = :id AND channel = :channel
"""
FEED = "SELECT seq FROM notification_feed WHERE run_id = :run_id"
FEEDS = "SELECT run_id, root FROM notification_feed ORDER BY run_id"
SET_FEED = """
INSERT INTO notification_feed (run_id, root, seq) VALUES (:run_id, :root, :seq)
ON CONFLICT (run_id) DO UPDATE SET root = excluded.root, seq = excluded.seq
"""
END_FEED = "DELETE FROM notification_feed WHERE run_id = :run_id"
KEPT = timedelta(days=90)
"""How long it is known that something was put there."""
BODY = JsonColumn[Notification](Notification)
NAMES = JsonColumn[tuple[str, ...]](tuple[str, ...])


class QueuedNotification(Struct, frozen=True, kw_only=True):
    """One notification for one channel."""

    id: str
    channel: str
    """An entry of the setting `notify`."""
    body: Notification
    variables: tuple[str, ...]
    """The environment variables that a command gets besides the usual ones."""
    due_at: datetime
    tries: int


class Outbox(TableGateway):
    """Notifications by id and channel. A process that claims one delivers it; if it dies, another one does."""

    def add(
        self,
        notification_id: str,
        body: Notification,
        channels: Sequence[str],
        due_at: datetime,
        variables: Sequence[str],
    ) -> bool:
        """Put a notification there for each channel; return False if one with this id was there before."""
        if not self._connection.write_returning(SEE, id=notification_id, at=self._now_text()):
            return False
        self._connection.write(FORGET_SEEN, before=format_time(self._clock.now() - KEPT))
        shared = {"body": BODY.write(body), "variables": NAMES.write(tuple(variables)), "due_at": format_time(due_at)}
        for channel in channels:
            self._connection.write(ADD, id=notification_id, channel=channel, **shared)
        return True

    def claim_due(self, me: ProcessIdentity) -> tuple[QueuedNotification, ...]:
        """Return what is due and no other live process delivers, oldest first; `me` delivers it from now on."""
        found = list[QueuedNotification]()
        for row in self._connection.rows(DUE, now=self._now_text()):
            sender = PROCESS.read(row["sender"])
            if sender is not None and is_alive(sender):
                continue
            self._connection.write(CLAIM, sender=PROCESS.write(me), id=row["id"], channel=row["channel"])
            found.append(
                QueuedNotification(
                    id=row["id"],
                    channel=row["channel"],
                    body=BODY.read(row["body"]),
                    variables=NAMES.read(row["variables"]),
                    due_at=parse_time(row["due_at"]),
                    tries=row["tries"],
                )
            )
        return tuple(found)

    def next_due(self) -> datetime | None:
        """Return when the next notification is due, also one that is being delivered; None if none is left."""
        at = self._connection.rows(NEXT_DUE)[0]["at"]
        return None if at is None else parse_time(at)

    def remove(self, queued: QueuedNotification) -> None:
        """Forget a notification that was delivered or is given up."""
        self._connection.write(REMOVE, id=queued.id, channel=queued.channel)

    def put_off(self, queued: QueuedNotification, until: datetime) -> None:
        """Let a notification that could not be delivered be tried again."""
        self._connection.write(PUT_OFF, id=queued.id, channel=queued.channel, due_at=format_time(until))

    def position(self, run_id: RunId) -> int | None:
        """Return the run's last event that was read; None if the run is not followed."""
        row = self._connection.row(FEED, run_id=run_id)
        return None if row is None else int(row["seq"])

    def feeds(self) -> tuple[tuple[RunId, Path], ...]:
        """Return the runs that are followed, each with the checkout of its repository."""
        return tuple((RunId(row["run_id"]), Path(row["root"])) for row in self._connection.rows(FEEDS))

    def follow(self, run_id: RunId, root: Path, seq: int) -> None:
        """Store how far a run's events were read."""
        self._connection.write(SET_FEED, run_id=run_id, root=str(root), seq=seq)

    def unfollow(self, run_id: RunId) -> None:
        """Forget a run that is over."""
        self._connection.write(END_FEED, run_id=run_id)
