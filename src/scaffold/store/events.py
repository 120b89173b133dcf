"""Events: the append-only story of each run."""

from scaffold.core.events import Event, Recorded
from scaffold.core.ids import RunId
from scaffold.core.ports import Clock
from scaffold.store.columns import EVENT, moment, stamp
from scaffold.store.connection import Connection
from scaffold.store.refusals import no_such

# The run's own counter, not a sequence of the database: its row lock makes numbers rise in the order of commits.
NEXT_SEQ = "UPDATE run SET last_seq = last_seq + 1 WHERE id = :run_id RETURNING last_seq"
APPEND = "INSERT INTO event (run_id, seq, at, body) VALUES (:run_id, :seq, :at, :body)"
SINCE = "SELECT seq, at, body FROM event WHERE run_id = :run_id AND seq > :seq ORDER BY seq LIMIT :limit"
LAST_SEQ = "SELECT last_seq FROM run WHERE id = :run_id"


class Events:
    """What happened in each run, numbered from 1 without gaps."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def append(self, run_id: RunId, event: Event) -> int:
        """Add an event at the end and return its number; StoreTrouble if there is no such run."""
        counted = self._connection.write(NEXT_SEQ, run_id=run_id)
        if not counted:
            raise no_such("run", run_id)
        seq: int = counted[0]["last_seq"]
        self._connection.write(APPEND, run_id=run_id, seq=seq, at=stamp(self._clock.now()), body=EVENT.write(event))
        return seq

    def since(self, run_id: RunId, seq: int, limit: int = 1000) -> tuple[Recorded, ...]:
        """Return the first `limit` events after number `seq` (0 for all), oldest first."""
        rows = self._connection.rows(SINCE, run_id=run_id, seq=seq, limit=limit)
        return tuple(Recorded(row["seq"], moment(row["at"]), EVENT.read(row["body"])) for row in rows)

    def last_seq(self, run_id: RunId) -> int:
        """Return the number of the run's latest event, 0 if there is none."""
        row = self._connection.row(LAST_SEQ, run_id=run_id)
        return 0 if row is None else int(row["last_seq"])
