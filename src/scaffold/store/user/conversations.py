"""Conversations and their messages; only one process at a time may write to a conversation."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from scaffold.core.conversation import Message, TodoList
from scaffold.core.errors import ConversationBusy, StoreError, UsageError
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.printable_text import utf8_safe
from scaffold.host.process_identity import is_alive
from scaffold.store.driver.columns import PROCESS, JsonColumn, read_struct, usage_columns, usage_of
from scaffold.store.driver.connection import ColumnValue, Row
from scaffold.store.driver.gateway import TableGateway

SET_VERSION = """
INSERT INTO seen_file (conversation_id, path, version, at) VALUES (:id, :path, :version, :at)
ON CONFLICT (conversation_id, path) DO UPDATE SET version = excluded.version, at = excluded.at
"""
DELETE_VERSION = "DELETE FROM seen_file WHERE conversation_id = :id AND path = :path"
VERSIONS = "SELECT path, version FROM seen_file WHERE conversation_id = :id ORDER BY at, path"
ADD_CONVERSATION = """
INSERT INTO conversation (id, parent, cwd, model, title, messages, input_tokens, cached_input_tokens, output_tokens,
                          cost_usd, requests, created_at, updated_at)
VALUES (:id, :parent, :cwd, :model, :title, 0, 0, 0, 0, 0.0, 0, :at, :at)
"""
GET = "SELECT * FROM conversation WHERE id = :id"
BY_PREFIX = """
SELECT * FROM conversation WHERE substr(id, 1, length(:text)) = :text AND parent IS NULL
ORDER BY updated_at DESC, id LIMIT 5
"""
LISTED = "SELECT * FROM conversation WHERE messages > 0 AND parent IS NULL ORDER BY updated_at DESC, id LIMIT :limit"
LISTED_IN = """
SELECT * FROM conversation WHERE cwd = :cwd AND messages > 0 AND parent IS NULL
ORDER BY updated_at DESC, id LIMIT :limit
"""
# A draft that a killed process has left is a message from now on.
CLAIM = """
UPDATE conversation SET owner = :owner, messages = (SELECT COUNT(*) FROM message WHERE conversation_id = :id)
WHERE id = :id
"""
RELEASE = "UPDATE conversation SET owner = NULL WHERE id = :id AND owner = :owner"
SWITCH_MODEL = "UPDATE conversation SET model = :model WHERE id = :id AND owner = :owner RETURNING messages"
SET_MODE = "UPDATE conversation SET mode = :mode WHERE id = :id AND owner = :owner RETURNING messages"
SET_EFFORT = "UPDATE conversation SET effort = :effort WHERE id = :id AND owner = :owner RETURNING messages"
SET_TODOS = "UPDATE conversation SET todos = :todos WHERE id = :id AND owner = :owner RETURNING messages"
SET_TITLE = """
UPDATE conversation SET title = CASE WHEN title = '' THEN :title ELSE title END WHERE id = :id AND owner = :owner
RETURNING messages
"""
# The sum of costs is unknown as soon as one of them is, as in `Usage.__add__`.
# The owner is part of the condition: a process that has lost the conversation changes nothing.
ADD_USAGE = """
UPDATE conversation SET messages = messages + :messages, input_tokens = input_tokens + :input_tokens,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens, output_tokens = output_tokens + :output_tokens,
       cost_usd = cost_usd + :cost_usd, requests = requests + :requests, updated_at = :at
WHERE id = :id AND owner = :owner RETURNING messages
"""
ADD_MESSAGE = """
INSERT INTO message (conversation_id, seq, at, body) VALUES (:id, :seq, :at, :body)
ON CONFLICT (conversation_id, seq) DO UPDATE SET at = excluded.at, body = excluded.body
"""
OWNED_MESSAGE_COUNT = "SELECT messages FROM conversation WHERE id = :id AND owner = :owner"
COMPACT = """
INSERT INTO compaction (conversation_id, after_seq, kept_from, summary, at)
VALUES (:id, :after_seq, :kept_from, :summary, :at)
ON CONFLICT (conversation_id, after_seq) DO UPDATE SET kept_from = excluded.kept_from, summary = excluded.summary,
                                                       at = excluded.at
"""
COMPACTION = "SELECT kept_from, summary FROM compaction WHERE conversation_id = :id ORDER BY after_seq DESC LIMIT 1"
MESSAGES = "SELECT body FROM message WHERE conversation_id = :id AND seq >= :seq ORDER BY seq"
LAST_MESSAGES = """
SELECT body FROM (SELECT seq, body FROM message WHERE conversation_id = :id ORDER BY seq DESC LIMIT :limit) AS newest
ORDER BY seq
"""
DELETE = "DELETE FROM conversation WHERE id = :id"
DELETE_IF_EMPTY = "DELETE FROM conversation WHERE id = :id AND messages = 0 AND owner IS NULL"
MESSAGE = JsonColumn[Message](Message)
TODOS = JsonColumn[TodoList](TodoList)


class SeenFileVersions(TableGateway):
    """What conversations know of files; a version is a text that only the tools understand."""

    def keep(self, conversation_id: ConversationId, versions: Mapping[str, str | None]) -> None:
        """Store the versions of files by absolute path; None forgets a file."""
        at = self._now_text()
        for path, version in versions.items():
            if version is None:
                self._connection.write(DELETE_VERSION, id=conversation_id, path=path)
            else:
                self._connection.write(SET_VERSION, id=conversation_id, path=path, version=version, at=at)

    def versions_in(self, conversation_id: ConversationId) -> Mapping[str, str]:
        """Return the versions by absolute path, those stored last at the end."""
        return {row["path"]: row["version"] for row in self._connection.rows(VERSIONS, id=conversation_id)}


class StoredConversation(Struct, frozen=True, kw_only=True):
    """One conversation, without its messages."""

    id: ConversationId
    cwd: str
    """The directory it was started in, as an absolute path."""
    model: str
    """Model string of the model that answers from now on."""
    title: str
    messages: int
    """How many messages are stored, from both sides, compacted ones included."""
    usage: Usage
    """The usage of all requests so far."""
    owner: ProcessIdentity | None
    """The process that has claimed it, alive or dead; None if released."""
    created_at: datetime
    updated_at: datetime


class ConversationState(Struct, frozen=True):
    """A conversation's state without its messages."""

    mode: str
    """As stored; may be a mode that only a newer program knows."""
    todos: TodoList
    effort: str
    """How much the model thinks, as the user chose it; empty if the settings say so."""


class Conversations(TableGateway):
    """A user's conversations. Only the process that claimed one may change it; others get ConversationBusy."""

    def begin(
        self, conversation_id: ConversationId, *, cwd: str, model: str, title: str, parent: ConversationId | None = None
    ) -> None:
        """Store a new, unclaimed conversation; `parent` is the session for a subagent's, None for the user's."""
        self._connection.write(
            ADD_CONVERSATION,
            id=conversation_id,
            parent=parent,
            cwd=utf8_safe(cwd),
            model=model,
            title=utf8_safe(title),
            at=self._now_text(),
        )

    def claim(self, conversation_id: ConversationId, me: ProcessIdentity) -> None:
        """Claim the conversation for the process `me`; raise ConversationBusy if another live process has it."""
        self._refuse_if_busy(conversation_id, me)
        self._connection.write(CLAIM, id=conversation_id, owner=PROCESS.write(me))

    def release(self, conversation_id: ConversationId, me: ProcessIdentity) -> None:
        """Release the conversation; does nothing if another process has claimed it."""
        self._connection.write(RELEASE, id=conversation_id, owner=PROCESS.write(me))

    def add(self, conversation_id: ConversationId, message: Message, usage: Usage, *, me: ProcessIdentity) -> None:
        """Store the next message and its usage."""
        at = self._now_text()
        seq = self._change_owned(ADD_USAGE, conversation_id, me, at=at, messages=1, **usage_columns(usage))
        self._connection.write(ADD_MESSAGE, id=conversation_id, seq=seq, at=at, body=MESSAGE.write(message))

    def draft(self, conversation_id: ConversationId, message: Message, *, me: ProcessIdentity) -> None:
        """Store what is the next message once its process has died; until then it is not counted."""
        rows = self._connection.rows(OWNED_MESSAGE_COUNT, id=conversation_id, owner=PROCESS.write(me))
        seq = self._owned_count(conversation_id, rows) + 1
        at = self._now_text()
        self._connection.write(ADD_MESSAGE, id=conversation_id, seq=seq, at=at, body=MESSAGE.write(message))

    def spend(self, conversation_id: ConversationId, usage: Usage, *, me: ProcessIdentity) -> None:
        """Store usage that no message came of."""
        at = self._now_text()
        self._change_owned(ADD_USAGE, conversation_id, me, at=at, messages=0, **usage_columns(usage))

    def compact(self, conversation_id: ConversationId, kept: int, summary: str, *, me: ProcessIdentity) -> None:
        """Replace all but the last `kept` messages with `summary` from now on; the stored messages stay."""
        rows = self._connection.rows(OWNED_MESSAGE_COUNT, id=conversation_id, owner=PROCESS.write(me))
        last = self._owned_count(conversation_id, rows)
        self._connection.write(
            COMPACT,
            id=conversation_id,
            after_seq=last,
            kept_from=last - kept + 1,
            summary=utf8_safe(summary),
            at=self._now_text(),
        )

    def switch_model(self, conversation_id: ConversationId, model: str, *, me: ProcessIdentity) -> None:
        """Change the model that answers from now on."""
        self._change_owned(SWITCH_MODEL, conversation_id, me, model=model)

    def set_title_if_empty(self, conversation_id: ConversationId, title: str, *, me: ProcessIdentity) -> None:
        """Set the title if there is none."""
        self._change_owned(SET_TITLE, conversation_id, me, title=utf8_safe(title))

    def keep_mode(self, conversation_id: ConversationId, mode: str, *, me: ProcessIdentity) -> None:
        """Store the mode of the conversation's agent."""
        self._change_owned(SET_MODE, conversation_id, me, mode=mode)

    def keep_effort(self, conversation_id: ConversationId, effort: str, *, me: ProcessIdentity) -> None:
        """Store how much the model thinks in this conversation."""
        self._change_owned(SET_EFFORT, conversation_id, me, effort=effort)

    def keep_todos(self, conversation_id: ConversationId, todos: TodoList, *, me: ProcessIdentity) -> None:
        """Store the agent's todo list, replacing the previous one."""
        self._change_owned(SET_TODOS, conversation_id, me, todos=TODOS.write(todos))

    def state(self, conversation_id: ConversationId) -> ConversationState:
        """Return the conversation's mode, todo list and effort."""
        row = self._require_conversation(conversation_id)
        return ConversationState(row["mode"], TODOS.read(row["todos"]), row["effort"])

    def forget(self, conversation_id: ConversationId) -> None:
        """Delete the conversation with its messages; raise ConversationBusy if a live process has it."""
        self._refuse_if_busy(conversation_id, None)
        self._connection.write(DELETE, id=conversation_id)

    def forget_if_empty(self, conversation_id: ConversationId) -> None:
        """Delete the conversation if it has no messages and no process has claimed it."""
        self._connection.write(DELETE_IF_EMPTY, id=conversation_id)

    def get(self, text: str) -> StoredConversation | None:
        """Return the conversation with the id `text`, or the only one whose id starts with it; None if there is none.

        Subagents' conversations are found by their full id only. Raises UsageError if several ids match.
        """
        exact = self._connection.row(GET, id=utf8_safe(text))
        rows = [exact] if exact else self._connection.rows(BY_PREFIX, text=utf8_safe(text))
        # To guess could continue, or delete, the wrong one.
        if len(rows) > 1:
            names = ", ".join(row["id"] for row in rows)
            raise UsageError(f"several conversations start with {text!r}: {names}", "Give one of the ids in full.")
        return _read_conversation(rows[0]) if rows else None

    def latest(self, cwd: str) -> StoredConversation | None:
        """Return the directory's most recently used conversation; None if there is none."""
        found = self.listed(cwd, limit=1)
        return found[0] if found else None

    def listed(self, cwd: str | None = None, *, limit: int = 20) -> tuple[StoredConversation, ...]:
        """Return the conversations of one directory, or of all if None; most recently used first.

        Conversations without messages and those of subagents are left out.
        """
        if cwd is None:
            rows = self._connection.rows(LISTED, limit=limit)
        else:
            rows = self._connection.rows(LISTED_IN, cwd=utf8_safe(cwd), limit=limit)
        return tuple(map(_read_conversation, rows))

    def load(self, conversation_id: ConversationId) -> tuple[str | None, tuple[Message, ...]]:
        """Return the summary of the compacted messages, None if there is none, and the messages after it."""
        self._require_conversation(conversation_id)
        compaction = self._connection.row(COMPACTION, id=conversation_id)
        summary, first = (None, 1) if compaction is None else (compaction["summary"], compaction["kept_from"])
        rows = self._connection.rows(MESSAGES, id=conversation_id, seq=first)
        return summary, tuple(MESSAGE.read(row["body"]) for row in rows)

    def messages(self, conversation_id: ConversationId, *, last: int | None = None) -> tuple[Message, ...]:
        """Return all messages, or the `last` ones, also those that a summary stands for."""
        self._require_conversation(conversation_id)
        if last is None:
            rows = self._connection.rows(MESSAGES, id=conversation_id, seq=1)
        else:
            rows = self._connection.rows(LAST_MESSAGES, id=conversation_id, limit=last)
        return tuple(MESSAGE.read(row["body"]) for row in rows)

    def _require_conversation(self, conversation_id: ConversationId) -> Row:
        row = self._connection.row(GET, id=conversation_id)
        if row is None:
            what = f"there is no conversation {conversation_id!r}"
            raise StoreError(what, "Continue this directory's latest with `ralph -c`, or start a new one.")
        return row

    def _refuse_if_busy(self, conversation_id: ConversationId, me: ProcessIdentity | None) -> None:
        owner = PROCESS.read(self._require_conversation(conversation_id)["owner"])
        # A dead owner left its claim behind when it was killed.
        if owner is not None and owner != me and is_alive(owner):
            raise _busy_error(conversation_id, owner)

    def _change_owned(
        self, statement: str, conversation_id: ConversationId, me: ProcessIdentity, **values: ColumnValue
    ) -> int:
        """Change the conversation if it is this process's; return the number of its messages."""
        rows = self._connection.write_returning(statement, id=conversation_id, owner=PROCESS.write(me), **values)
        return self._owned_count(conversation_id, rows)

    def _owned_count(self, conversation_id: ConversationId, rows: list[Row]) -> int:
        """Return the message count from `rows`, which is empty if this process does not own the conversation."""
        if rows:
            return int(rows[0]["messages"])
        raise _busy_error(conversation_id, PROCESS.read(self._require_conversation(conversation_id)["owner"]))


def _busy_error(conversation_id: ConversationId, owner: ProcessIdentity | None) -> ConversationBusy:
    reason = "it is not claimed" if owner is None else f"process {owner.pid} is using it"
    fix = "End that process, then repeat the command; or start a new conversation."
    return ConversationBusy(f"conversation {conversation_id!r} cannot be changed: {reason}", fix)


def _read_conversation(row: Row) -> StoredConversation:
    return read_struct(StoredConversation, row, usage=usage_of(row), owner=PROCESS.read(row["owner"]))
