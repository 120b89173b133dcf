"""Subagents: conversations with a parent, each with the task it was given and how it ended."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import StoreTrouble
from scaffold.core.ids import ConversationId
from scaffold.core.legible import legible
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.store.columns import PROCESS, Calendar, moment, moment_if_any, stamp, usage_of
from scaffold.store.connection import Connection, Row

Outcome = Literal["success", "failure"]
Ending = Literal["success", "failure", "timeout", "cancelled"]
Status = Literal["running", "success", "failure", "timeout", "cancelled"]

NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 AS number FROM subagent WHERE parent = :parent"
ADD = """
INSERT INTO subagent (id, parent, number, task, context, commission, timeout_s, status, started_at)
VALUES (:id, :parent, :number, :task, :context, :commission, :timeout_s, 'running', :at)
"""
STARTED = "UPDATE subagent SET process = :process WHERE id = :id"
REPORT = """
UPDATE subagent SET outcome = :outcome, result = :result, error = :error WHERE id = :id AND status = 'running'
RETURNING id
"""
END = """
UPDATE subagent SET status = COALESCE(outcome, :status), error = CASE WHEN outcome IS NULL THEN :error ELSE error END,
                    ended_at = :at
WHERE id = :id AND status = 'running' RETURNING id
"""
SELECT = """
SELECT subagent.*, conversation.model, conversation.input_tokens, conversation.cached_input_tokens,
       conversation.output_tokens, conversation.cost_usd, conversation.requests
FROM subagent JOIN conversation ON conversation.id = subagent.id
"""
GET = f"{SELECT} WHERE subagent.id = :id"
OF_PARENT = f"{SELECT} WHERE subagent.parent = :parent ORDER BY subagent.number"
RUNNING = "SELECT COUNT(*) AS running FROM subagent WHERE parent = :parent AND status = 'running'"


class Subagent(Struct, frozen=True, kw_only=True):
    """One subagent of a session; its conversation has the same id."""

    id: ConversationId
    """`SESSION/sub-1`."""
    parent: ConversationId
    number: int
    """From 1 in each session."""
    task: str
    context: str
    """What its parent told it besides; may be empty."""
    commission: str
    """How it is to work, as text of whoever starts it."""
    model: str
    timeout_s: float
    """What it may take, time in which a human was asked not counted."""
    status: Status
    outcome: Outcome | None
    """What it reported itself; None if it came to no end of its own, or not yet."""
    result: str | None
    """Its last words, whole; None if there are none."""
    error: str | None
    process: ProcessIdentity | None
    """None if it was not started, or its parent died before it could write that down."""
    usage: Usage
    """Of all its requests so far."""
    started_at: datetime
    ended_at: datetime | None

    @property
    def name(self) -> str:
        """Return what people, models and cassettes call it: `sub-1`, unique in its session."""
        return name_of(self.number)


def name_of(number: int) -> str:
    """Return the name of a session's subagent of this number."""
    return f"sub-{number}"


class Subagents:
    """The subagents of all sessions; each ends once."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def next_number(self, parent: ConversationId) -> int:
        """Return the number that the session's next subagent gets."""
        return int(self._connection.rows(NUMBER, parent=parent)[0]["number"])

    def add(
        self,
        subagent_id: ConversationId,
        *,
        parent: ConversationId,
        number: int,
        task: str,
        context: str,
        commission: str,
        timeout_s: float,
    ) -> None:
        """Store a subagent that is about to be started; its conversation is there already."""
        self._connection.write(
            ADD,
            id=subagent_id,
            parent=parent,
            number=number,
            task=legible(task),
            context=legible(context),
            commission=commission,
            timeout_s=timeout_s,
            at=stamp(self._clock.now()),
        )

    def started(self, subagent_id: ConversationId, process: ProcessIdentity) -> None:
        """Write down which process it is."""
        self._connection.write(STARTED, id=subagent_id, process=PROCESS.write(process))

    def report(self, subagent_id: ConversationId, outcome: Outcome, *, result: str | None, error: str | None) -> bool:
        """Take a subagent's own word on how it did; False if it counts as ended already, and nothing changes."""
        told = {"result": result and legible(result), "error": error and legible(error)}
        return bool(self._connection.write_returning(REPORT, id=subagent_id, outcome=outcome, **told))

    def end(self, subagent_id: ConversationId, status: Ending, *, error: str | None) -> bool:
        """Have it ended: as it reported itself, if it did, else as said here; False if it ended before."""
        at = stamp(self._clock.now())
        error = error and legible(error)
        return bool(self._connection.write_returning(END, id=subagent_id, status=status, error=error, at=at))

    def get(self, subagent_id: ConversationId) -> Subagent:
        """Return a subagent; StoreTrouble if there is none of this id."""
        row = self._connection.row(GET, id=subagent_id)
        if row is None:
            raise StoreTrouble(f"there is no subagent {subagent_id!r}", "Sessions start them by themselves.")
        return _subagent(row)

    def of_parent(self, parent: ConversationId) -> tuple[Subagent, ...]:
        """Return the session's subagents, running and ended, in the order they were started."""
        return tuple(map(_subagent, self._connection.rows(OF_PARENT, parent=parent)))

    def running(self, parent: ConversationId) -> int:
        """Return how many of the session's subagents have not ended."""
        return int(self._connection.rows(RUNNING, parent=parent)[0]["running"])


def _subagent(row: Row) -> Subagent:
    return Subagent(
        id=row["id"],
        parent=row["parent"],
        number=row["number"],
        task=row["task"],
        context=row["context"],
        commission=row["commission"],
        model=row["model"],
        timeout_s=row["timeout_s"],
        status=row["status"],
        outcome=row["outcome"],
        result=row["result"],
        error=row["error"],
        process=PROCESS.read(row["process"]),
        usage=usage_of(row),
        started_at=moment(row["started_at"]),
        ended_at=moment_if_any(row["ended_at"]),
    )
