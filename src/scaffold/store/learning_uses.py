"""Which learnings each attempt was given, and what became of it."""

from collections.abc import Iterable, Mapping, Sequence

from scaffold.core.ids import AttemptId
from scaffold.core.learning import LearningMoment, LearningUse
from scaffold.core.states import COUNTED_FAILURES, AttemptOutcome
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO learning_use (attempt_id, learning_id, given, moment, at)
VALUES (:attempt_id, :learning_id, :given, :moment, :at)
ON CONFLICT (attempt_id, learning_id) DO NOTHING
"""
CARRY = """
INSERT INTO learning_use (attempt_id, learning_id, given, moment, at)
SELECT :to_id, learning_id, given, moment, at FROM learning_use WHERE attempt_id = :from_id
ON CONFLICT (attempt_id, learning_id) DO NOTHING
"""
OF_ATTEMPT = "SELECT learning_id FROM learning_use WHERE attempt_id = :attempt_id ORDER BY learning_id"
# A step's end says nothing of the work, and its compound is one piece of work. What the user has undone did not help.
ALL = """
SELECT learning_use.*, attempt.run_id, attempt.outcome, EXISTS (
    SELECT 1 FROM branch_move WHERE branch_move.purpose = 'revert' AND branch_move.status = 'done'
                              AND branch_move.run_id = attempt.run_id AND branch_move.head_sha = attempt.head_sha
) AS reverted
FROM learning_use JOIN attempt ON attempt.id = learning_use.attempt_id
"""
IN_ORDER = " ORDER BY learning_use.at, learning_use.attempt_id"
OF_LEARNING = f"{ALL} WHERE learning_use.learning_id = :id AND attempt.kind <> 'step'{IN_ORDER}"
OF_WORKSPACE = """
SELECT learning_use.learning_id, learning_use.given
FROM learning_use JOIN attempt ON attempt.id = learning_use.attempt_id
WHERE attempt.workspace = :name AND attempt.workspace <> '' ORDER BY learning_use.at DESC, learning_use.attempt_id DESC
"""
SUCCESS: frozenset[AttemptOutcome] = frozenset({"landed", "recorded"})


class LearningUses(TableGateway):
    """The learnings of attempts. What counts as help is computed from how attempts ended, never stored."""

    def add(
        self, attempt_id: AttemptId, moment: LearningMoment, *, given: Iterable[str], withheld: Iterable[str]
    ) -> None:
        """Record what an attempt was given, and what it goes without; the first decision about a learning stays."""
        shared = {"attempt_id": attempt_id, "moment": moment, "at": format_time(self._clock.now())}
        rows = [{**shared, "learning_id": each, "given": 1} for each in given]
        rows += [{**shared, "learning_id": each, "given": 0} for each in withheld]
        self._connection.write_each(ADD, rows)

    def carry(self, earlier: AttemptId, later: AttemptId) -> None:
        """Record for an attempt that continues an earlier one what that was given."""
        self._connection.write(CARRY, from_id=earlier, to_id=later)

    def of_attempt(self, attempt_id: AttemptId) -> frozenset[str]:
        """Return the ids of the learnings that were given to the attempt, or withheld from it."""
        rows = self._connection.rows(OF_ATTEMPT, attempt_id=attempt_id)
        return frozenset(row["learning_id"] for row in rows)

    def decided_in(self, workspace: str) -> Mapping[str, bool]:
        """Return which learnings were first given (True) or withheld in a shared worktree; its work is one."""
        return {row["learning_id"]: bool(row["given"]) for row in self._connection.rows(OF_WORKSPACE, name=workspace)}

    def of_learnings(self, learning_ids: Sequence[str]) -> tuple[LearningUse, ...]:
        """Return the uses of these learnings, oldest first for each; those of steps are left out."""
        return tuple(_use(row) for each in learning_ids for row in self._connection.rows(OF_LEARNING, id=each))


def _use(row: Row) -> LearningUse:
    return LearningUse(
        learning=row["learning_id"],
        run=row["run_id"],
        at=parse_time(row["at"]),
        given=bool(row["given"]),
        moment=row["moment"],
        helped=_helped(row),
    )


def _helped(row: Row) -> bool | None:
    if row["outcome"] in SUCCESS:
        return not row["reverted"]
    return False if row["outcome"] in COUNTED_FAILURES else None
