"""Conversations: what was said, as it was said; one process at a time goes on with one."""

import json
import re
from datetime import datetime

import msgspec
from msgspec import Struct

from scaffold.core.conversation import Message
from scaffold.core.errors import ConversationBusy, StoreTrouble, UsageProblem
from scaffold.core.ids import ConversationId
from scaffold.core.legible import legible
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.todo import TodoList
from scaffold.host.identity import alive
from scaffold.store.columns import PROCESS, Calendar, Json, moment, stamp, usage_columns, usage_of
from scaffold.store.connection import Connection, Row, Value

BEGIN = """
INSERT INTO conversation (id, parent, cwd, model, title, messages, input_tokens, cached_input_tokens, output_tokens,
                          cost_usd, requests, created_at, updated_at)
VALUES (:id, :parent, :cwd, :model, :title, 0, 0, 0, 0, 0.0, 0, :at, :at)
"""
GET = "SELECT * FROM conversation WHERE id = :id"
BY_PREFIX = """
SELECT * FROM conversation WHERE substr(id, 1, length(:text)) = :text AND parent IS NULL
ORDER BY updated_at DESC, id LIMIT 5
"""
LISTED = """
SELECT * FROM conversation WHERE messages > 0 AND parent IS NULL ORDER BY updated_at DESC, id LIMIT :limit
"""
LISTED_IN = """
SELECT * FROM conversation WHERE cwd = :cwd AND messages > 0 AND parent IS NULL
ORDER BY updated_at DESC, id LIMIT :limit
"""
CLAIM = "UPDATE conversation SET owner = :owner WHERE id = :id"
RELEASE = "UPDATE conversation SET owner = NULL WHERE id = :id AND owner = :owner"
SWITCH_MODEL = "UPDATE conversation SET model = :model WHERE id = :id AND owner = :owner RETURNING messages"
KEEP_MODE = "UPDATE conversation SET mode = :mode WHERE id = :id AND owner = :owner RETURNING messages"
KEEP_TODOS = "UPDATE conversation SET todos = :todos WHERE id = :id AND owner = :owner RETURNING messages"
ENTITLE = """
UPDATE conversation SET title = CASE WHEN title = '' THEN :title ELSE title END WHERE id = :id AND owner = :owner
RETURNING messages
"""
# A sum of costs is unknown as soon as one of them is, as in `Usage.__add__`.
COUNT = """
UPDATE conversation SET messages = messages + 1, input_tokens = input_tokens + :input_tokens,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens, output_tokens = output_tokens + :output_tokens,
       cost_usd = cost_usd + :cost_usd, requests = requests + :requests, updated_at = :at
WHERE id = :id AND owner = :owner RETURNING messages
"""
ADD = "INSERT INTO message (conversation_id, seq, at, body) VALUES (:id, :seq, :at, :body)"
STANDING = "SELECT messages FROM conversation WHERE id = :id AND owner = :owner"
COMPACT = """
INSERT INTO compaction (conversation_id, after_seq, kept_from, summary, at)
VALUES (:id, :after_seq, :kept_from, :summary, :at)
ON CONFLICT (conversation_id, after_seq) DO UPDATE SET kept_from = excluded.kept_from, summary = excluded.summary,
                                                       at = excluded.at
"""
COMPACTION = """
SELECT kept_from, summary FROM compaction WHERE conversation_id = :id ORDER BY after_seq DESC LIMIT 1
"""
MESSAGES = "SELECT body FROM message WHERE conversation_id = :id AND seq >= :seq ORDER BY seq"
FORGET = "DELETE FROM conversation WHERE id = :id"
FORGET_IF_EMPTY = "DELETE FROM conversation WHERE id = :id AND messages = 0 AND owner IS NULL"

MESSAGE = Json[Message](Message)
TODOS = Json[TodoList](TodoList)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class StoredConversation(Struct, frozen=True, kw_only=True):
    """One conversation, without what was said."""

    id: ConversationId
    cwd: str
    """Where it was begun: an absolute path."""
    model: str
    """The model string of who answers from now on."""
    title: str
    messages: int
    """How many messages were kept, by both sides, compacted or not."""
    usage: Usage
    """Of all requests so far."""
    owner: ProcessIdentity | None
    """Who goes on with it, or did when it died."""
    created_at: datetime
    updated_at: datetime


class Standing(Struct, frozen=True):
    """How a conversation stands besides what was said in it."""

    mode: str
    """As it was kept: one that a newer program knows is possible."""
    todos: TodoList


class Conversations:
    """The conversations of a user. Only who claimed one may change it: others get ConversationBusy."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def begin(
        self,
        conversation_id: ConversationId,
        *,
        cwd: str,
        model: str,
        title: str,
        parent: ConversationId | None = None,
    ) -> None:
        """Store a new conversation, which nobody has claimed; `parent` is whose subagent has it, None for a user."""
        self._connection.write(
            BEGIN,
            id=conversation_id,
            parent=parent,
            cwd=legible(cwd),
            model=model,
            title=legible(title),
            at=stamp(self._clock.now()),
        )

    def claim(self, conversation_id: ConversationId, me: ProcessIdentity) -> None:
        """Make it this process's own; ConversationBusy if another one that is alive has it."""
        self._refuse_if_busy(conversation_id, me)
        self._connection.write(CLAIM, id=conversation_id, owner=PROCESS.write(me))

    def release(self, conversation_id: ConversationId, me: ProcessIdentity) -> None:
        """Let others go on with it; nothing changes if it is somebody else's by now."""
        self._connection.write(RELEASE, id=conversation_id, owner=PROCESS.write(me))

    def add(self, conversation_id: ConversationId, message: Message, usage: Usage, *, me: ProcessIdentity) -> None:
        """Keep the next message and what it cost."""
        at = stamp(self._clock.now())
        rows = self._connection.write_returning(
            COUNT,
            id=conversation_id,
            owner=PROCESS.write(me),
            at=at,
            **usage_columns(usage),
        )
        seq = self._own(conversation_id, rows)
        self._connection.write(ADD, id=conversation_id, seq=seq, at=at, body=_body(message))

    def compact(self, conversation_id: ConversationId, kept: int, summary: str, *, me: ProcessIdentity) -> None:
        """Let `summary` and the last `kept` messages stand for all that was said so far; nothing is deleted."""
        rows = self._connection.rows(STANDING, id=conversation_id, owner=PROCESS.write(me))
        last = self._own(conversation_id, rows)
        self._connection.write(
            COMPACT,
            id=conversation_id,
            after_seq=last,
            kept_from=last - kept + 1,
            summary=legible(summary),
            at=stamp(self._clock.now()),
        )

    def switch_model(self, conversation_id: ConversationId, model: str, *, me: ProcessIdentity) -> None:
        """Let another model answer from now on."""
        rows = self._connection.write_returning(SWITCH_MODEL, id=conversation_id, owner=PROCESS.write(me), model=model)
        self._own(conversation_id, rows)

    def entitle(self, conversation_id: ConversationId, title: str, *, me: ProcessIdentity) -> None:
        """Give a conversation without a title this one."""
        rows = self._connection.write_returning(
            ENTITLE, id=conversation_id, owner=PROCESS.write(me), title=legible(title)
        )
        self._own(conversation_id, rows)

    def keep_mode(self, conversation_id: ConversationId, mode: str, *, me: ProcessIdentity) -> None:
        """Keep which mode its agent is in."""
        rows = self._connection.write_returning(KEEP_MODE, id=conversation_id, owner=PROCESS.write(me), mode=mode)
        self._own(conversation_id, rows)

    def keep_todos(self, conversation_id: ConversationId, todos: TodoList, *, me: ProcessIdentity) -> None:
        """Keep what its agent has to do, in place of what was kept before."""
        rows = self._connection.write_returning(
            KEEP_TODOS, id=conversation_id, owner=PROCESS.write(me), todos=TODOS.write(todos)
        )
        self._own(conversation_id, rows)

    def standing(self, conversation_id: ConversationId) -> Standing:
        """Return its mode and its list of todos."""
        row = self._held(conversation_id)
        return Standing(row["mode"], TODOS.read(row["todos"]))

    def forget(self, conversation_id: ConversationId) -> None:
        """Delete the conversation and all that was said in it; ConversationBusy if a living process has it."""
        self._refuse_if_busy(conversation_id, None)
        self._connection.write(FORGET, id=conversation_id)

    def forget_if_empty(self, conversation_id: ConversationId) -> None:
        """Delete the conversation if nothing was said in it and nobody has it."""
        self._connection.write(FORGET_IF_EMPTY, id=conversation_id)

    def get(self, text: str) -> StoredConversation | None:
        """Return the conversation whose id is, or alone begins with, `text`; None if there is none.

        A subagent's is only found by its whole id. UsageProblem if several begin with it.
        """
        exact = self._connection.row(GET, id=legible(text))
        rows = [exact] if exact else self._connection.rows(BY_PREFIX, text=legible(text))
        if len(rows) > 1:
            names = ", ".join(row["id"] for row in rows)
            raise UsageProblem(f"several conversations begin with {text!r}: {names}", "Name one of them in full.")
        return _conversation(rows[0]) if rows else None

    def latest(self, cwd: str) -> StoredConversation | None:
        """Return the conversation of that directory that was gone on with last, None if there is none."""
        found = self.listed(cwd, limit=1)
        return found[0] if found else None

    def listed(self, cwd: str | None = None, *, limit: int = 20) -> tuple[StoredConversation, ...]:
        """Return conversations of one directory, or of all; what was gone on with last comes first.

        Those in which nothing was said yet, and those of subagents, are left out.
        """
        if cwd is None:
            rows = self._connection.rows(LISTED, limit=limit)
        else:
            rows = self._connection.rows(LISTED_IN, cwd=legible(cwd), limit=limit)
        return tuple(map(_conversation, rows))

    def load(self, conversation_id: ConversationId) -> tuple[str | None, tuple[Message, ...]]:
        """Return the summary of what was compacted, None if nothing was, and the messages it does not stand for."""
        self._held(conversation_id)
        compaction = self._connection.row(COMPACTION, id=conversation_id)
        summary, first = (None, 1) if compaction is None else (compaction["summary"], compaction["kept_from"])
        rows = self._connection.rows(MESSAGES, id=conversation_id, seq=first)
        return summary, tuple(MESSAGE.read(row["body"]) for row in rows)

    def _held(self, conversation_id: ConversationId) -> Row:
        row = self._connection.row(GET, id=conversation_id)
        if row is None:
            what = f"there is no conversation {conversation_id!r}"
            raise StoreTrouble(what, "Go on with this directory's latest, `ralph -c`, or begin a new one.")
        return row

    def _refuse_if_busy(self, conversation_id: ConversationId, me: ProcessIdentity | None) -> None:
        owner = PROCESS.read(self._held(conversation_id)["owner"])
        if owner is not None and owner != me and alive(owner):
            raise _busy(conversation_id, owner)

    def _own(self, conversation_id: ConversationId, rows: list[Row]) -> int:
        """Return how many messages there are; `rows` is empty if the conversation is not this process's own."""
        if rows:
            return int(rows[0]["messages"])
        raise _busy(conversation_id, PROCESS.read(self._held(conversation_id)["owner"]))


def _busy(conversation_id: ConversationId, owner: ProcessIdentity | None) -> ConversationBusy:
    who = "nobody claimed it" if owner is None else f"process {owner.pid} goes on with it"
    fix = "End that one, then repeat the command; or begin a new conversation."
    return ConversationBusy(f"conversation {conversation_id!r} is not yours to change: {who}", fix)


def _conversation(row: Row) -> StoredConversation:
    return StoredConversation(
        id=row["id"],
        cwd=row["cwd"],
        model=row["model"],
        title=row["title"],
        messages=row["messages"],
        usage=usage_of(row),
        owner=PROCESS.read(row["owner"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
    )


def _body(message: Message) -> Value:
    r"""Return a message as JSON; what UTF-8 cannot carry is written as `\udcNN`, as the model sees it."""
    try:
        return MESSAGE.write(message)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        return LONE_SURROGATE.sub(lambda lone: rf"\\u{ord(lone[0]):04x}", text)
