"""How work reaches branches: the merge queue, ref updates about to happen, and moves by the user's commands."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, Commit, RunId
from scaffold.core.landing.branch_move import BranchMove, Intent
from scaffold.core.landing.queue_place import QueuePlace
from scaffold.core.states import PAUSED_BY_USER
from scaffold.store.driver.columns import TAKEN_COMMITS, JsonColumn, format_time, read_struct, struct_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import illegal_transition

SET_QUEUE = """
INSERT INTO merge_queue (run_id, fence, places) VALUES (:run_id, :fence, :places)
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, places = excluded.places
WHERE merge_queue.fence <= excluded.fence
"""
GET_QUEUE = "SELECT places FROM merge_queue WHERE run_id = :run_id"
# The last work of each action that conflicted with what had landed, and that is being done again, or can be.
DONE_AGAIN = """
SELECT attempt.action_id, action.key, attempt.head_sha, attempt.base_sha
FROM attempt JOIN action ON action.id = attempt.action_id JOIN goal ON goal.id = action.goal_id
WHERE attempt.run_id = :run_id AND attempt.outcome = 'conflict' AND attempt.head_sha IS NOT NULL
      AND (action.status IN ('running', 'verifying', 'landing') OR (action.status = 'pending' AND action.unmet = 0))
      AND (goal.status = 'active' OR (goal.status = 'paused' AND goal.reason <> :by_user))
      AND attempt.number = (
          SELECT MAX(number) FROM attempt AS other WHERE other.action_id = attempt.action_id AND other.status = 'ended')
ORDER BY attempt.queued_seq
"""
PLACES = JsonColumn[tuple[QueuePlace, ...]](tuple[QueuePlace, ...])
ADD_MOVE = """
INSERT INTO branch_move (id, run_id, position, purpose, branch, head_sha, old_sha, new_sha, action_id, commits, url,
                         status, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM branch_move WHERE run_id = :run_id), :purpose,
        :branch, :head_sha, :old_sha, :new_sha, :action_id, :commits, :url, 'open', :at)
"""
# Two commands may have seen the same open move; the one that saw the branch at its new commit is right.
SETTLE_MOVE = """
UPDATE branch_move SET status = :status, url = :url, resolved_at = :at
WHERE id = :id AND (status = 'open' OR (status = 'dropped' AND :status = 'done'))
"""
OPEN_MOVES = "SELECT * FROM branch_move WHERE run_id = :run_id AND status = 'open' ORDER BY position"
MOVES_OF_RUN = "SELECT * FROM branch_move WHERE run_id = :run_id ORDER BY position"
DONE_MOVES = "SELECT * FROM branch_move WHERE run_id = :run_id AND status = 'done' ORDER BY position"
WAS_REBASED = "SELECT id FROM branch_move WHERE run_id = :run_id AND purpose = 'rebase' AND status = 'done' LIMIT 1"
ADD_INTENT = """
INSERT INTO intent (id, run_id, position, attempt_id, fence, ref, old_sha, new_sha, commit_sha, status, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM intent WHERE run_id = :run_id), :attempt_id, :fence,
        :ref, :old_sha, :new_sha, :commit_sha, 'open', :at)
"""
GET_INTENT = "SELECT * FROM intent WHERE id = :id"
RESOLVE_INTENT = "UPDATE intent SET status = :status, resolved_at = :at WHERE id = :id AND status = 'open'"
RELOCATE_INTENT = "UPDATE intent SET new_sha = :new_sha WHERE id = :id"
OPEN_INTENTS = "SELECT * FROM intent WHERE run_id = :run_id AND status = 'open' ORDER BY position"
LAST_DONE_INTENT = "SELECT * FROM intent WHERE run_id = :run_id AND status = 'done' ORDER BY position DESC LIMIT 1"


class WorkDoneAgain(Struct, frozen=True):
    """An action, and its last work, which conflicted with what had landed."""

    action_id: ActionId
    key: ActionKey
    head: Commit
    base: Commit
    """The commit on which it was made."""


class MergeQueues(TableGateway):
    """What the owner of a run needs to order its candidates, and what people see of that order."""

    def set(self, run_id: RunId, places: Sequence[QueuePlace], *, fence: int) -> None:
        """Store the arrangement, unless a later owner has stored one."""
        self._connection.write(SET_QUEUE, run_id=run_id, fence=fence, places=PLACES.write(tuple(places)))

    def for_run(self, run_id: RunId) -> tuple[QueuePlace, ...]:
        """Return the places as last stored: some candidates may have landed since."""
        row = self._connection.row(GET_QUEUE, run_id=run_id)
        return () if row is None else PLACES.read(row["places"])

    def done_again(self, run_id: RunId) -> tuple[WorkDoneAgain, ...]:
        """Return the last work of actions that ended in a conflict, and that are being done again or can be.

        One whose action cannot begin is left out: what it lacks may be what waits for it. So is one whose goal the user
        paused.
        """
        rows = self._connection.rows(DONE_AGAIN, run_id=run_id, by_user=PAUSED_BY_USER)
        return tuple(WorkDoneAgain(row["action_id"], row["key"], row["head_sha"], row["base_sha"]) for row in rows)


class BranchMoves(TableGateway):
    """A move is open until its branch is seen at the new commit (done) or known not to move there (dropped)."""

    def add(self, move: BranchMove) -> None:
        """Store a move before it happens, in a durable transaction."""
        self._connection.write(
            ADD_MOVE,
            **struct_columns(
                move,
                head_sha=move.head,
                old_sha=move.old,
                new_sha=move.new,
                commits=TAKEN_COMMITS.write(move.commits),
                at=format_time(move.created_at),
            ),
        )

    def settle(self, move_id: str, *, done: bool, url: str = "") -> None:
        """Close a move, with the address of its pull request; safe to repeat. One that is done stays so."""
        status = "done" if done else "dropped"
        self._connection.write(SETTLE_MOVE, id=move_id, status=status, url=url, at=self._now_text())

    def open_of_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return the run's open moves, oldest first."""
        return tuple(map(_read_move, self._connection.rows(OPEN_MOVES, run_id=run_id)))

    def for_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return all moves of the run, also those that did not happen, oldest first."""
        return tuple(map(_read_move, self._connection.rows(MOVES_OF_RUN, run_id=run_id)))

    def done_of_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return the run's moves that happened, oldest first."""
        return tuple(map(_read_move, self._connection.rows(DONE_MOVES, run_id=run_id)))

    def was_rebased(self, run_id: RunId) -> bool:
        """Return whether the run was carried over to another base: work that was made before has the former one."""
        return self._connection.row(WAS_REBASED, run_id=run_id) is not None


class Intents(TableGateway):
    """An intent is open until the ref is seen at its new commit (done) or known not to move there (dropped)."""

    def add(self, intent: Intent) -> None:
        """Store an intent before its ref update, in a durable transaction that also checks the run's fence."""
        self._connection.write(
            ADD_INTENT,
            **struct_columns(intent, old_sha=intent.old, new_sha=intent.new, commit_sha=intent.commit),
            at=self._now_text(),
        )

    def settle(self, intent_id: str, *, done: bool) -> None:
        """Close an intent; safe to repeat, raises IllegalTransition if it was closed with the opposite result."""
        row = self._connection.require_row(GET_INTENT, "intent", intent_id)
        status = "done" if done else "dropped"
        if row["status"] == "open":
            self._connection.compare_and_set(RESOLVE_INTENT, "intent", intent_id, status=status, at=self._now_text())
        # Two owners that saw the same ref must have come to the same result.
        elif row["status"] != status:
            raise illegal_transition("intent", intent_id, row["status"], status)

    def open_of_run(self, run_id: RunId) -> tuple[Intent, ...]:
        """Return the run's open intents, oldest first."""
        return tuple(map(_read_intent, self._connection.rows(OPEN_INTENTS, run_id=run_id)))

    def relocate_last(self, run_id: RunId, tip: Commit) -> None:
        """Replace the tip of the last landing: the branch was carried over to another base."""
        last = self.last_done(run_id)
        if last is not None:
            self._connection.write(RELOCATE_INTENT, id=last.id, new_sha=tip)

    def last_done(self, run_id: RunId) -> Intent | None:
        """Return the run's intent that was carried out last; None if nothing has landed."""
        row = self._connection.row(LAST_DONE_INTENT, run_id=run_id)
        return None if row is None else _read_intent(row)


def _read_intent(row: Row) -> Intent:
    return read_struct(Intent, row, old=row["old_sha"], new=row["new_sha"], commit=row["commit_sha"])


def _read_move(row: Row) -> BranchMove:
    commits = TAKEN_COMMITS.read(row["commits"])
    return read_struct(BranchMove, row, head=row["head_sha"], old=row["old_sha"], new=row["new_sha"], commits=commits)
