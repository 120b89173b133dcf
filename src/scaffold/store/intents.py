"""Intents: ref updates that are about to happen, so that a crash in between can be read back."""

from scaffold.core.ids import RunId
from scaffold.core.model import Intent
from scaffold.store.columns import Calendar, stamp
from scaffold.store.connection import Connection, Row
from scaffold.store.refusals import illegal_move

ADD = """
INSERT INTO intent (id, run_id, position, attempt_id, fence, ref, old_sha, new_sha, status, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM intent WHERE run_id = :run_id), :attempt_id, :fence,
        :ref, :old_sha, :new_sha, 'open', :at)
"""
GET = "SELECT * FROM intent WHERE id = :id"
SETTLE = "UPDATE intent SET status = :status, settled_at = :at WHERE id = :id AND status = 'open'"
OPEN_OF_RUN = "SELECT * FROM intent WHERE run_id = :run_id AND status = 'open' ORDER BY position"


class Intents:
    """Each is open until the ref was seen at its new place (done) or is known never to go there (dropped)."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def add(self, intent: Intent) -> None:
        """Store an intent before its effect; commit it with `durable=True`, and check the run's fence beside it."""
        self._connection.write(
            ADD,
            id=intent.id,
            run_id=intent.run_id,
            attempt_id=intent.attempt_id,
            fence=intent.fence,
            ref=intent.ref,
            old_sha=intent.old,
            new_sha=intent.new,
            at=stamp(self._clock.now()),
        )

    def settle(self, intent_id: str, *, done: bool) -> None:
        """Close an intent; saying the same twice changes nothing, saying the opposite is IllegalMove."""
        row = self._connection.held(GET, "intent", intent_id)
        status = "done" if done else "dropped"
        if row["status"] == "open":
            self._connection.swap(SETTLE, "intent", intent_id, status=status, at=stamp(self._clock.now()))
        elif row["status"] != status:
            raise illegal_move("intent", intent_id, row["status"], status)

    def open_of_run(self, run_id: RunId) -> tuple[Intent, ...]:
        """Return the run's intents whose end is not known, oldest first."""
        return tuple(map(_intent, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))


def _intent(row: Row) -> Intent:
    return Intent(
        id=row["id"],
        run_id=row["run_id"],
        attempt_id=row["attempt_id"],
        fence=row["fence"],
        ref=row["ref"],
        old=row["old_sha"],
        new=row["new_sha"],
    )
