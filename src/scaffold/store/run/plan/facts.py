"""Facts: proven assertions with their evidence. Each change adjusts the `unmet` counts of dependent actions."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from scaffold.core.events import FactStateChanged
from scaffold.core.ids import Assertion, Commit, GoalId, RunId
from scaffold.core.model import Evidence, Fact, orders_only
from scaffold.core.proof.contract import Doubt
from scaffold.core.states import FactState
from scaffold.store.driver.columns import DOUBTS, EVIDENCE, NAMES
from scaffold.store.driver.connection import ColumnValue, Row
from scaffold.store.run.event_log import RunTableGateway

SET_HOLDS = """
INSERT INTO fact (goal_id, assertion, state, commit_sha, paths, evidence, doubts, reviewed, updated_at)
VALUES (:goal_id, :assertion, 'holds', :commit_sha, :paths, :evidence, :doubts, :reviewed, :at)
ON CONFLICT (goal_id, assertion) DO UPDATE
SET state = 'holds', commit_sha = excluded.commit_sha, paths = excluded.paths, evidence = excluded.evidence,
    doubts = excluded.doubts, reviewed = excluded.reviewed, updated_at = excluded.updated_at
"""
GET = "SELECT * FROM fact WHERE goal_id = :goal_id AND assertion = :assertion"
AMONG = "SELECT * FROM fact WHERE goal_id = :goal_id AND assertion IN ({wanted}) ORDER BY assertion"
HOLDING_AMONG = "SELECT assertion FROM fact WHERE goal_id = :goal_id AND assertion IN ({wanted}) AND state = 'holds'"
SET_STATE = "UPDATE fact SET state = :state, updated_at = :at WHERE goal_id = :goal_id AND assertion = :assertion"
OF_GOAL = "SELECT * FROM fact WHERE goal_id = :goal_id ORDER BY assertion"
HOLDING = "SELECT assertion FROM fact WHERE goal_id = :goal_id AND state = 'holds'"
ADD_PATH = """
INSERT INTO fact_path (run_id, checksum, goal_id, assertion) VALUES (:run_id, :checksum, :goal_id, :assertion)
ON CONFLICT (run_id, checksum, goal_id, assertion) DO NOTHING
"""
HOLDING_BY_CHECKSUM = """
SELECT goal.position, fact.*
FROM fact_path JOIN fact ON fact.goal_id = fact_path.goal_id AND fact.assertion = fact_path.assertion
JOIN goal ON goal.id = fact.goal_id
WHERE fact_path.run_id = :run_id AND fact_path.checksum IN ({wanted}) AND fact.state = 'holds'
"""
MOST_AT_ONCE = 500
"""How many names or checksums one statement looks for."""
# If its provider is not completed, a stale fact needs no check: the provider will prove it again, or fail to. While
# what its provider builds on does not hold, a check would say nothing: it is due once that holds again. An action
# builds on its own preconditions and on those of its compounds. `CROSS JOIN` makes SQLite begin with the stale facts;
# otherwise it reads the effects of all actions.
UNCHECKED_STALE = """
WITH RECURSIVE provider (id, above) AS (
    SELECT action.id, action.id FROM goal CROSS JOIN fact CROSS JOIN effect CROSS JOIN action
    WHERE {scope} AND fact.goal_id = goal.id AND fact.state = 'stale'
          AND effect.goal_id = fact.goal_id AND effect.assertion = fact.assertion
          AND action.id = effect.action_id AND action.status = 'completed' AND action.kind = 'primitive'
    UNION
    SELECT provider.id, action.parent_id FROM provider JOIN action ON action.id = provider.above
    WHERE action.parent_id IS NOT NULL)
SELECT fact.* FROM fact JOIN goal ON goal.id = fact.goal_id
WHERE {scope} AND fact.state = 'stale' AND EXISTS (
    SELECT 1 FROM effect WHERE effect.goal_id = fact.goal_id AND effect.assertion = fact.assertion
      AND effect.action_id IN (SELECT provider.id FROM provider)
      AND NOT EXISTS (
        SELECT 1 FROM provider JOIN precondition ON precondition.action_id = provider.above
        LEFT JOIN fact AS need
          ON need.goal_id = precondition.goal_id AND need.assertion = precondition.assertion AND need.state = 'holds'
        WHERE provider.id = effect.action_id AND need.assertion IS NULL))
ORDER BY goal.position, fact.assertion
"""
UNCHECKED_STALE_OF_GOAL = UNCHECKED_STALE.format(scope="goal.id = :goal_id")
UNCHECKED_STALE_OF_RUN = UNCHECKED_STALE.format(scope="goal.run_id = :run_id")
GOAL = "SELECT run_id, name FROM goal WHERE id = :id"
DECREMENT_UNMET = """
UPDATE action SET unmet = unmet - 1
WHERE id IN (SELECT action_id FROM precondition WHERE goal_id = :goal_id AND assertion = :assertion)
  AND NOT EXISTS (SELECT 1 FROM fact WHERE goal_id = :goal_id AND assertion = :assertion AND state = 'holds')
"""
INCREMENT_UNMET = """
UPDATE action SET unmet = unmet + 1
WHERE id IN (SELECT action_id FROM precondition WHERE goal_id = :goal_id AND assertion = :assertion)
"""


class Facts(RunTableGateway):
    """The facts of each goal; an assertion without a fact that holds counts as false."""

    def record(
        self,
        goal_id: GoalId,
        assertion: Assertion,
        *,
        commit: Commit,
        paths: Sequence[str],
        evidence: Sequence[Evidence],
        doubts: Sequence[Doubt] = (),
        reviewed: bool = False,
    ) -> None:
        """Make the assertion hold at `commit`; newer evidence replaces older."""
        self.record_all(
            goal_id, (assertion,), commit=commit, paths=paths, evidence=evidence, doubts=doubts, reviewed=reviewed
        )

    def record_all(
        self,
        goal_id: GoalId,
        assertions: Sequence[Assertion],
        *,
        commit: Commit,
        paths: Sequence[str],
        evidence: Sequence[Evidence],
        doubts: Sequence[Doubt] = (),
        reviewed: bool = False,
    ) -> None:
        """Make all assertions hold at `commit`, each with the same evidence; newer evidence replaces older."""
        columns: dict[str, ColumnValue] = {
            "commit_sha": commit,
            "paths": NAMES.write(tuple(paths)),
            "evidence": EVIDENCE.write(tuple(evidence)),
            "doubts": DOUBTS.write(tuple(doubts)),
            "reviewed": int(reviewed),
            "at": self._now_text(),
        }
        # Without duplicates, each of which would lower the counts of `unmet` once more.
        assertions = tuple(dict.fromkeys(assertions))
        facts: list[dict[str, ColumnValue]] = [{"goal_id": goal_id, "assertion": each} for each in assertions]
        # Before the facts are written: the statement passes over facts that hold already, so none counts twice.
        self._connection.write_each(DECREMENT_UNMET, facts)
        self._connection.write_each(SET_HOLDS, [fact | columns for fact in facts])
        run_id = self._connection.require_row(GOAL, "goal", goal_id)["run_id"]
        # Rows of earlier evidence stay: the fact itself says whether it depends on a path.
        found_by = [{"run_id": run_id, "checksum": each} for each in _path_checksums(paths)]
        self._connection.write_each(ADD_PATH, [fact | each for fact in facts for each in found_by])
        self._append_events(goal_id, assertions, "holds", commit, only_orders=orders_only(evidence))

    def invalidate(self, goal_id: GoalId, assertion: Assertion, state: Literal["stale", "refuted"]) -> None:
        """Mark a fact as stale or refuted; does nothing if it already is, or if there is no such fact."""
        row = self._connection.row(GET, goal_id=goal_id, assertion=assertion)
        if row is None or row["state"] == state:
            return
        at = self._now_text()
        self._connection.write(SET_STATE, goal_id=goal_id, assertion=assertion, state=state, at=at)
        # Going from stale to refuted changes no count: the fact counted as unmet before.
        if row["state"] == "holds":
            self._connection.write(INCREMENT_UNMET, goal_id=goal_id, assertion=assertion)
        only_orders = orders_only(EVIDENCE.read(row["evidence"]))
        self._append_events(goal_id, (assertion,), state, row["commit_sha"], only_orders=only_orders)

    def for_goal(self, goal_id: GoalId) -> tuple[Fact, ...]:
        """Return the goal's facts in any state, by name."""
        return tuple(map(_read_fact, self._connection.rows(OF_GOAL, goal_id=goal_id)))

    def for_assertions(self, goal_id: GoalId, assertions: Iterable[Assertion]) -> tuple[Fact, ...]:
        """Return the goal's facts of these assertions in any state, by name; reads no others."""
        return tuple(map(_read_fact, self._rows_among(AMONG, sorted({*assertions}), goal_id=goal_id)))

    def holding(self, goal_id: GoalId) -> frozenset[Assertion]:
        """Return the assertions that hold in the goal."""
        return frozenset(row["assertion"] for row in self._connection.rows(HOLDING, goal_id=goal_id))

    def depending_on(self, run_id: RunId, paths: Collection[str]) -> tuple[Fact, ...]:
        """Return the facts of the run that hold and depend on one of `paths`, by goal, then by name."""
        changed = frozenset(paths)
        found = {
            (row["position"], row["goal_id"], row["assertion"]): row
            for row in self._rows_among(HOLDING_BY_CHECKSUM, _path_checksums(changed), run_id=run_id)
            if not changed.isdisjoint(NAMES.read(row["paths"]))
        }
        return tuple(_read_fact(found[place]) for place in sorted(found))

    def unchecked_stale(self, goal_id: GoalId) -> tuple[Fact, ...]:
        """Return the goal's stale facts that still need a check, i.e. whose provider counts as completed."""
        return tuple(map(_read_fact, self._connection.rows(UNCHECKED_STALE_OF_GOAL, goal_id=goal_id)))

    def unchecked_stale_of_run(self, run_id: RunId) -> tuple[Fact, ...]:
        """Return the stale facts of all goals of the run that still need a check, by goal, then by name."""
        return tuple(map(_read_fact, self._connection.rows(UNCHECKED_STALE_OF_RUN, run_id=run_id)))

    def lacking(self, goal_id: GoalId, assertions: Sequence[Assertion]) -> tuple[Assertion, ...]:
        """Return those of `assertions` that do not hold in the goal, in order."""
        holding = {row["assertion"] for row in self._rows_among(HOLDING_AMONG, assertions, goal_id=goal_id)}
        return tuple(each for each in assertions if each not in holding)

    def _rows_among(self, statement: str, wanted: Sequence[ColumnValue], **values: ColumnValue) -> Iterator[Row]:
        for first in range(0, len(wanted), MOST_AT_ONCE):
            named = {f"wanted{number}": each for number, each in enumerate(wanted[first : first + MOST_AT_ONCE])}
            found = statement.format(wanted=", ".join(f":{name}" for name in named))
            yield from self._connection.rows(found, **values, **named)

    def _append_events(
        self, goal_id: GoalId, assertions: Sequence[Assertion], state: FactState, commit: Commit, *, only_orders: bool
    ) -> None:
        goal = self._connection.require_row(GOAL, "goal", goal_id)
        events = (FactStateChanged(goal["name"], assertion, state, commit, only_orders) for assertion in assertions)
        self._events.append_all(goal["run_id"], events)


def _path_checksums(paths: Iterable[str]) -> tuple[int, ...]:
    # Short, whereas a path may be too long for an index.
    return tuple(sorted({zlib.crc32(path.encode(errors="surrogatepass")) for path in paths}))


def _read_fact(row: Row) -> Fact:
    return Fact(
        goal_id=row["goal_id"],
        assertion=row["assertion"],
        state=row["state"],
        commit=row["commit_sha"],
        paths=NAMES.read(row["paths"]),
        evidence=EVIDENCE.read(row["evidence"]),
        doubts=DOUBTS.read(row["doubts"]),
        reviewed=bool(row["reviewed"]),
    )
