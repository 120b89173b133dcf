"""Branch moves by commands of the user, recorded before they happen so that a crash in between can be resolved."""

from scaffold.core.ids import RunId
from scaffold.core.landing.branch_move import BranchMove
from scaffold.store.driver.columns import TAKEN_COMMITS, format_time, parse_optional_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO branch_move (id, run_id, position, purpose, branch, head_sha, old_sha, new_sha, action_id, commits, url,
                         status, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM branch_move WHERE run_id = :run_id), :purpose,
        :branch, :head_sha, :old_sha, :new_sha, :action_id, :commits, :url, 'open', :at)
"""
# Two commands may have seen the same open move; the one that saw the branch at its new commit is right.
SETTLE = """
UPDATE branch_move SET status = :status, url = :url, resolved_at = :at
WHERE id = :id AND (status = 'open' OR (status = 'dropped' AND :status = 'done'))
"""
OPEN_OF_RUN = "SELECT * FROM branch_move WHERE run_id = :run_id AND status = 'open' ORDER BY position"
OF_RUN = "SELECT * FROM branch_move WHERE run_id = :run_id ORDER BY position"
DONE_OF_RUN = "SELECT * FROM branch_move WHERE run_id = :run_id AND status = 'done' ORDER BY position"
WAS_REBASED = """
SELECT id FROM branch_move WHERE run_id = :run_id AND purpose = 'rebase' AND status = 'done' LIMIT 1
"""


class BranchMoves(TableGateway):
    """A move is open until its branch is seen at the new commit (done) or known not to move there (dropped)."""

    def add(self, move: BranchMove) -> None:
        """Store a move before it happens, in a durable transaction."""
        self._connection.write(
            ADD,
            id=move.id,
            run_id=move.run_id,
            purpose=move.purpose,
            branch=move.branch,
            head_sha=move.head,
            old_sha=move.old,
            new_sha=move.new,
            action_id=move.action_id,
            commits=TAKEN_COMMITS.write(move.commits),
            url=move.url,
            at=format_time(move.created_at),
        )

    def settle(self, move_id: str, *, done: bool, url: str = "") -> None:
        """Close a move, with the address of its pull request; safe to repeat. One that is done stays so."""
        status = "done" if done else "dropped"
        self._connection.write(SETTLE, id=move_id, status=status, url=url, at=format_time(self._clock.now()))

    def open_of_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return the run's open moves, oldest first."""
        return tuple(map(_move, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def of_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return all moves of the run, also those that did not happen, oldest first."""
        return tuple(map(_move, self._connection.rows(OF_RUN, run_id=run_id)))

    def done_of_run(self, run_id: RunId) -> tuple[BranchMove, ...]:
        """Return the run's moves that happened, oldest first."""
        return tuple(map(_move, self._connection.rows(DONE_OF_RUN, run_id=run_id)))

    def was_rebased(self, run_id: RunId) -> bool:
        """Return whether the run was carried over to another base: work that was made before has the former one."""
        return self._connection.row(WAS_REBASED, run_id=run_id) is not None


def _move(row: Row) -> BranchMove:
    return BranchMove(
        id=row["id"],
        run_id=row["run_id"],
        purpose=row["purpose"],
        branch=row["branch"],
        head=row["head_sha"],
        old=row["old_sha"],
        new=row["new_sha"],
        action_id=row["action_id"],
        commits=TAKEN_COMMITS.read(row["commits"]),
        url=row["url"],
        created_at=parse_time(row["created_at"]),
        resolved_at=parse_optional_time(row["resolved_at"]),
    )
