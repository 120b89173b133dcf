"""Facts: assertions with the evidence that shows them. Showing or withdrawing one adjusts who waits for it."""

from collections.abc import Collection, Sequence
from typing import Literal

from scaffold.core.events import FactShown
from scaffold.core.ids import Assertion, Commit, GoalId, RunId
from scaffold.core.model import Evidence, Fact
from scaffold.core.states import FactState
from scaffold.store.columns import EVIDENCE, NAMES, Calendar, stamp
from scaffold.store.connection import Connection, Row, Value
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
PATHS_OF_RUN = """
SELECT fact.goal_id, fact.assertion, fact.paths FROM fact JOIN goal ON goal.id = fact.goal_id
WHERE goal.run_id = :run_id AND fact.state = 'holds' ORDER BY goal.position, fact.assertion
"""
# A stale fact whose provider is at work again is settled: that one will show it, or not.
UNSETTLED = """
SELECT fact.* FROM fact WHERE goal_id = :goal_id AND state = 'stale' AND EXISTS (
    SELECT 1 FROM effect JOIN action ON action.id = effect.action_id
    WHERE effect.goal_id = fact.goal_id AND effect.assertion = fact.assertion AND action.status = 'completed')
ORDER BY assertion
"""
GOAL = "SELECT run_id, name FROM goal WHERE id = :id"
SERVE_NEEDERS = """
UPDATE action SET unmet = unmet - 1
WHERE id IN (SELECT action_id FROM precondition WHERE goal_id = :goal_id AND assertion = :assertion)
  AND NOT EXISTS (SELECT 1 FROM fact WHERE goal_id = :goal_id AND assertion = :assertion AND state = 'holds')
"""
LEAVE_NEEDERS = """
UPDATE action SET unmet = unmet + 1
WHERE id IN (SELECT action_id FROM precondition WHERE goal_id = :goal_id AND assertion = :assertion)
"""


class Facts:
    """The facts of each goal; what has no fact that holds counts as false."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
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
        self.show_all(goal_id, (assertion,), commit=commit, weak=weak, paths=paths, evidence=evidence)

    def show_all(
        self,
        goal_id: GoalId,
        assertions: Sequence[Assertion],
        *,
        commit: Commit,
        weak: bool,
        paths: Sequence[str],
        evidence: Sequence[Evidence],
    ) -> None:
        """Make all the assertions hold at `commit`, each with this evidence; newer evidence replaces older."""
        shown: dict[str, Value] = {
            "commit_sha": commit,
            "weak": int(weak),
            "paths": NAMES.write(tuple(paths)),
            "evidence": EVIDENCE.write(tuple(evidence)),
            "at": stamp(self._clock.now()),
        }
        facts = [{"goal_id": goal_id, "assertion": assertion} for assertion in dict.fromkeys(assertions)]
        self._connection.write_each(SERVE_NEEDERS, facts)
        self._connection.write_each(SHOW, [fact | shown for fact in facts])
        self._tell(goal_id, assertions, "holds", commit)

    def withdraw(self, goal_id: GoalId, assertion: Assertion, state: Literal["stale", "refuted"]) -> None:
        """Make a fact stop holding; nothing happens if it is in that state already or was never shown."""
        row = self._connection.row(GET, goal_id=goal_id, assertion=assertion)
        if row is None or row["state"] == state:
            return
        at = stamp(self._clock.now())
        self._connection.write(WITHDRAW, goal_id=goal_id, assertion=assertion, state=state, at=at)
        if row["state"] == "holds":
            self._connection.write(LEAVE_NEEDERS, goal_id=goal_id, assertion=assertion)
        self._tell(goal_id, (assertion,), state, row["commit_sha"])

    def of_goal(self, goal_id: GoalId) -> tuple[Fact, ...]:
        """Return the goal's facts in whatever state, by name."""
        return tuple(map(_fact, self._connection.rows(OF_GOAL, goal_id=goal_id)))

    def holding(self, goal_id: GoalId) -> frozenset[Assertion]:
        """Return the assertions that hold in the goal."""
        return frozenset(row["assertion"] for row in self._connection.rows(HOLDING, goal_id=goal_id))

    def resting_on(self, run_id: RunId, paths: Collection[str]) -> tuple[Fact, ...]:
        """Return the facts that hold in any goal of the run and depend on one of `paths`; by goal, then by name."""
        changed = frozenset(paths)
        touched = [
            row
            for row in self._connection.rows(PATHS_OF_RUN, run_id=run_id)
            if not changed.isdisjoint(NAMES.read(row["paths"]))
        ]
        found = (self._connection.row(GET, goal_id=row["goal_id"], assertion=row["assertion"]) for row in touched)
        return tuple(_fact(row) for row in found if row is not None)

    def unsettled(self, goal_id: GoalId) -> tuple[Fact, ...]:
        """Return the goal's stale facts that nobody has looked at again yet: what showed them counts as done."""
        return tuple(map(_fact, self._connection.rows(UNSETTLED, goal_id=goal_id)))

    def lacking(self, goal_id: GoalId, assertions: Sequence[Assertion]) -> tuple[Assertion, ...]:
        """Return those of `assertions` that do not hold in the goal, in order."""
        return tuple(assertion for assertion in assertions if not self._holds(goal_id, assertion))

    def count_holding(self, run_id: RunId) -> int:
        """Return how many facts hold in all goals of the run."""
        return int(self._connection.rows(COUNT_HOLDING, run_id=run_id)[0]["facts"])

    def _holds(self, goal_id: GoalId, assertion: Assertion) -> bool:
        row = self._connection.row(GET, goal_id=goal_id, assertion=assertion)
        return row is not None and row["state"] == "holds"

    def _tell(self, goal_id: GoalId, assertions: Sequence[Assertion], state: FactState, commit: Commit) -> None:
        goal = self._connection.held(GOAL, "goal", goal_id)
        told = (FactShown(goal["name"], assertion, state, commit) for assertion in assertions)
        self._events.append_all(goal["run_id"], told)


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
