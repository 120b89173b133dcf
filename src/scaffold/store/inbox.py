"""The inbox: what waits for a human. Asking the same twice is asking once; a decision is made once, and holds a while.

Whatever closes an item puts the actions that wait for it back to pending, in the same transaction.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, assert_never

from msgspec.json import encode

from scaffold.core.errors import IllegalMove
from scaffold.core.events import Noticed
from scaffold.core.ids import ActionId, RunId
from scaffold.core.model import Decision, InboxItem, InboxKind, Scope
from scaffold.store.actions import Actions
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
ASKS = "INSERT INTO asker (item_id, action_id) VALUES (:item_id, :action_id) ON CONFLICT DO NOTHING"
ASKERS = """
SELECT action.id, action.goal_id FROM asker JOIN action ON action.id = asker.action_id WHERE asker.item_id = :item_id
"""
GET = "SELECT * FROM inbox WHERE id = :id"
SAME = "SELECT * FROM inbox WHERE run_id = :run_id AND fingerprint = :fingerprint AND state = 'open'"
DECIDED = """
SELECT * FROM inbox WHERE run_id = :run_id AND fingerprint = :fingerprint
                      AND state IN ('approved', 'rejected', 'answered') AND (holds_until IS NULL OR holds_until > :now)
ORDER BY decided_at DESC, position DESC
"""
ALL = "SELECT * FROM inbox ORDER BY created_at, run_id, position"
APPROVED = "SELECT * FROM inbox WHERE action_id = :action_id AND state = 'approved' ORDER BY position"
OPEN = """
SELECT * FROM inbox WHERE state = 'open' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, run_id, position
"""
OPEN_OF_RUN = """
SELECT * FROM inbox WHERE run_id = :run_id AND state = 'open' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY position
"""
OVERDUE = "SELECT 1 FROM inbox WHERE run_id = :run_id AND state = 'open' AND expires_at <= :now LIMIT 1"
BY_PREFIX = "SELECT * FROM inbox WHERE substr(id, 1, length(:text)) = :text ORDER BY created_at, id"
DECIDE = """
UPDATE inbox SET state = :state, answer = :answer, decided_at = :now, scope = :scope, holds_until = :holds_until
WHERE id = :id AND state = 'open'
"""
EXPIRE = """
UPDATE inbox SET state = 'expired', decided_at = :now WHERE run_id = :run_id AND state = 'open' AND expires_at <= :now
RETURNING id
"""
WITHDRAW = """
UPDATE inbox SET state = 'withdrawn', decided_at = :now
WHERE run_id = :run_id AND state = 'open' AND kind <> 'notice'
RETURNING id
"""
# Of an item that several ask for, the first one may be past it while another waits.
WITHDRAW_UNNEEDED = """
UPDATE inbox SET state = 'withdrawn', decided_at = :now
WHERE run_id = :run_id AND state = 'open' AND kind <> 'notice'
  AND EXISTS (SELECT 1 FROM action WHERE action.id = inbox.action_id
                                     AND action.status IN ('completed', 'skipped', 'cancelled'))
  AND NOT EXISTS (SELECT 1 FROM action WHERE action.run_id = inbox.run_id AND action.status = 'blocked'
                                         AND action.reason = 'waits_for:' || inbox.id)
RETURNING id
"""

DECISIONS: Mapping[InboxKind, frozenset[Decision]] = {
    "approval": frozenset({"approved", "rejected"}),
    "question": frozenset({"answered"}),
    "notice": frozenset({"answered"}),
}
"""What may be decided about each kind; a notice is answered when somebody has seen it."""


class Inbox:
    """The items of each run, oldest first; each is open until it is decided, once, or expires, or is withdrawn."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events, actions: Actions) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events
        self._actions = actions

    def ask(self, item: InboxItem) -> InboxItem:
        """Store an open item and return it, or the run's open item of the same kind, text and detail if there is one.

        Two who ask the same thus wait for one decision: each waits for the id that it got back, and whatever its scope,
        the decision is for both.
        """
        self.expire(item.run_id)
        fingerprint = _fingerprint(item)
        same = self._connection.row(SAME, run_id=item.run_id, fingerprint=fingerprint)
        if same is None:
            self._add(item, fingerprint)
        stored = item if same is None else self._item(same)
        if item.action_id is not None:
            self._connection.write(ASKS, item_id=stored.id, action_id=item.action_id)
        return stored

    def get(self, item_id: str) -> InboxItem | None:
        """Return the item, None if there is none."""
        row = self._connection.row(GET, id=item_id)
        return None if row is None else self._item(row)

    def is_open(self, item_id: str) -> bool:
        """Tell whether the item still waits for a decision."""
        item = self.get(item_id)
        return item is not None and item.state == "open"

    def in_force(self, asked: InboxItem) -> InboxItem | None:
        """Return the latest decision about exactly what is `asked` that holds now for its action; None without one."""
        found = self._connection.rows(
            DECIDED, run_id=asked.run_id, fingerprint=_fingerprint(asked), now=stamp(self._clock.now())
        )
        return next((item for item in map(self._item, found) if self._is_for(item, asked)), None)

    def by_prefix(self, text: str) -> tuple[InboxItem, ...]:
        """Return the items whose id starts with `text`, in whatever state."""
        return tuple(map(self._item, self._connection.rows(BY_PREFIX, text=text)))

    def all(self) -> tuple[InboxItem, ...]:
        """Return the items of every run, in whatever state."""
        return tuple(map(self._item, self._connection.rows(ALL)))

    def approved(self, action_id: ActionId) -> tuple[InboxItem, ...]:
        """Return what a human approved of an action, whether that still counts or not."""
        return tuple(map(self._item, self._connection.rows(APPROVED, action_id=action_id)))

    def open(self) -> tuple[InboxItem, ...]:
        """Return what still waits for a decision, in every run."""
        return tuple(map(self._item, self._connection.rows(OPEN, now=stamp(self._clock.now()))))

    def open_of_run(self, run_id: RunId) -> tuple[InboxItem, ...]:
        """Return what still waits for a decision."""
        return tuple(map(self._item, self._connection.rows(OPEN_OF_RUN, run_id=run_id, now=stamp(self._clock.now()))))

    def decide(
        self,
        item_id: str,
        to: Decision,
        *,
        answer: str | None = None,
        scope: Scope = "run",
        holds_until: datetime | None = None,
    ) -> None:
        """Close an open item; IllegalMove if it is decided or expired already, or not a thing to decide so.

        Until `holds_until` nobody within `scope` who asks the same is put off again: the decision holds for them, too.
        """
        row = self._connection.held(GET, "inbox item", item_id)
        if row["state"] != "open" or to not in DECISIONS[row["kind"]]:
            raise illegal_move(row["kind"], item_id, row["state"], to)
        if self._late(row):
            what = f"{row['kind']} {item_id!r} expired at {row['expires_at']}"
            raise IllegalMove(what, "Whoever needs it asks anew; see `scaffold inbox`.")
        self._connection.swap(
            DECIDE,
            "inbox item",
            item_id,
            state=to,
            answer=answer,
            now=stamp(self._clock.now()),
            scope=scope,
            holds_until=stamp(holds_until),
        )
        self._events.append(row["run_id"], Noticed("info", f"{row['kind']} {item_id} is {to}: {row['text']}"))
        self._actions.release(row["run_id"], item_id)

    def overdue(self, run_id: RunId) -> bool:
        """Tell whether there is something to `expire`."""
        return self._connection.row(OVERDUE, run_id=run_id, now=stamp(self._clock.now())) is not None

    def expire(self, run_id: RunId) -> tuple[str, ...]:
        """Close what nobody decided in time and return the ids."""
        expired = self._connection.write_returning(EXPIRE, run_id=run_id, now=stamp(self._clock.now()))
        return self._closed(run_id, expired, "warning", "expired without a decision")

    def withdraw(self, run_id: RunId) -> tuple[str, ...]:
        """Close every approval and question of the run and return the ids; who still needs one asks anew."""
        withdrawn = self._connection.write_returning(WITHDRAW, run_id=run_id, now=stamp(self._clock.now()))
        return self._closed(run_id, withdrawn, "info", "needs no decision any more")

    def withdraw_unneeded(self, run_id: RunId) -> tuple[str, ...]:
        """Close the approvals and questions of actions that have ended, unless others wait for them; return the ids."""
        withdrawn = self._connection.write_returning(WITHDRAW_UNNEEDED, run_id=run_id, now=stamp(self._clock.now()))
        return self._closed(run_id, withdrawn, "info", "needs no decision any more")

    def _closed(self, run_id: RunId, rows: list[Row], level: Literal["info", "warning"], what: str) -> tuple[str, ...]:
        for row in rows:
            self._events.append(run_id, Noticed(level, f"{row['id']} {what}"))
            self._actions.release(run_id, row["id"])
        return tuple(row["id"] for row in rows)

    def _item(self, row: Row) -> InboxItem:
        """Return the item as it stands now: one that is late has expired, though nobody has closed it yet."""
        return InboxItem(
            id=row["id"],
            run_id=row["run_id"],
            goal_id=row["goal_id"],
            action_id=row["action_id"],
            attempt_id=row["attempt_id"],
            kind=row["kind"],
            text=row["text"],
            detail=OBJECT.read(row["detail"]),
            state="expired" if row["state"] == "open" and self._late(row) else row["state"],
            answer=row["answer"],
            created_at=moment(row["created_at"]),
            decided_at=moment_if_any(row["decided_at"]),
            expires_at=moment_if_any(row["expires_at"]),
            scope=row["scope"],
            holds_until=moment_if_any(row["holds_until"]),
        )

    def _late(self, row: Row) -> bool:
        return row["expires_at"] is not None and row["expires_at"] <= stamp(self._clock.now())

    def _add(self, item: InboxItem, fingerprint: str) -> None:
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

    def _is_for(self, decided: InboxItem, asked: InboxItem) -> bool:
        """Tell whether the decision is for whoever asks: the same, or one that is within its scope."""
        match decided.scope:
            case "run":
                return True
            case "goal":
                return asked.goal_id in {row["goal_id"] for row in self._connection.rows(ASKERS, item_id=decided.id)}
            case "action":
                askers = {row["id"] for row in self._connection.rows(ASKERS, item_id=decided.id)}
                return not askers.isdisjoint(self._actions.lineage(asked.action_id))
            case _:
                assert_never(decided.scope)


def _fingerprint(item: InboxItem) -> str:
    """Return SHA-256 of what a human is shown and decides about."""
    return hashlib.sha256(encode([item.kind, item.text, item.detail], order="sorted")).hexdigest()
