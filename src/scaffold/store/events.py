"""Events: the append-only story of each run."""

from collections.abc import Iterable

from scaffold.core.events import Event, Recorded
from scaffold.core.ids import RunId
from scaffold.store.columns import EVENT, Calendar, moment, stamp
from scaffold.store.connection import Connection, Value
from scaffold.store.refusals import no_such

# The run's own counter, not a sequence of the database: only one transaction writes at a time, and so numbers rise
# in the order of commits.
LAST_SEQ = "SELECT last_seq FROM run WHERE id = :run_id"
COUNT = "UPDATE run SET last_seq = :last_seq WHERE id = :run_id"
APPEND = "INSERT INTO event (run_id, seq, at, body) VALUES (:run_id, :seq, :at, :body)"
SINCE = "SELECT seq, at, body FROM event WHERE run_id = :run_id AND seq > :seq ORDER BY seq LIMIT :limit"


class Events:
    """What happened in each run, numbered from 1 without gaps; those of a transaction are written at its end."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock
        self._last_seqs: dict[RunId, int] = {}
        self._appended: list[dict[str, Value]] = []
        connection.keep(self)

    def append(self, run_id: RunId, event: Event) -> int:
        """Add an event at the end and return its number; StoreTrouble if there is no such run."""
        return self.append_all(run_id, (event,))

    def append_all(self, run_id: RunId, events: Iterable[Event]) -> int:
        """Add events that happened together at the end, in order, and return the number of the last one."""
        self._connection.require_transaction()
        seq = self.next_seq(run_id) - 1
        at = stamp(self._clock.now())
        for event in events:
            seq += 1
            self._appended.append({"run_id": run_id, "seq": seq, "at": at, "body": EVENT.write(event)})
        self._last_seqs[run_id] = seq
        return seq

    def next_seq(self, run_id: RunId) -> int:
        """Return the number that the transaction's next event of the run will have; StoreTrouble if there is none."""
        known = self._last_seqs.get(run_id)
        if known is None:
            row = self._connection.row(LAST_SEQ, run_id=run_id)
            if row is None:
                raise no_such("run", run_id)
            known = int(row["last_seq"])
        return known + 1

    def since(self, run_id: RunId, seq: int, limit: int = 1000) -> tuple[Recorded, ...]:
        """Return the first `limit` events after number `seq` (0 for all), oldest first."""
        self.write_down()
        rows = self._connection.rows(SINCE, run_id=run_id, seq=seq, limit=limit)
        return tuple(Recorded(row["seq"], moment(row["at"]), EVENT.read(row["body"])) for row in rows)

    def last_seq(self, run_id: RunId) -> int:
        """Return the number of the run's latest event, 0 if there is none."""
        self.write_down()
        row = self._connection.row(LAST_SEQ, run_id=run_id)
        return 0 if row is None else int(row["last_seq"])

    def write_down(self) -> None:
        """Write the transaction's events so far."""
        if self._appended:
            self._connection.write_each(APPEND, self._appended)
            counts = self._last_seqs.items()
            self._connection.write_each(COUNT, [{"run_id": run_id, "last_seq": seq} for run_id, seq in counts])
            self._appended.clear()

    def forget(self) -> None:
        """Drop what was appended: the transaction is over."""
        self._appended.clear()
        self._last_seqs.clear()
