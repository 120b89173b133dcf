"""The inbox: what waits for a human. Asking the same twice is asking once; a decision is made once."""

import hashlib
from collections.abc import Mapping

from msgspec.json import encode

from scaffold.core.errors import IllegalMove
from scaffold.core.events import Noticed
from scaffold.core.ids import RunId
from scaffold.core.model import Decision, InboxItem, InboxKind
from scaffold.store.columns import OBJECT, Calendar, moment, moment_if_any, stamp
from scaffold.store.connection import Connection, Row
from scaffold.store.events import Events
from scaffold.store.refusals import illegal_move

ADD = """
INSERT INTO inbox (id, run_id, position, goal_id, action_id, attempt_id, kind, text, detail, state, created_at,
                   expires_at, fingerprint)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM inbox WHERE run_id = :run_id), :goal_id, :action_id,
        :attempt_id, :kind, :text, :detail, 'open', :created_at, :expires_at, :fingerprint)
"""
GET = "SELECT * FROM inbox WHERE id = :id"
SAME = "SELECT * FROM inbox WHERE run_id = :run_id AND fingerprint = :fingerprint AND state = 'open'"
OPEN_OF_RUN = """
SELECT * FROM inbox WHERE run_id = :run_id AND state = 'open' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY position
"""
BY_PREFIX = "SELECT * FROM inbox WHERE substr(id, 1, length(:text)) = :text ORDER BY created_at, id"
DECIDE = "UPDATE inbox SET state = :state, answer = :answer, decided_at = :now WHERE id = :id AND state = 'open'"
EXPIRE = """
UPDATE inbox SET state = 'expired', decided_at = :now WHERE run_id = :run_id AND state = 'open' AND expires_at <= :now
RETURNING id
"""

DECISIONS: Mapping[InboxKind, frozenset[Decision]] = {
    "approval": frozenset({"approved", "rejected"}),
    "question": frozenset({"answered"}),
    "notice": frozenset({"answered"}),
}
"""What may be decided about each kind; a notice is answered when somebody has seen it."""


class Inbox:
    """The items of each run, oldest first; each is open until it is decided, once, or expires."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def ask(self, item: InboxItem) -> InboxItem:
        """Store an open item and return it, or the run's open item of the same kind, text and detail if there is one.

        Two who ask the same thus wait for one decision: each waits for the id that it got back.
        """
        self.expire(item.run_id)
        fingerprint = _fingerprint(item)
        same = self._connection.row(SAME, run_id=item.run_id, fingerprint=fingerprint)
        if same is not None:
            return _item(same)
        self._connection.write(
            ADD,
            id=item.id,
            run_id=item.run_id,
            goal_id=item.goal_id,
            action_id=item.action_id,
            attempt_id=item.attempt_id,
            kind=item.kind,
            text=item.text,
            detail=OBJECT.write(item.detail),
            created_at=stamp(item.created_at),
            expires_at=stamp(item.expires_at),
            fingerprint=fingerprint,
        )
        self._events.append(item.run_id, Noticed("warning", f"{item.kind} {item.id} waits for you: {item.text}"))
        return item

    def get(self, item_id: str) -> InboxItem | None:
        """Return the item, None if there is none."""
        row = self._connection.row(GET, id=item_id)
        return None if row is None else _item(row)

    def by_prefix(self, text: str) -> tuple[InboxItem, ...]:
        """Return the items whose id starts with `text`, in whatever state."""
        return tuple(map(_item, self._connection.rows(BY_PREFIX, text=text)))

    def open_of_run(self, run_id: RunId) -> tuple[InboxItem, ...]:
        """Return what still waits for a decision."""
        return tuple(map(_item, self._connection.rows(OPEN_OF_RUN, run_id=run_id, now=stamp(self._clock.now()))))

    def decide(self, item_id: str, to: Decision, *, answer: str | None = None) -> None:
        """Close an open item; IllegalMove if it is decided or expired already, or not a thing to decide so."""
        row = self._connection.held(GET, "inbox item", item_id)
        now = stamp(self._clock.now())
        if row["state"] != "open" or to not in DECISIONS[row["kind"]]:
            raise illegal_move(row["kind"], item_id, row["state"], to)
        if row["expires_at"] is not None and row["expires_at"] <= now:
            what = f"{row['kind']} {item_id!r} expired at {row['expires_at']}"
            raise IllegalMove(what, "Whoever asked has gone on without an answer; see `scaffold inbox`.")
        self._connection.swap(DECIDE, "inbox item", item_id, state=to, answer=answer, now=now)
        self._events.append(row["run_id"], Noticed("info", f"{row['kind']} {item_id} is {to}: {row['text']}"))

    def expire(self, run_id: RunId) -> tuple[str, ...]:
        """Close what nobody decided in time and return the ids."""
        expired = self._connection.write_returning(EXPIRE, run_id=run_id, now=stamp(self._clock.now()))
        for row in expired:
            self._events.append(run_id, Noticed("warning", f"{row['id']} expired without a decision"))
        return tuple(row["id"] for row in expired)


def _fingerprint(item: InboxItem) -> str:
    """Return SHA-256 of what a human is shown and decides about."""
    return hashlib.sha256(encode([item.kind, item.text, item.detail], order="sorted")).hexdigest()


def _item(row: Row) -> InboxItem:
    return InboxItem(
        id=row["id"],
        run_id=row["run_id"],
        goal_id=row["goal_id"],
        action_id=row["action_id"],
        attempt_id=row["attempt_id"],
        kind=row["kind"],
        text=row["text"],
        detail=OBJECT.read(row["detail"]),
        state=row["state"],
        answer=row["answer"],
        created_at=moment(row["created_at"]),
        decided_at=moment_if_any(row["decided_at"]),
        expires_at=moment_if_any(row["expires_at"]),
    )
