"""What agents asked for: turns that can be continued, paid replies, assumptions, files granted."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import is_

from msgspec import structs

from scaffold.core.conversation import KeptTurn, Message, Reply
from scaffold.core.events import FilesGranted
from scaffold.core.ids import ActionId, AttemptId, RunId
from scaffold.core.model import Assumption, FileGrant, FileGrantor
from scaffold.store.driver.columns import JsonColumn, TimeSource, parse_time, read_struct, struct_columns
from scaffold.store.driver.connection import Connection, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.run.event_log import RunTableGateway

ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD_GRANT = """
INSERT INTO file_grant (action_id, position, path, granted_by, reason, created_at)
VALUES (:action_id, (SELECT COUNT(*) FROM file_grant WHERE action_id = :action_id), :path, :granted_by, :reason, :at)
ON CONFLICT (action_id, path, granted_by) DO NOTHING
RETURNING path
"""
GRANTS_OF_ACTION = "SELECT * FROM file_grant WHERE action_id = :action_id ORDER BY position"
GRANTS_OF_RUN = """
SELECT file_grant.* FROM file_grant JOIN action ON action.id = file_grant.action_id
WHERE action.run_id = :run_id ORDER BY action_id, file_grant.position
"""
ADD_ASSUMPTION = """
INSERT INTO assumption (run_id, position, action_id, attempt_id, question, assumed, created_at)
VALUES (:run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM assumption WHERE run_id = :run_id), :action_id,
        :attempt_id, :question, :assumed, :created_at)
ON CONFLICT (attempt_id, question) DO UPDATE SET assumed = excluded.assumed WHERE excluded.assumed <> ''
"""
ASSUMPTIONS_OF_RUN = "SELECT * FROM assumption WHERE run_id = :run_id ORDER BY position"
KEEP_TURN = """
INSERT INTO waiting_turn (attempt_id, turn, progress) VALUES (:attempt_id, :turn, :progress)
ON CONFLICT (attempt_id) DO UPDATE SET turn = excluded.turn, progress = excluded.progress
"""
KEEP_PROGRESS = "UPDATE waiting_turn SET progress = :progress WHERE attempt_id = :attempt_id"
GET_TURN = "SELECT turn, progress FROM waiting_turn WHERE attempt_id = :attempt_id"
IS_KEPT = "SELECT 1 FROM waiting_turn WHERE attempt_id = :attempt_id"
FORGET_TURNS = (
    "DELETE FROM kept_message WHERE scope IN (SELECT id FROM attempt WHERE action_id = :action_id)",
    "DELETE FROM waiting_turn WHERE attempt_id IN (SELECT id FROM attempt WHERE action_id = :action_id)",
)
TURN = JsonColumn[KeptTurn](KeptTurn)
KEEP_REPLY = """
INSERT INTO paid_reply (scope, request, reply) VALUES (:scope, :request, :reply)
ON CONFLICT (scope, request) DO UPDATE SET reply = excluded.reply
"""
FIND_REPLY = "SELECT reply FROM paid_reply WHERE scope = :scope AND request = :request"
FORGET_REPLIES = "DELETE FROM paid_reply WHERE scope = :scope"
STORED_MESSAGES = """
SELECT (SELECT MIN(seq) FROM kept_message WHERE scope = :scope) AS first,
       (SELECT MAX(seq) FROM kept_message WHERE scope = :scope) AS last
"""
ADD_MESSAGE = "INSERT INTO kept_message (scope, seq, body) VALUES (:scope, :seq, :body)"
FORGET_MESSAGES = "DELETE FROM kept_message WHERE scope = :scope"
MESSAGES = "SELECT body FROM kept_message WHERE scope = :scope ORDER BY seq"
MESSAGE = JsonColumn[Message](Message)
WHOLE_TURN = ""
"""Stands for the request in the row that has the whole turn of an agent whose calls must not be repeated."""
ATTEMPTS_OF_RUN = "SELECT id FROM attempt WHERE run_id = :run_id"
FORGET_RUN = (
    f"DELETE FROM kept_message WHERE scope IN ({ATTEMPTS_OF_RUN}) OR scope LIKE :run_id || ' %'",  # noqa: S608 - ours
    f"DELETE FROM waiting_turn WHERE attempt_id IN ({ATTEMPTS_OF_RUN})",  # noqa: S608 - ours
    """
    DELETE FROM paid_reply
    WHERE scope IN (SELECT id FROM action WHERE run_id = :run_id) OR scope LIKE :run_id || ' %'
    """,
)
REPLY = JsonColumn[Reply](Reply)


class FileGrants(RunTableGateway):
    """The grants of each action, oldest first."""

    def add(self, action_id: ActionId, paths: Sequence[str], *, by: FileGrantor, reason: str) -> None:
        """Add entries to the action's files; does nothing for those that the same grantor has granted before."""
        action = self._connection.require_row(ACTION, "action", action_id)
        given = {"action_id": action_id, "granted_by": by, "reason": reason, "at": self._now_text()}
        new = [path for path in paths if self._connection.write_returning(ADD_GRANT, path=path, **given)]
        if new:
            self._events.append(action["run_id"], FilesGranted(action["key"], tuple(new), by, reason))

    def for_action(self, action_id: ActionId) -> tuple[FileGrant, ...]:
        """Return the grants of the action."""
        return tuple(map(_read_grant, self._connection.rows(GRANTS_OF_ACTION, action_id=action_id)))

    def for_run(self, run_id: RunId) -> Mapping[ActionId, tuple[FileGrant, ...]]:
        """Return the grants of the run's actions; actions without any are left out."""
        by_action = groupby(self._connection.rows(GRANTS_OF_RUN, run_id=run_id), lambda row: row["action_id"])
        return {action_id: tuple(map(_read_grant, rows)) for action_id, rows in by_action}


class Assumptions(RunTableGateway):
    """The assumptions of each run, oldest first; of an attempt, the latest about each question."""

    def add(self, run_id: RunId, assumption: Assumption) -> None:
        """Store an assumption; one that says nothing replaces none."""
        self._connection.write(ADD_ASSUMPTION, run_id=run_id, **struct_columns(assumption))

    def for_run(self, run_id: RunId) -> tuple[Assumption, ...]:
        """Return the run's assumptions."""
        rows = self._connection.rows(ASSUMPTIONS_OF_RUN, run_id=run_id)
        return tuple(read_struct(Assumption, row) for row in rows)


class TurnMessages(TableGateway):
    """The messages of kept turns: one that has come further stores only what is new of it."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        super().__init__(connection, clock)
        self._kept: dict[str, tuple[int, Sequence[Message]]] = {}
        """The number of the first message that was last kept, and all of them."""

    def keep(self, scope: str, turn: KeptTurn) -> str | None:
        """Store the messages of a turn in place of earlier ones; return the rest of it as text."""
        (stored,) = self._connection.rows(STORED_MESSAGES, scope=scope)
        first, known = self._kept.get(scope, (0, ()))
        numbers = first, first + len(known) - 1
        # By identity, as the same conversation grows. The numbers of replaced messages do not come again: they differ
        # if a transaction was rolled back, or another process has kept the turn since.
        grown = len(known) <= len(turn.messages) and all(map(is_, known, turn.messages))
        if not grown or (stored["first"], stored["last"]) != numbers:
            self._connection.write(FORGET_MESSAGES, scope=scope)
            first, known = max(stored["last"] or 0, *numbers) + 1, ()
        bodies = map(MESSAGE.write, turn.messages[len(known) :])
        numbered = enumerate(bodies, first + len(known))
        self._connection.write_each(ADD_MESSAGE, ({"scope": scope, "seq": seq, "body": body} for seq, body in numbered))
        self._kept[scope] = first, turn.messages
        return TURN.write(structs.replace(turn, messages=()))

    def whole(self, scope: str, rest: str) -> KeptTurn:
        """Return the turn whose rest was stored elsewhere."""
        turn, rows = TURN.read(rest), self._connection.rows(MESSAGES, scope=scope)
        return structs.replace(turn, messages=tuple(MESSAGE.read(row["body"]) for row in rows)) if rows else turn

    def forget(self, scope: str) -> None:
        """Delete the messages of a turn."""
        self._kept.pop(scope, None)
        self._connection.write(FORGET_MESSAGES, scope=scope)


class KeptTurns(TableGateway):
    """At most one turn for each attempt; only those of attempts that the next one continues outlast their end."""

    def __init__(self, connection: Connection, clock: TimeSource, messages: TurnMessages) -> None:
        super().__init__(connection, clock)
        self._messages = messages

    def keep(self, attempt_id: AttemptId, turn: KeptTurn, progress: str = "") -> None:
        """Store the turn of an attempt, and how far its work was judged, in place of an earlier one."""
        rest = self._messages.keep(attempt_id, turn)
        self._connection.write(KEEP_TURN, attempt_id=attempt_id, turn=rest, progress=progress)

    def keep_progress(self, attempt_id: AttemptId, progress: str) -> None:
        """Store how far the work of the kept turn was judged."""
        self._connection.write(KEEP_PROGRESS, attempt_id=attempt_id, progress=progress)

    def get(self, attempt_id: AttemptId) -> KeptTurn | None:
        """Return the attempt's latest turn; None if it cannot be continued."""
        row = self._connection.row(GET_TURN, attempt_id=attempt_id)
        return None if row is None else self._messages.whole(attempt_id, row["turn"])

    def progress(self, attempt_id: AttemptId) -> str:
        """Return how far the work of that turn was judged; empty if it was not."""
        row = self._connection.row(GET_TURN, attempt_id=attempt_id)
        return "" if row is None else row["progress"]

    def is_kept(self, attempt_id: AttemptId) -> bool:
        """Return whether `get` returns a turn."""
        return self._connection.row(IS_KEPT, attempt_id=attempt_id) is not None

    def forget(self, action_id: ActionId) -> None:
        """Delete the turns of all attempts of the action: the next one begins anew."""
        for statement in FORGET_TURNS:
            self._connection.write(statement, action_id=action_id)


class KeptReplies(TableGateway):
    """Replies to requests for work that has not ended, by the scope of that work and a hash of the request."""

    def __init__(self, connection: Connection, clock: TimeSource, messages: TurnMessages) -> None:
        super().__init__(connection, clock)
        self._messages = messages

    def keep(self, scope: str, request: str, reply: Reply) -> None:
        """Store a reply."""
        self._connection.write(KEEP_REPLY, scope=scope, request=request, reply=REPLY.write(reply))

    def find(self, scope: str, request: str) -> Reply | None:
        """Return the reply to the same request for the same work; None if there is none."""
        row = self._connection.row(FIND_REPLY, scope=scope, request=request)
        return None if row is None else REPLY.read(row["reply"])

    def keep_turn(self, scope: str, turn: KeptTurn) -> None:
        """Store the whole turn of the work, in place of an earlier one."""
        rest = self._messages.keep(scope, turn)
        self._connection.write(KEEP_REPLY, scope=scope, request=WHOLE_TURN, reply=rest)

    def find_turn(self, scope: str) -> KeptTurn | None:
        """Return the whole turn of the work; None if none is kept."""
        row = self._connection.row(FIND_REPLY, scope=scope, request=WHOLE_TURN)
        return None if row is None else self._messages.whole(scope, row["reply"])

    def forget(self, scope: str) -> None:
        """Delete the replies for work that has ended."""
        self._messages.forget(scope)
        self._connection.write(FORGET_REPLIES, scope=scope)


def _read_grant(row: Row) -> FileGrant:
    return FileGrant(path=row["path"], by=row["granted_by"], reason=row["reason"], at=parse_time(row["created_at"]))
