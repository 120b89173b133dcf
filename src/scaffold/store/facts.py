"""Facts: assertions with the evidence that shows them. Showing or withdrawing one adjusts who waits for it."""

from collections.abc import Sequence
from typing import Literal

from scaffold.core.events import FactShown
from scaffold.core.ids import Assertion, Commit, GoalId, RunId
from scaffold.core.model import Evidence, Fact
from scaffold.core.ports import Clock
from scaffold.core.states import FactState
from scaffold.store.columns import EVIDENCE, NAMES, stamp
from scaffold.store.connection import Connection, Row
from scaffold.store.events import Events

SHOW = """
INSERT INTO fact (goal_id, assertion, state, commit_sha, weak, paths, evidence, updated_at)
VALUES (:goal_id, :assertion, 'holds', :commit_sha, :weak, :paths, :evidence, :at)
ON CONFLICT (goal_id, assertion) DO UPDATE
SET state = 'holds', commit_sha = excluded.commit_sha, weak = excluded.weak, paths = excluded.paths,
    evidence = excluded.evidence, updated_at = excluded.updated_at
"""
GET = "SELECT * FROM fact WHERE goal_id = :goal_id AND assertion = :assertion"
WITHDRAW = "UPDATE fact SET state = :state, updated_at = :at WHERE goal_id = :goal_id AND assertion = :assertion"
OF_GOAL = "SELECT * FROM fact WHERE goal_id = :goal_id ORDER BY assertion"
HOLDING = "SELECT assertion FROM fact WHERE goal_id = :goal_id AND state = 'holds'"
COUNT_HOLDING = """
SELECT COUNT(*) AS facts FROM fact JOIN goal ON goal.id = fact.goal_id
WHERE goal.run_id = :run_id AND fact.state = 'holds'
"""
GOAL = "SELECT run_id, name FROM goal WHERE id = :id"
SHIFT_NEEDERS = """
UPDATE action SET unmet = unmet + :step
WHERE id IN (SELECT action_id FROM precondition WHERE goal_id = :goal_id AND assertion = :assertion)
"""


class Facts:
    """The facts of each goal; what has no fact that holds counts as false."""

    def __init__(self, connection: Connection, clock: Clock, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def show(
        self,
        goal_id: GoalId,
        assertion: Assertion,
        *,
        commit: Commit,
        weak: bool,
        paths: Sequence[str],
        evidence: Sequence[Evidence],
    ) -> None:
        """Make the assertion hold at `commit`; newer evidence replaces older."""
        held = self._holds(goal_id, assertion)
        self._connection.write(
            SHOW,
            goal_id=goal_id,
            assertion=assertion,
            commit_sha=commit,
            weak=int(weak),
            paths=NAMES.write(tuple(paths)),
            evidence=EVIDENCE.write(tuple(evidence)),
            at=stamp(self._clock.now()),
        )
        if not held:
            self._connection.write(SHIFT_NEEDERS, goal_id=goal_id, assertion=assertion, step=-1)
        self._tell(goal_id, assertion, "holds", commit)

    def withdraw(self, goal_id: GoalId, assertion: Assertion, state: Literal["stale", "refuted"]) -> None:
        """Make a fact stop holding; nothing happens if it is in that state already or was never shown."""
        row = self._connection.row(GET, goal_id=goal_id, assertion=assertion)
        if row is None or row["state"] == state:
            return
        at = stamp(self._clock.now())
        self._connection.write(WITHDRAW, goal_id=goal_id, assertion=assertion, state=state, at=at)
        if row["state"] == "holds":
            self._connection.write(SHIFT_NEEDERS, goal_id=goal_id, assertion=assertion, step=1)
        self._tell(goal_id, assertion, state, row["commit_sha"])

    def of_goal(self, goal_id: GoalId) -> tuple[Fact, ...]:
        """Return the goal's facts in whatever state, by name."""
        return tuple(map(_fact, self._connection.rows(OF_GOAL, goal_id=goal_id)))

    def holding(self, goal_id: GoalId) -> frozenset[Assertion]:
        """Return the assertions that hold in the goal."""
        return frozenset(row["assertion"] for row in self._connection.rows(HOLDING, goal_id=goal_id))

    def lacking(self, goal_id: GoalId, assertions: Sequence[Assertion]) -> tuple[Assertion, ...]:
        """Return those of `assertions` that do not hold in the goal, in order."""
        return tuple(assertion for assertion in assertions if not self._holds(goal_id, assertion))

    def count_holding(self, run_id: RunId) -> int:
        """Return how many facts hold in all goals of the run."""
        return int(self._connection.rows(COUNT_HOLDING, run_id=run_id)[0]["facts"])

    def _holds(self, goal_id: GoalId, assertion: Assertion) -> bool:
        row = self._connection.row(GET, goal_id=goal_id, assertion=assertion)
        return row is not None and row["state"] == "holds"

    def _tell(self, goal_id: GoalId, assertion: Assertion, state: FactState, commit: Commit) -> None:
        goal = self._connection.held(GOAL, "goal", goal_id)
        self._events.append(goal["run_id"], FactShown(goal["name"], assertion, state, commit))


def _fact(row: Row) -> Fact:
    return Fact(
        goal_id=row["goal_id"],
        assertion=row["assertion"],
        state=row["state"],
        commit=row["commit_sha"],
        weak=bool(row["weak"]),
        paths=NAMES.read(row["paths"]),
        evidence=EVIDENCE.read(row["evidence"]),
    )
