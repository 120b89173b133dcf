"""Events: the append-only history of each run, and the base of the gateways that record them."""

from collections.abc import Iterable

from scaffold.core.events import Event, NoticeRaised, StoredEvent
from scaffold.core.ids import RunId
from scaffold.store.driver.columns import EVENT, TimeSource, format_time, parse_time
from scaffold.store.driver.connection import ColumnValue, Connection
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import not_found

# A counter of the run, not a database sequence: only one transaction writes at a time, so numbers increase in commit
# order.
LAST_SEQ = "SELECT last_seq FROM run WHERE id = :run_id"
# What happens in a run makes it the one touched last; a counter, because clocks are set back.
SET_LAST_SEQ = "UPDATE run SET last_seq = :last_seq, touched = (SELECT MAX(touched) + 1 FROM run) WHERE id = :run_id"
APPEND = "INSERT INTO event (run_id, seq, at, body) VALUES (:run_id, :seq, :at, :body)"
# The condition on the start of the body is that of the index `event_notice`.
HAS_NOTICE = """
SELECT 1 FROM event
WHERE run_id = :run_id AND substr(body, 1, 23) = '{"type":"notice_raised"' AND body = :body LIMIT 1
"""
SINCE = "SELECT seq, at, body FROM event WHERE run_id = :run_id AND seq > :seq ORDER BY seq LIMIT :limit"


class Events:
    """The events of each run, numbered from 1 without gaps; a transaction's events are written at its end."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        self._connection = connection
        self._clock = clock
        self._last_seqs: dict[RunId, int] = {}
        self._appended: list[dict[str, ColumnValue]] = []
        connection.keep(self)

    def append(self, run_id: RunId, event: Event) -> int:
        """Append an event and return its number; raise StoreError if there is no such run."""
        return self.append_all(run_id, (event,))

    def append_all(self, run_id: RunId, events: Iterable[Event]) -> int:
        """Append events in order, all with the same time, and return the last one's number."""
        # At once: the events themselves are written at its end, too late to name the caller.
        self._connection.require_transaction()
        seq = self.next_seq(run_id) - 1
        at = format_time(self._clock.now())
        for event in events:
            seq += 1
            self._appended.append({"run_id": run_id, "seq": seq, "at": at, "body": EVENT.write(event)})
        self._last_seqs[run_id] = seq
        return seq

    def next_seq(self, run_id: RunId) -> int:
        """Return the number of the run's next event in this transaction; raise StoreError if there is no such run."""
        # The stored number is only written at the end of the transaction, so it lags behind within one.
        known = self._last_seqs.get(run_id)
        if known is None:
            row = self._connection.row(LAST_SEQ, run_id=run_id)
            if row is None:
                raise not_found("run", run_id)
            known = int(row["last_seq"])
        return known + 1

    def since(self, run_id: RunId, seq: int, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Return the first `limit` events after number `seq` (0 for all), oldest first."""
        self.flush()
        rows = self._connection.rows(SINCE, run_id=run_id, seq=seq, limit=limit)
        return tuple(StoredEvent(row["seq"], parse_time(row["at"]), EVENT.read(row["body"])) for row in rows)

    def has_notice(self, run_id: RunId, notice: NoticeRaised) -> bool:
        """Return whether the run has this notice; reads no other events."""
        self.flush()
        return self._connection.row(HAS_NOTICE, run_id=run_id, body=EVENT.write(notice)) is not None

    def last_seq(self, run_id: RunId) -> int:
        """Return the number of the run's latest event; 0 if there is none."""
        self.flush()
        row = self._connection.row(LAST_SEQ, run_id=run_id)
        return 0 if row is None else int(row["last_seq"])

    def flush(self) -> None:
        """Write the transaction's events so far."""
        if self._appended:
            self._connection.write_each(APPEND, self._appended)
            counts = self._last_seqs.items()
            self._connection.write_each(SET_LAST_SEQ, [{"run_id": run_id, "last_seq": seq} for run_id, seq in counts])
            self._appended.clear()

    def forget(self) -> None:
        """Drop unwritten events: the transaction is over."""
        self._appended.clear()
        self._last_seqs.clear()


class RunTableGateway(TableGateway):
    """A gateway whose changes are recorded in `events`, in the same transaction."""

    def __init__(self, connection: Connection, clock: TimeSource, events: Events) -> None:
        super().__init__(connection, clock)
        self._events = events
