"""Subagents: conversations with a parent, each with its task and outcome."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import StoreError
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.printable_text import utf8_safe
from scaffold.store.driver.columns import PROCESS, read_struct, usage_of
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

SubagentOutcome = Literal["success", "failure"]
SubagentEndStatus = Literal["success", "failure", "timeout", "cancelled"]
SubagentStatus = Literal["running", "success", "failure", "timeout", "cancelled"]

NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 AS number FROM subagent WHERE parent = :parent"
ADD = """
INSERT INTO subagent (id, parent, number, task, context, spec, timeout_s, status, started_at)
VALUES (:id, :parent, :number, :task, :context, :spec, :timeout_s, 'running', :at)
"""
SET_PROCESS = "UPDATE subagent SET process = :process WHERE id = :id"
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


class StoredSubagent(Struct, frozen=True, kw_only=True):
    """A subagent of a session; its conversation has the same id."""

    id: ConversationId
    """`SESSION/sub-1`."""
    parent: ConversationId
    number: int
    """From 1 in each session."""
    task: str
    context: str
    """Additional information from its parent; may be empty."""
    spec: str
    """Its configuration, as text in the format of the code that starts it."""
    model: str
    timeout_s: float
    """Time limit, not counting time spent waiting for a human."""
    status: SubagentStatus
    outcome: SubagentOutcome | None
    """The outcome it reported itself; None if it has not, or ended without a report."""
    result: str | None
    """Its final message, in full; None if there is none."""
    error: str | None
    process: ProcessIdentity | None
    """None if it was not started, or its parent died before storing it."""
    usage: Usage
    """The usage of all its requests so far."""
    started_at: datetime
    ended_at: datetime | None

    @property
    def name(self) -> str:
        """The name shown to people and models and used in cassettes: `sub-1`, unique in its session."""
        return subagent_name(self.number)


def subagent_name(number: int) -> str:
    """Return the name of a session's subagent with this number."""
    return f"sub-{number}"


class Subagents(TableGateway):
    """The subagents of all sessions; each ends once."""

    def next_number(self, parent: ConversationId) -> int:
        """Return the number for the session's next subagent."""
        return int(self._connection.rows(NUMBER, parent=parent)[0]["number"])

    def add(
        self,
        subagent_id: ConversationId,
        *,
        parent: ConversationId,
        number: int,
        task: str,
        context: str,
        spec: str,
        timeout_s: float,
    ) -> None:
        """Store a subagent before it is started; its conversation must exist."""
        self._connection.write(
            ADD,
            id=subagent_id,
            parent=parent,
            number=number,
            task=utf8_safe(task),
            context=utf8_safe(context),
            spec=spec,
            timeout_s=timeout_s,
            at=self._now_text(),
        )

    def started(self, subagent_id: ConversationId, process: ProcessIdentity) -> None:
        """Store the subagent's process."""
        self._connection.write(SET_PROCESS, id=subagent_id, process=PROCESS.write(process))

    def report(
        self, subagent_id: ConversationId, outcome: SubagentOutcome, *, result: str | None, error: str | None
    ) -> bool:
        """Store the outcome the subagent reports; return False, and change nothing, if it has already ended."""
        texts = {"result": result and utf8_safe(result), "error": error and utf8_safe(error)}
        return bool(self._connection.write_returning(REPORT, id=subagent_id, outcome=outcome, **texts))

    def end(self, subagent_id: ConversationId, status: SubagentEndStatus, *, error: str | None) -> bool:
        """End the subagent with its own report if there is one, else with `status`; return False if already ended."""
        at = self._now_text()
        error = error and utf8_safe(error)
        return bool(self._connection.write_returning(END, id=subagent_id, status=status, error=error, at=at))

    def get(self, subagent_id: ConversationId) -> StoredSubagent:
        """Return the subagent; raise StoreError if there is none with this id."""
        row = self._connection.row(GET, id=subagent_id)
        # Each is stored before it is started.
        if row is None:
            raise StoreError(f"there is no subagent {subagent_id!r}", "Only sessions start subagents.")
        return _read_subagent(row)

    def for_parent(self, parent: ConversationId) -> tuple[StoredSubagent, ...]:
        """Return the session's subagents, running and ended, in the order they were started."""
        return tuple(map(_read_subagent, self._connection.rows(OF_PARENT, parent=parent)))

    def running(self, parent: ConversationId) -> int:
        """Return how many of the session's subagents have not ended."""
        return int(self._connection.rows(RUNNING, parent=parent)[0]["running"])


def _read_subagent(row: Row) -> StoredSubagent:
    return read_struct(StoredSubagent, row, process=PROCESS.read(row["process"]), usage=usage_of(row))
