"""Intents: ref updates about to happen, recorded so that a crash in between can be resolved."""

from scaffold.core.ids import Commit, RunId
from scaffold.core.model import Intent
from scaffold.store.driver.columns import format_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import illegal_transition

ADD = """
INSERT INTO intent (id, run_id, position, attempt_id, fence, ref, old_sha, new_sha, commit_sha, status, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM intent WHERE run_id = :run_id), :attempt_id, :fence,
        :ref, :old_sha, :new_sha, :commit_sha, 'open', :at)
"""
GET = "SELECT * FROM intent WHERE id = :id"
RESOLVE = "UPDATE intent SET status = :status, resolved_at = :at WHERE id = :id AND status = 'open'"
RELOCATE = "UPDATE intent SET new_sha = :new_sha WHERE id = :id"
OPEN_OF_RUN = "SELECT * FROM intent WHERE run_id = :run_id AND status = 'open' ORDER BY position"
LAST_DONE = "SELECT * FROM intent WHERE run_id = :run_id AND status = 'done' ORDER BY position DESC LIMIT 1"


class Intents(TableGateway):
    """An intent is open until the ref is seen at its new commit (done) or known not to move there (dropped)."""

    def add(self, intent: Intent) -> None:
        """Store an intent before its ref update, in a durable transaction that also checks the run's fence."""
        self._connection.write(
            ADD,
            id=intent.id,
            run_id=intent.run_id,
            attempt_id=intent.attempt_id,
            fence=intent.fence,
            ref=intent.ref,
            old_sha=intent.old,
            new_sha=intent.new,
            commit_sha=intent.commit,
            at=format_time(self._clock.now()),
        )

    def settle(self, intent_id: str, *, done: bool) -> None:
        """Close an intent; safe to repeat, raises IllegalTransition if it was closed with the opposite result."""
        row = self._connection.require_row(GET, "intent", intent_id)
        status = "done" if done else "dropped"
        if row["status"] == "open":
            self._connection.compare_and_set(
                RESOLVE, "intent", intent_id, status=status, at=format_time(self._clock.now())
            )
        elif row["status"] != status:
            raise illegal_transition("intent", intent_id, row["status"], status)

    def open_of_run(self, run_id: RunId) -> tuple[Intent, ...]:
        """Return the run's open intents, oldest first."""
        return tuple(map(_intent, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def relocate_last(self, run_id: RunId, tip: Commit) -> None:
        """Replace the tip of the last landing: the branch was carried over to another base."""
        last = self.last_done(run_id)
        if last is not None:
            self._connection.write(RELOCATE, id=last.id, new_sha=tip)

    def last_done(self, run_id: RunId) -> Intent | None:
        """Return the run's intent that was carried out last; None if nothing has landed."""
        row = self._connection.row(LAST_DONE, run_id=run_id)
        return None if row is None else _intent(row)


def _intent(row: Row) -> Intent:
    return Intent(
        id=row["id"],
        run_id=row["run_id"],
        attempt_id=row["attempt_id"],
        fence=row["fence"],
        ref=row["ref"],
        old=row["old_sha"],
        new=row["new_sha"],
        commit=row["commit_sha"] or row["new_sha"],
    )
