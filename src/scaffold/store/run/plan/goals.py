"""Goals: the desired states of a run."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from scaffold.core.events import GoalStatusChanged
from scaffold.core.ids import Assertion, GoalId, RunId
from scaffold.core.model import Goal, ProcessIdentity, Rest
from scaffold.core.proof.specification_audit import Requirement, RequirementId
from scaffold.core.states import GOAL_TRANSITIONS, Active, GoalState, parse_goal_state, reason_of, status_of
from scaffold.store.driver.columns import (
    ASSERTIONS,
    PROCESS,
    TimeSource,
    format_time,
    parse_time,
    read_struct,
    struct_columns,
)
from scaffold.store.driver.connection import ColumnValue, Connection, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import illegal_transition
from scaffold.store.run.event_log import Events, RunTableGateway
from scaffold.store.run.plan.facts import Facts

ADD_COUNT = """
INSERT INTO action_status_count (goal_id, status, action_count) VALUES (:goal_id, :status, :actions)
ON CONFLICT (goal_id, status) DO UPDATE SET action_count = action_status_count.action_count + excluded.action_count
"""
COUNTS_OF_GOAL = "SELECT status, action_count FROM action_status_count WHERE goal_id = :goal_id AND action_count > 0"
ADD_REQUIREMENT = """
INSERT INTO requirement (run_id, position, name, text, line) VALUES (:run_id, :position, :name, :text, :line)
"""
REQUIREMENTS_OF_RUN = "SELECT name, text, line FROM requirement WHERE run_id = :run_id ORDER BY position"
ADD = """
INSERT INTO goal (id, run_id, position, name, description, desired, status, reason, summary, persistent, worker_cap,
                  supervisor, supervisor_started_at, created_at, updated_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM goal WHERE run_id = :run_id), :name, :description,
        :desired, :status, :reason, :summary, :persistent, :worker_cap, :supervisor, :supervisor_started_at,
        :created_at, :updated_at)
"""
GET = "SELECT * FROM goal WHERE id = :id"
OF_RUN = "SELECT * FROM goal WHERE run_id = :run_id ORDER BY position"
BY_NAME = "SELECT * FROM goal WHERE run_id = :run_id AND name = :name"
COUNT_UNFINISHED = """
SELECT COUNT(*) AS goals FROM goal WHERE run_id = :run_id AND status IN ('planning', 'active', 'paused')
"""
SET_STATUS = "UPDATE goal SET status = :status, reason = :reason, updated_at = :at WHERE id = :id AND status = :was"
SET_SERVED = "UPDATE goal SET served_seq = :seq WHERE id = :id"
SET_REST = "UPDATE goal SET rests_from = :since, rests_until = :until WHERE id = :id"
FORGET_DEATHS = "UPDATE goal SET deaths = 0, rests_from = NULL, rests_until = NULL WHERE id = :id"
FORGET_DEATHS_OF_ACTIONS = "UPDATE action SET deaths = 0 WHERE goal_id = :id AND deaths > 0"
SET_SUMMARY = "UPDATE goal SET summary = :summary, updated_at = :at WHERE id = :id AND summary = :was"
SET_SUPERVISOR = """
UPDATE goal SET supervisor = :supervisor, supervisor_started_at = :since, updated_at = :at
WHERE id = :id AND supervisor IS NOT DISTINCT FROM :was
"""


class StatusCounts:
    """Counts by goal and status; a transaction's changes are written at its end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: Counter[tuple[GoalId, str]] = Counter()
        connection.keep(self)

    def count(self, goal_id: GoalId, status: str, actions: int) -> None:
        """Add `actions`, which may be negative, to the count of a status."""
        self._changes[goal_id, status] += actions

    def for_goal(self, goal_id: GoalId) -> dict[str, int]:
        """Return the goal's counts; statuses without actions are left out."""
        self.flush()
        return {row["status"]: row["action_count"] for row in self._connection.rows(COUNTS_OF_GOAL, goal_id=goal_id)}

    def flush(self) -> None:
        """Write the transaction's changes so far."""
        changes: list[dict[str, ColumnValue]] = [
            {"goal_id": goal_id, "status": status, "actions": actions}
            for (goal_id, status), actions in self._changes.items()
            if actions
        ]
        if changes:
            self._connection.write_each(ADD_COUNT, changes)
        self._changes.clear()

    def forget(self) -> None:
        """Drop unwritten changes: the transaction is over."""
        self._changes.clear()


class Requirements(TableGateway):
    """The requirements of each run, in the order of its specification."""

    def add(self, run_id: RunId, requirements: Sequence[Requirement]) -> None:
        """Store the requirements of a run that has none yet."""
        for position, each in enumerate(requirements):
            self._connection.write(
                ADD_REQUIREMENT, run_id=run_id, position=position, name=each.id, text=each.text, line=each.line
            )

    def for_run(self, run_id: RunId) -> tuple[Requirement, ...]:
        """Return the requirements; empty for a run that is not audited, or whose planner has not listed them yet."""
        return tuple(
            Requirement(id=RequirementId(row["name"]), text=row["text"], line=row["line"])
            for row in self._connection.rows(REQUIREMENTS_OF_RUN, run_id=run_id)
        )


class Goals(RunTableGateway):
    """The goals of each run. Whether a goal is reached is computed from its facts, never stored."""

    def __init__(self, connection: Connection, clock: TimeSource, events: Events, facts: Facts) -> None:
        super().__init__(connection, clock, events)
        self._facts = facts

    def add(self, goal: Goal) -> None:
        """Store a new goal as the run's last; raise StoreError if the run has one with the same name."""
        self._connection.write(
            ADD,
            **struct_columns(
                goal,
                desired=ASSERTIONS.write(goal.desired),
                status=status_of(goal.state),
                reason=reason_of(goal.state),
                supervisor=PROCESS.write(goal.supervisor),
            ),
        )

    def get(self, goal_id: GoalId) -> Goal | None:
        """Return the goal; None if there is none."""
        row = self._connection.row(GET, id=goal_id)
        return None if row is None else _read_goal(row)

    def for_run(self, run_id: RunId) -> tuple[Goal, ...]:
        """Return the run's goals in the order they were added."""
        return tuple(map(_read_goal, self._connection.rows(OF_RUN, run_id=run_id)))

    def count_unfinished(self, run_id: RunId) -> int:
        """Return how many goals of the run are planning, active or paused."""
        return int(self._connection.rows(COUNT_UNFINISHED, run_id=run_id)[0]["goals"])

    def by_name(self, run_id: RunId, name: str) -> Goal | None:
        """Return the run's goal with this name; None if there is none."""
        row = self._connection.row(BY_NAME, run_id=run_id, name=name)
        return None if row is None else _read_goal(row)

    def move(self, goal_id: GoalId, to: GoalState) -> None:
        """Change the state; raise IllegalTransition if it is not allowed."""
        row = self._connection.require_row(GET, "goal", goal_id)
        status = status_of(to)
        # Read in this transaction, so another process cannot have moved it since.
        if row["status"] not in GOAL_TRANSITIONS[status]:
            raise illegal_transition("goal", row["name"], row["status"], status)
        at = self._now_text()
        self._connection.compare_and_set(
            SET_STATUS, "goal", goal_id, status=status, reason=reason_of(to), was=row["status"], at=at
        )
        self._events.append(row["run_id"], GoalStatusChanged(row["name"], status, reason_of(to)))

    def set_summary(self, goal_id: GoalId, summary: str, *, was: str) -> None:
        """Replace the rolling summary; raise StaleFence if the stored one is not `was`."""
        self._connection.require_row(GET, "goal", goal_id)
        self._connection.compare_and_set(SET_SUMMARY, "goal", goal_id, summary=summary, was=was, at=self._now_text())

    def supervise(self, goal_id: GoalId, by: ProcessIdentity | None, *, was: ProcessIdentity | None) -> None:
        """Set the supervisor process (None for none); raise StaleFence if the stored one is not `was`."""
        self._connection.require_row(GET, "goal", goal_id)
        now = self._now_text()
        since = None if by is None else now
        written = {"supervisor": PROCESS.write(by), "was": PROCESS.write(was)}
        self._connection.compare_and_set(SET_SUPERVISOR, "goal", goal_id, since=since, at=now, **written)

    def record_slot(self, goal_id: GoalId) -> None:
        """Record that the goal gets a slot now, so that the others have their turn before it."""
        row = self._connection.require_row(GET, "goal", goal_id)
        # The number of the run's next event: it rises with each slot, even if the wall clock goes back.
        seq = self._events.next_seq(row["run_id"])
        self._connection.compare_and_set(SET_SERVED, "goal", goal_id, seq=seq)

    def last_slot(self, goal_id: GoalId) -> int:
        """Return when the goal last got a slot, as a number that grows with time; 0 for never."""
        return int(self._connection.require_row(GET, "goal", goal_id)["served_seq"])

    def rest(self, goal_id: GoalId, seconds: float) -> Rest:
        """Let the goal start no attempt for so many seconds, and return the time."""
        now = self._clock.now()
        rest = Rest(now, now + timedelta(seconds=seconds))
        self._connection.compare_and_set(
            SET_REST, "goal", goal_id, since=format_time(rest.since), until=format_time(rest.until)
        )
        return rest

    def resting(self, run_id: RunId) -> tuple[Goal, ...]:
        """Return the run's active goals that start no attempt now, because their workers died."""
        now = self._clock.now()
        rested = (goal for goal in self.for_run(run_id) if isinstance(goal.state, Active))
        return tuple(goal for goal in rested if goal.rest is not None and goal.rest.includes(now))

    def forget_deaths(self, goal_id: GoalId) -> None:
        """End the goal's rest, and count the deaths of its workers from none again."""
        self._connection.compare_and_set(FORGET_DEATHS, "goal", goal_id)
        self._connection.write(FORGET_DEATHS_OF_ACTIONS, id=goal_id)

    def unmet(self, goal_id: GoalId) -> tuple[Assertion, ...]:
        """Return the desired assertions that do not hold, in the goal's order; empty means the goal is reached."""
        desired = ASSERTIONS.read(self._connection.require_row(GET, "goal", goal_id)["desired"])
        return self._facts.lacking(goal_id, desired)


def _read_goal(row: Row) -> Goal:
    return read_struct(
        Goal,
        row,
        desired=ASSERTIONS.read(row["desired"]),
        state=parse_goal_state(row["status"], row["reason"]),
        supervisor=PROCESS.read(row["supervisor"]),
        rest=Rest(parse_time(row["rests_from"]), parse_time(row["rests_until"])) if row["rests_until"] else None,
    )
