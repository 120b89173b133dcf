"""The inbox: approvals, questions and notices for a human.

Equal items are merged, an item is decided once, and a decision can stay valid for a time. Closing an item sets the
actions that wait for it back to pending, in the same transaction.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, assert_never

from msgspec.json import encode

from scaffold.core.errors import IllegalTransition
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionId, ActionKey, AttemptId, RunId
from scaffold.core.model import DecisionScope, InboxItem, InboxKind, InboxVerdict, ProcessIdentity
from scaffold.core.states import blocked_on_inbox
from scaffold.store.driver.columns import OBJECT, OWNER, TimeSource, format_time, read_struct, struct_columns
from scaffold.store.driver.connection import Connection, Row
from scaffold.store.row_errors import illegal_transition
from scaffold.store.run.event_log import Events, RunTableGateway
from scaffold.store.run.plan.actions import Actions

ADD = """
INSERT INTO inbox (id, run_id, position, goal_id, action_id, attempt_id, kind, text, detail, state, created_at,
                   expires_at, fingerprint)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM inbox WHERE run_id = :run_id), :goal_id, :action_id,
        :attempt_id, :kind, :text, :detail, 'open', :created_at, :expires_at, :fingerprint)
"""
ADD_ASKER = "INSERT INTO inbox_asker (item_id, action_id) VALUES (:item_id, :action_id) ON CONFLICT DO NOTHING"
ASKERS = """
SELECT action.id, action.goal_id FROM inbox_asker JOIN action ON action.id = inbox_asker.action_id
WHERE inbox_asker.item_id = :item_id
"""
REQUESTERS = """
SELECT key FROM action WHERE run_id = :run_id AND (id = :action_id OR (status = 'blocked' AND reason = :reason))
ORDER BY CASE WHEN id = :action_id THEN 0 ELSE 1 END, position
"""
GET = "SELECT * FROM inbox WHERE id = :id"
FIND_OPEN = "SELECT * FROM inbox WHERE run_id = :run_id AND fingerprint = :fingerprint AND state = 'open'"
DECIDED = """
SELECT * FROM inbox WHERE run_id = :run_id AND fingerprint = :fingerprint
                      AND state IN ('approved', 'rejected', 'answered') AND (valid_until IS NULL OR valid_until > :now)
ORDER BY decided_at DESC, position DESC
"""
ALL = "SELECT * FROM inbox ORDER BY created_at, run_id, position"
ANSWERED = "SELECT * FROM inbox WHERE attempt_id = :attempt_id AND state = 'answered' ORDER BY position"
APPROVED = "SELECT * FROM inbox WHERE action_id = :action_id AND state = 'approved' ORDER BY position"
REJECTED = "SELECT * FROM inbox WHERE action_id = :action_id AND state = 'rejected' ORDER BY position"
OF_ACTION = "SELECT * FROM inbox WHERE action_id = :action_id ORDER BY position"
OPEN = """
SELECT * FROM inbox WHERE state = 'open' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, run_id, position
"""
OPEN_OF_RUN = """
SELECT * FROM inbox WHERE run_id = :run_id AND state = 'open' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY position
"""
ANY_EXPIRED = "SELECT 1 FROM inbox WHERE run_id = :run_id AND state = 'open' AND expires_at <= :now LIMIT 1"
BY_PREFIX = "SELECT * FROM inbox WHERE substr(id, 1, length(:text)) = :text ORDER BY created_at, id"
DECIDE = """
UPDATE inbox SET state = :state, answer = :answer, decided_at = :now, scope = :scope, valid_until = :valid_until
WHERE id = :id AND state = 'open'
"""
EXPIRE = """
UPDATE inbox SET state = 'expired', decided_at = :now WHERE run_id = :run_id AND state = 'open' AND expires_at <= :now
RETURNING id
"""
CANCEL_ALL = """
UPDATE inbox SET state = 'withdrawn', decided_at = :now
WHERE run_id = :run_id AND state = 'open' AND kind <> 'notice'
RETURNING id
"""
# The action that first asked may have ended while another one still waits for the item.
CANCEL_UNNEEDED = """
UPDATE inbox SET state = 'withdrawn', decided_at = :now
WHERE run_id = :run_id AND state = 'open' AND kind <> 'notice'
  AND EXISTS (SELECT 1 FROM action WHERE action.id = inbox.action_id
                                     AND action.status IN ('completed', 'skipped', 'cancelled'))
  AND NOT EXISTS (SELECT 1 FROM action WHERE action.run_id = inbox.run_id AND action.status = 'blocked'
                                         AND action.reason = 'waits_for:' || inbox.id)
RETURNING id
"""
WITHDRAW = """
UPDATE inbox SET state = 'withdrawn', decided_at = :now WHERE id = :id AND state = 'open' RETURNING id, run_id
"""
END_VALIDITY = "UPDATE inbox SET valid_until = :now WHERE id = :id AND (valid_until IS NULL OR valid_until > :now)"
SHOW = """
INSERT INTO inbox_shown (item_id, shown) VALUES (:item_id, :shown)
ON CONFLICT (item_id) DO UPDATE SET shown = excluded.shown
"""
SHOWN = "SELECT shown FROM inbox_shown WHERE item_id = :item_id"
FORGET_SHOWN = "DELETE FROM inbox_shown WHERE item_id = :item_id"
FORGET_TERMINAL = "DELETE FROM inbox_terminal WHERE process = :process"
FORGET_TERMINALS_OF = "DELETE FROM inbox_terminal WHERE item_id = :item_id"
ADD_TERMINAL = "INSERT INTO inbox_terminal (item_id, process) VALUES (:item_id, :process)"
TERMINALS = """
SELECT item_id, process FROM inbox_terminal JOIN inbox ON inbox.id = item_id
WHERE run_id = :run_id AND inbox.state = 'open'
ORDER BY item_id, process
"""

DECISIONS: Mapping[InboxKind, frozenset[InboxVerdict]] = {
    "approval": frozenset({"approved", "rejected"}),
    "question": frozenset({"answered"}),
    "notice": frozenset({"answered"}),
}
"""The allowed decisions per kind; a notice is answered once a human has seen it."""


class Inbox(RunTableGateway):
    """The items of each run, oldest first. Each is open until it is decided, expires or is withdrawn."""

    def __init__(self, connection: Connection, clock: TimeSource, events: Events, actions: Actions) -> None:
        super().__init__(connection, clock, events)
        self._actions = actions

    def ask(self, item: InboxItem) -> InboxItem:
        """Store an open item and return it, or return the run's open item with the same kind, text and detail.

        So equal requests wait for one decision, which applies to all of their actions whatever its scope. The caller
        must wait for the id of the returned item.
        """
        # First, or the item would be merged with an open one that has expired and that no human can decide any more.
        self.expire(item.run_id)
        fingerprint = item_hash(item)
        same = self._connection.row(FIND_OPEN, run_id=item.run_id, fingerprint=fingerprint)
        if same is None:
            columns = struct_columns(item, detail=OBJECT.write(item.detail))
            self._connection.write(ADD, **columns, fingerprint=fingerprint)
            notice = NoticeRaised("warning", f"{item.kind} {item.id} waits for you: {item.text}")
            self._events.append(item.run_id, notice)
        stored = item if same is None else self._read_item(same)
        if item.action_id is not None:
            self._connection.write(ADD_ASKER, item_id=stored.id, action_id=item.action_id)
        return stored

    def get(self, item_id: str) -> InboxItem | None:
        """Return the item; None if there is none."""
        row = self._connection.row(GET, id=item_id)
        return None if row is None else self._read_item(row)

    def is_open(self, item_id: str) -> bool:
        """Return whether the item still waits for a decision."""
        item = self.get(item_id)
        return item is not None and item.state == "open"

    def in_force(self, asked: InboxItem, used: Collection[str] = ()) -> InboxItem | None:
        """Return the latest valid decision on an equal item whose scope includes its action; None if there is none.

        A decision about one call does not apply if its id is among `used`.
        """
        found = self._connection.rows(DECIDED, run_id=asked.run_id, fingerprint=item_hash(asked), now=self._now_text())
        decided = (item for item in map(self._read_item, found) if item.scope != "call" or item.id not in used)
        return next((item for item in decided if self._applies_to(item, asked)), None)

    def by_prefix(self, text: str) -> tuple[InboxItem, ...]:
        """Return the items whose id starts with `text`, in any state."""
        return tuple(map(self._read_item, self._connection.rows(BY_PREFIX, text=text)))

    def all(self) -> tuple[InboxItem, ...]:
        """Return the items of all runs, in any state."""
        return tuple(map(self._read_item, self._connection.rows(ALL)))

    def approved(self, action_id: ActionId) -> tuple[InboxItem, ...]:
        """Return the items approved for an action, valid or not."""
        return tuple(map(self._read_item, self._connection.rows(APPROVED, action_id=action_id)))

    def for_action(self, action_id: ActionId) -> tuple[InboxItem, ...]:
        """Return what was asked for an action, in any state."""
        return tuple(map(self._read_item, self._connection.rows(OF_ACTION, action_id=action_id)))

    def answered(self, attempt_id: AttemptId) -> tuple[InboxItem, ...]:
        """Return the questions that an attempt asked and that were answered."""
        return tuple(map(self._read_item, self._connection.rows(ANSWERED, attempt_id=attempt_id)))

    def rejected(self, action_id: ActionId) -> tuple[InboxItem, ...]:
        """Return the items rejected for an action, valid or not."""
        return tuple(map(self._read_item, self._connection.rows(REJECTED, action_id=action_id)))

    def open(self) -> tuple[InboxItem, ...]:
        """Return the open items of all runs."""
        return tuple(map(self._read_item, self._connection.rows(OPEN, now=self._now_text())))

    def open_of_run(self, run_id: RunId) -> tuple[InboxItem, ...]:
        """Return the run's open items."""
        return tuple(map(self._read_item, self._connection.rows(OPEN_OF_RUN, run_id=run_id, now=self._now_text())))

    def requesters(self, item: InboxItem) -> tuple[ActionKey, ...]:
        """Return the actions that need a decision about the item: the one that asked, then those that wait for it."""
        state = blocked_on_inbox(item.id)
        found = self._connection.rows(
            REQUESTERS, run_id=item.run_id, action_id=item.action_id or "", reason=state.reason
        )
        return tuple(ActionKey(row["key"]) for row in found)

    def show(self, item_id: str, text: str) -> None:
        """Store what is shown with an open item besides its detail: too long to be part of what a decision is about."""
        if self.is_open(item_id):
            self._connection.write(SHOW, item_id=item_id, shown=text)

    def shown(self, item_id: str) -> str:
        """Return what is shown with an item; empty once it is decided."""
        row = self._connection.row(SHOWN, item_id=item_id)
        return "" if row is None else str(row["shown"])

    def ask_at_terminal(self, items: Collection[str], terminal: ProcessIdentity) -> None:
        """Store which open items a process asks at its terminal, in place of what it asked before."""
        process = OWNER.write(terminal)
        self._connection.write(FORGET_TERMINAL, process=process)
        for item_id in items:
            if self.is_open(item_id):
                self._connection.write(ADD_TERMINAL, item_id=item_id, process=process)

    def terminals(self, run_id: RunId) -> Mapping[str, Sequence[ProcessIdentity]]:
        """Return the processes that ask the run's open items at a terminal, by item; one may have died meanwhile."""
        found: dict[str, list[ProcessIdentity]] = {}
        for row in self._connection.rows(TERMINALS, run_id=run_id):
            found.setdefault(row["item_id"], []).append(OWNER.read(row["process"]))
        return found

    def decide(
        self,
        item_id: str,
        to: InboxVerdict,
        *,
        answer: str | None = None,
        scope: DecisionScope = "run",
        valid_until: datetime | None = None,
    ) -> None:
        """Close an open item; raise IllegalTransition if it is not open, or if its kind does not allow the decision.

        Until `valid_until` (None: always) the decision also applies to equal items asked within `scope`.
        """
        row = self._connection.require_row(GET, "inbox item", item_id)
        if row["state"] != "open" or to not in DECISIONS[row["kind"]]:
            raise illegal_transition(row["kind"], item_id, row["state"], to)
        # Past its time no one may decide, even if nothing has closed it yet.
        if self._is_expired(row):
            what = f"{row['kind']} {item_id!r} expired at {row['expires_at']}"
            raise IllegalTransition(what, "If it is still needed, it is asked again; see `scaffold inbox`.")
        self._connection.compare_and_set(
            DECIDE,
            "inbox item",
            item_id,
            state=to,
            answer=answer,
            now=self._now_text(),
            scope=scope,
            valid_until=format_time(valid_until),
        )
        self._events.append(row["run_id"], NoticeRaised("info", f"{row['kind']} {item_id} is {to}: {row['text']}"))
        self._release_waiters(row["run_id"], item_id)

    def overdue(self, run_id: RunId) -> bool:
        """Return whether any open item has expired."""
        return self._connection.row(ANY_EXPIRED, run_id=run_id, now=self._now_text()) is not None

    def expire(self, run_id: RunId) -> tuple[str, ...]:
        """Close the run's open items that have expired and return their ids."""
        expired = self._connection.write_returning(EXPIRE, run_id=run_id, now=self._now_text())
        return self._report_closed(run_id, expired, "warning", "expired without a decision")

    def withdraw(self, run_id: RunId) -> tuple[str, ...]:
        """Close the run's open approvals and questions and return their ids; if still needed, they are asked again."""
        withdrawn = self._connection.write_returning(CANCEL_ALL, run_id=run_id, now=self._now_text())
        return self._report_closed(run_id, withdrawn, "info", "no longer needs a decision")

    def withdraw_unneeded(self, run_id: RunId) -> tuple[str, ...]:
        """Close the items of actions that have ended, unless another action waits for them; return their ids."""
        withdrawn = self._connection.write_returning(CANCEL_UNNEEDED, run_id=run_id, now=self._now_text())
        return self._report_closed(run_id, withdrawn, "info", "no longer needs a decision")

    def withdraw_item(self, item_id: str) -> None:
        """Close an item without a decision if it is open: what it asks about has changed."""
        for row in self._connection.write_returning(WITHDRAW, id=item_id, now=self._now_text()):
            self._report_closed(row["run_id"], [row], "info", "no longer needs a decision")

    def end_validity(self, item_id: str) -> None:
        """Let a decision apply to nothing from now on: what it was about has changed."""
        self._connection.write(END_VALIDITY, id=item_id, now=self._now_text())

    def _report_closed(
        self, run_id: RunId, rows: list[Row], level: Literal["info", "warning"], what: str
    ) -> tuple[str, ...]:
        for row in rows:
            self._events.append(run_id, NoticeRaised(level, f"{row['id']} {what}"))
            self._release_waiters(run_id, row["id"])
        return tuple(row["id"] for row in rows)

    def _release_waiters(self, run_id: RunId, item_id: str) -> None:
        # The actions start again, and no terminal asks any more.
        self._connection.write(FORGET_TERMINALS_OF, item_id=item_id)
        self._connection.write(FORGET_SHOWN, item_id=item_id)
        self._actions.release(run_id, item_id)

    def _read_item(self, row: Row) -> InboxItem:
        # One past its time counts as expired even if nothing has closed it yet.
        is_over = row["state"] == "open" and self._is_expired(row)
        state = "expired" if is_over else row["state"]
        return read_struct(InboxItem, row, detail=OBJECT.read(row["detail"]), state=state)

    def _is_expired(self, row: Row) -> bool:
        return row["expires_at"] is not None and row["expires_at"] <= self._now_text()

    def _applies_to(self, decided: InboxItem, asked: InboxItem) -> bool:
        match decided.scope:
            case "run":
                return True
            case "goal":
                return asked.goal_id in {row["goal_id"] for row in self._connection.rows(ASKERS, item_id=decided.id)}
            case "action" | "call":
                askers = {row["id"] for row in self._connection.rows(ASKERS, item_id=decided.id)}
                return not askers.isdisjoint(self._actions.lineage(asked.action_id))
            case _:
                assert_never(decided.scope)


def item_hash(item: InboxItem) -> str:
    """Return the SHA-256, in hex, of exactly what a human decides about: kind, text and detail."""
    return hashlib.sha256(encode([item.kind, item.text, item.detail], order="sorted")).hexdigest()
