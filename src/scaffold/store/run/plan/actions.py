"""Actions: the plan's nodes, each with a stored count of its unmet needs.

`unmet` is the number of an action's preconditions without a fact that holds, plus one while its parent is not
running, as defined by `COUNT_UNMET`. Every change of a fact or of a parent's state adjusts the counts of the
affected actions in the same transaction, so finding ready actions costs one index look-up.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.events import ActionStatusChanged
from scaffold.core.ids import ActionId, ActionKey, Assertion, GoalId, RunId
from scaffold.core.model import Action
from scaffold.core.states import (
    COMPOUND_TRANSITIONS,
    PRIMITIVE_TRANSITIONS,
    ActionState,
    Blocked,
    Pending,
    Skipped,
    blocked_on_inbox,
    parse_action_state,
    reason_of,
    status_of,
)
from scaffold.store.driver.columns import ASSERTIONS, CONTRACT, NAMES, TimeSource, parse_time, struct_columns
from scaffold.store.driver.connection import ColumnValue, Connection, Row
from scaffold.store.row_errors import illegal_transition
from scaffold.store.run.event_log import Events, RunTableGateway
from scaffold.store.run.plan.facts import Facts
from scaffold.store.run.plan.goals import StatusCounts

ADD = """
INSERT INTO action (id, run_id, goal_id, parent_id, position, key, title, description, acceptance, verification_intent,
                    type, notes, kind, method, workspace, executor, role, preconditions, effects, files, contract,
                    status, reason, result, guidance, extra_attempts, unmet, failures, created_at, updated_at)
VALUES (:id, :run_id, :goal_id, :parent_id, :position, :key, :title, :description, :acceptance, :verification_intent,
        :type, :notes, :kind, :method, :workspace, :executor, :role, :preconditions, :effects, :files, :contract,
        :status, :reason, :result, :guidance, :extra_attempts, 0, 0, :created_at, :updated_at)
"""
ADD_PRECONDITION = """
INSERT INTO precondition (action_id, goal_id, assertion) VALUES (:action_id, :goal_id, :assertion)
ON CONFLICT (action_id, assertion) DO NOTHING
"""
ADD_EFFECT = """
INSERT INTO effect (action_id, goal_id, assertion) VALUES (:action_id, :goal_id, :assertion)
ON CONFLICT (action_id, assertion) DO NOTHING
"""
COUNT_UNMET = """
UPDATE action SET unmet = (
    SELECT COUNT(*) FROM precondition WHERE precondition.action_id = action.id AND NOT EXISTS (
        SELECT 1 FROM fact WHERE fact.goal_id = precondition.goal_id
                             AND fact.assertion = precondition.assertion AND fact.state = 'holds')
) + (
    SELECT COUNT(*) FROM action AS parent WHERE parent.id = action.parent_id AND parent.status <> 'running'
)
WHERE id = :id
"""
GET_STATUS = "SELECT id, run_id, goal_id, key, kind, status FROM action WHERE id = :id"
SHIFT_CHILDREN_UNMET = "UPDATE action SET unmet = unmet + :step WHERE parent_id = :id"
GET = "SELECT * FROM action WHERE id = :id"
BY_KEY = "SELECT * FROM action WHERE run_id = :run_id AND key = :key"
OF_GOAL = "SELECT * FROM action WHERE goal_id = :goal_id ORDER BY position, id"
OF_RUN = "SELECT * FROM action WHERE run_id = :run_id ORDER BY position, id"
CHILDREN = "SELECT * FROM action WHERE parent_id = :parent_id ORDER BY position, id"
PROVIDERS = """
SELECT action.* FROM effect JOIN action ON action.id = effect.action_id
WHERE effect.goal_id = :goal_id AND effect.assertion = :assertion ORDER BY position, id
"""
SET_STATUS = """
UPDATE action SET status = :status, reason = :reason, result = COALESCE(:result, result), updated_at = :at
WHERE id = :id AND status = :was
"""
# The conditions must match the partial index `action_ready` exactly, or SQLite scans all actions of the goal.
READY = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'pending' AND unmet = 0 ORDER BY position, id LIMIT :limit
"""
RUNNING = """
SELECT * FROM action WHERE goal_id = :goal_id AND status IN ('running', 'verifying', 'landing') AND kind = 'primitive'
ORDER BY position, id
"""
STEPS = "SELECT status, COUNT(*) AS count FROM action WHERE goal_id = :goal_id AND workspace = 'parent' GROUP BY status"
RUNNING_COMPOUNDS = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'running' AND kind = 'compound' ORDER BY position, id
"""
COUNT_CHILDREN = """
SELECT COUNT(*) AS children,
       COUNT(CASE WHEN status IN ('pending', 'running', 'verifying', 'landing')
                    OR (status = 'blocked' AND reason LIKE 'waits_for:%') THEN 1 END) AS open_children
FROM action WHERE parent_id = :parent_id
"""
HAS_CHILDREN = "SELECT 1 FROM action WHERE parent_id = :parent_id LIMIT 1"
PENDING_OR_BLOCKED = """
SELECT * FROM action WHERE goal_id = :goal_id AND status IN ('pending', 'blocked') ORDER BY position, id
"""
BLOCKED_BY_FAILURE = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'blocked' AND reason NOT LIKE 'waits_for:%'
ORDER BY position, id
"""
COUNT_WAITING_FOR_HUMAN = """
SELECT COUNT(*) AS actions FROM action
WHERE goal_id = :goal_id AND status = 'blocked' AND reason LIKE 'waits_for:%'
"""
WAITING_FOR_ITEM = """
SELECT * FROM action WHERE run_id = :run_id AND status = 'blocked' AND reason = :reason ORDER BY position, id
"""
FORGET_DEATHS = "UPDATE action SET deaths = 0 WHERE id = :id AND deaths > 0"
FORGET_DEATHS_OF_GOAL = """
UPDATE goal SET deaths = 0, rests_from = NULL, rests_until = NULL WHERE id = :goal_id AND deaths > 0
"""
RESET_FAILURES = "UPDATE action SET failures = 0, failure_handled = 0, extra_attempts = 0 WHERE id = :id"
GRANT_ATTEMPT = "UPDATE action SET extra_attempts = extra_attempts + 1 WHERE id = :id"
SET_HINT = "UPDATE action SET guidance = :hint WHERE id = :id"
MARK_FAILURE_HANDLED = "UPDATE action SET failure_handled = 1 WHERE id = :id"
SET_GUIDANCE = "UPDATE action SET guidance = :guidance, extra_attempts = 1, failure_handled = 0 WHERE id = :id"
UNHANDLED_FAILURES = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'failed' AND kind = 'primitive' AND failure_handled = 0
ORDER BY position, id
"""
MARK_FAILURES_HANDLED = """
UPDATE action SET failure_handled = 1 WHERE goal_id = :goal_id AND status = 'failed' AND kind = 'primitive'
"""
FAILURES_OF_RUN = "SELECT id, failures FROM action WHERE run_id = :run_id AND failures > 0"
MAKE_ROOM = "UPDATE action SET position = position + :count WHERE run_id = :run_id AND position > :after"
SET_STEP = """
UPDATE action SET position = :position, description = :description, preconditions = :preconditions WHERE id = :id
"""
FORGET_PRECONDITIONS = "DELETE FROM precondition WHERE action_id = :id"
FORGET_EFFECTS = "DELETE FROM effect WHERE action_id = :id"
REMOVE = "DELETE FROM action WHERE id = :id AND status = 'pending'"
LAST_POSITION = "SELECT COALESCE(MAX(position), -1) AS position FROM action WHERE run_id = :run_id"


ActionStatusRow = Row | Mapping[str, Any]
"""An action's columns id, run_id, goal_id, key, kind and status."""


class OpenCompound(Struct, frozen=True):
    """A running compound with the counts of its children and its effects that do not hold yet."""

    action: Action
    children: int
    open_children: int
    """Children that have not ended: pending, running, verifying, landing, or waiting for a human."""
    unmet_effects: tuple[Assertion, ...]


class Actions(RunTableGateway):
    """The actions of each goal, always returned in plan order."""

    def __init__(self, connection: Connection, clock: TimeSource, events: Events, facts: Facts) -> None:
        super().__init__(connection, clock, events)
        self._facts = facts
        self._tally = StatusCounts(connection)

    def add(self, actions: Sequence[Action]) -> None:
        """Store new actions, parents and children in any order; `unmet` is computed here, the given value ignored."""
        rows = (
            struct_columns(
                action,
                acceptance=NAMES.write(action.acceptance),
                preconditions=ASSERTIONS.write(action.preconditions),
                effects=ASSERTIONS.write(action.effects),
                files=NAMES.write(action.files),
                contract=CONTRACT.write(action.contract),
                status=status_of(action.state),
                reason=reason_of(action.state),
            )
            for action in actions
        )
        self._connection.write_each(ADD, rows)
        self._connection.write_each(
            ADD_PRECONDITION, (_assertion_row(a, name) for a in actions for name in a.preconditions)
        )
        self._connection.write_each(ADD_EFFECT, (_assertion_row(a, name) for a in actions for name in a.effects))
        # Last, because the count depends on the rows of parents and preconditions in the same batch.
        self._connection.write_each(COUNT_UNMET, ({"id": action.id} for action in actions))
        for action in actions:
            self._tally.count(action.goal_id, status_of(action.state), 1)

    def get(self, action_id: ActionId) -> Action | None:
        """Return the action; None if there is none."""
        row = self._connection.row(GET, id=action_id)
        return None if row is None else _read_action(row)

    def by_key(self, run_id: RunId, key: ActionKey) -> Action | None:
        """Return the run's action with this key; None if there is none."""
        row = self._connection.row(BY_KEY, run_id=run_id, key=key)
        return None if row is None else _read_action(row)

    def for_goal(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return all actions of the goal."""
        return self._select_actions(OF_GOAL, goal_id=goal_id)

    def for_run(self, run_id: RunId) -> tuple[Action, ...]:
        """Return all actions of the run."""
        return self._select_actions(OF_RUN, run_id=run_id)

    def children(self, parent_id: ActionId) -> tuple[Action, ...]:
        """Return the direct children of a compound."""
        return self._select_actions(CHILDREN, parent_id=parent_id)

    def has_children(self, action_id: ActionId) -> bool:
        """Return whether the compound has been decomposed."""
        return self._connection.row(HAS_CHILDREN, parent_id=action_id) is not None

    def providers(self, goal_id: GoalId, assertion: Assertion) -> tuple[Action, ...]:
        """Return the goal's actions that have the assertion as an effect."""
        return self._select_actions(PROVIDERS, goal_id=goal_id, assertion=assertion)

    def ready(self, goal_id: GoalId, limit: int) -> tuple[Action, ...]:
        """Return the first `limit` ready actions; the cost does not depend on the size of the plan."""
        return self._select_actions(READY, goal_id=goal_id, limit=limit)

    def running(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return the primitives that are running, verifying or landing."""
        return self._select_actions(RUNNING, goal_id=goal_id)

    def tally(self, goal_id: GoalId) -> dict[str, int]:
        """Return the number of actions per status; statuses without actions are left out."""
        return self._tally.for_goal(goal_id)

    def tally_steps(self, goal_id: GoalId) -> dict[str, int]:
        """Return the number of steps per status: of actions that share the worktree of their compound, which lands."""
        return {row["status"]: int(row["count"]) for row in self._connection.rows(STEPS, goal_id=goal_id)}

    def open_compounds(self, goal_id: GoalId) -> tuple[OpenCompound, ...]:
        """Return the running compounds."""
        return tuple(map(self._open_compound, self._select_actions(RUNNING_COMPOUNDS, goal_id=goal_id)))

    def move(self, action_id: ActionId, to: ActionState, *, result: str | None = None) -> None:
        """Change the state; raise IllegalTransition if not allowed. A `result` of None keeps the stored one."""
        self._move_rows([self._connection.require_row(GET_STATUS, "action", action_id)], (to,), result)

    def move_each(self, actions: Sequence[Action], *path: ActionState) -> None:
        """Move actions of one run through the states of `path`; raise IllegalTransition if a step is not allowed.

        Raises StaleFence if an action's status changed since it was read.
        """
        rows: list[ActionStatusRow] = [
            {
                "id": action.id,
                "run_id": action.run_id,
                "goal_id": action.goal_id,
                "key": action.key,
                "kind": action.kind,
                "status": status_of(action.state),
            }
            for action in actions
        ]
        self._move_rows(rows, path)

    def block(self, reasons: Mapping[ActionId, str]) -> None:
        """Block pending actions, each for its reason; raise IllegalTransition if one is not pending."""
        for action_id, reason in reasons.items():
            self.move(action_id, Blocked(reason))

    def unblock(self, goal_id: GoalId) -> tuple[ActionId, ...]:
        """Set the goal's actions that a failure blocked back to pending and return their ids."""
        rows = self._connection.rows(BLOCKED_BY_FAILURE, goal_id=goal_id)
        self._move_rows(rows, (Pending(),))
        return tuple(row["id"] for row in rows)

    def waiting(self, goal_id: GoalId) -> int:
        """Return how many actions of the goal wait for a human."""
        return int(self._connection.rows(COUNT_WAITING_FOR_HUMAN, goal_id=goal_id)[0]["actions"])

    def waiters(self, run_id: RunId, item_id: str) -> tuple[Action, ...]:
        """Return the run's actions that wait for the inbox item."""
        return self._select_actions(WAITING_FOR_ITEM, run_id=run_id, reason=blocked_on_inbox(item_id).reason)

    def release(self, run_id: RunId, item_id: str) -> None:
        """Set all actions that wait for the inbox item back to pending; earlier deaths of workers no longer count."""
        rows = self._connection.rows(WAITING_FOR_ITEM, run_id=run_id, reason=blocked_on_inbox(item_id).reason)
        self._move_rows(rows, (Pending(),))
        for row in rows:
            self._connection.write(FORGET_DEATHS, id=row["id"])
            self._connection.write(FORGET_DEATHS_OF_GOAL, goal_id=row["goal_id"])

    def lineage(self, action_id: ActionId | None) -> tuple[ActionId, ...]:
        """Return the action's id and those of its ancestors, innermost first."""
        found: list[ActionId] = []
        while action_id is not None:
            found.append(action_id)
            action_id = self._connection.require_row(GET, "action", action_id)["parent_id"]
        return tuple(found)

    def skip_pending(self, goal_id: GoalId, reason: str) -> None:
        """Skip all pending and blocked actions of the goal."""
        self._move_rows(self._connection.rows(PENDING_OR_BLOCKED, goal_id=goal_id), (Skipped(reason),))

    def failures(self, action_id: ActionId) -> int:
        """Return how many counted failures the action had since they were last reset."""
        return int(self._connection.require_row(GET, "action", action_id)["failures"])

    def failures_of_run(self, run_id: RunId) -> Mapping[ActionId, int]:
        """Return the counted failures of each of the run's actions; actions without failures are omitted."""
        return {row["id"]: int(row["failures"]) for row in self._connection.rows(FAILURES_OF_RUN, run_id=run_id)}

    def last_position(self, run_id: RunId) -> int:
        """Return the position of the run's last action; -1 if there is none."""
        return int(self._connection.rows(LAST_POSITION, run_id=run_id)[0]["position"])

    def make_room(self, run_id: RunId, *, after: int, count: int) -> None:
        """Move the actions behind the position `after` by `count` places, so that others fit between."""
        self._connection.write(MAKE_ROOM, run_id=run_id, after=after, count=count)

    def arrange(self, action: Action) -> None:
        """Store the position, the description and the preconditions of an action that has not started."""
        self._connection.write(
            SET_STEP,
            id=action.id,
            position=action.position,
            description=action.description,
            preconditions=ASSERTIONS.write(action.preconditions),
        )
        self._connection.write(FORGET_PRECONDITIONS, id=action.id)
        self._connection.write_each(ADD_PRECONDITION, (_assertion_row(action, name) for name in action.preconditions))
        self._connection.write(COUNT_UNMET, id=action.id)

    def remove(self, action: Action) -> None:
        """Delete a pending action that has no attempts; IllegalTransition if it is not pending."""
        row = self._connection.require_row(GET_STATUS, "action", action.id)
        # Attempts and evidence would refer to an action that is gone.
        if row["status"] != "pending":
            raise illegal_transition("action", action.key, row["status"], "removed")
        for statement in (FORGET_PRECONDITIONS, FORGET_EFFECTS, REMOVE):
            self._connection.write(statement, id=action.id)
        self._tally.count(action.goal_id, "pending", -1)

    def guide(self, action_id: ActionId, guidance: str) -> None:
        """Grant the action one extra attempt, to follow `guidance`."""
        self._connection.require_row(GET, "action", action_id)
        self._connection.write(SET_GUIDANCE, id=action_id, guidance=guidance)

    def grant_attempt(self, action_id: ActionId) -> None:
        """Allow the action one failure more."""
        self._connection.write(GRANT_ATTEMPT, id=action_id)

    def hint(self, action_id: ActionId, hint: str) -> None:
        """Give the next attempts a human's hint, in place of earlier guidance."""
        self._connection.write(SET_HINT, id=action_id, hint=hint)

    def unhandled_failures(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return the finally failed primitives that no replan has handled yet."""
        return self._select_actions(UNHANDLED_FAILURES, goal_id=goal_id)

    def mark_failures_handled(self, goal_id: GoalId) -> None:
        """Mark all failed primitives of the goal as handled by a replan."""
        self._connection.write(MARK_FAILURES_HANDLED, goal_id=goal_id)

    def mark_failure_handled(self, action_id: ActionId) -> None:
        """Mark the failure of a primitive as handled: no human is asked about it again."""
        self._connection.write(MARK_FAILURE_HANDLED, id=action_id)

    def reset_failures(self, action_id: ActionId) -> None:
        """Reset the failure count, so that the action has all of its attempts again."""
        self._connection.require_row(GET, "action", action_id)
        self._connection.write(RESET_FAILURES, id=action_id)

    def _move_rows(
        self, rows: Sequence[ActionStatusRow], path: Sequence[ActionState], result: str | None = None
    ) -> None:
        # The last state of the path is stored, with an event for each step. The rows are of one run.
        steps = [(status_of(state), reason_of(state)) for state in path]
        for row in rows:
            was = row["status"]
            moves = COMPOUND_TRANSITIONS if row["kind"] == "compound" else PRIMITIVE_TRANSITIONS
            for status, _ in steps:
                if was not in moves.get(status, frozenset()):
                    raise illegal_transition("action", row["key"], was, status)
                was = status
        if not rows:
            return
        to, reason = steps[-1]
        new: dict[str, ColumnValue] = {"status": to, "reason": reason, "result": result, "at": self._now_text()}
        self._connection.compare_and_set_each(
            SET_STATUS, "action", [{"id": row["id"], "was": row["status"], **new} for row in rows]
        )
        for row in rows:
            # Each child has one more unmet need while its parent does not run: entering `running` is -1, leaving it +1.
            shift = (row["status"] == "running") - (to == "running")
            if shift:
                self._connection.write(SHIFT_CHILDREN_UNMET, id=row["id"], step=shift)
        for (goal_id, status), count in Counter((row["goal_id"], row["status"]) for row in rows).items():
            self._tally.count(goal_id, status, -count)
            self._tally.count(goal_id, to, count)
        events = (ActionStatusChanged(row["key"], *step) for row in rows for step in steps)
        self._events.append_all(rows[0]["run_id"], events)

    def _open_compound(self, compound: Action) -> OpenCompound:
        (counts,) = self._connection.rows(COUNT_CHILDREN, parent_id=compound.id)
        lacking = self._facts.lacking(compound.goal_id, compound.effects)
        return OpenCompound(compound, counts["children"], counts["open_children"], lacking)

    def _select_actions(self, statement: str, **values: ColumnValue) -> tuple[Action, ...]:
        return tuple(map(_read_action, self._connection.rows(statement, **values)))


def _assertion_row(action: Action, assertion: Assertion) -> dict[str, ColumnValue]:
    return {"action_id": action.id, "goal_id": action.goal_id, "assertion": assertion}


_state = functools.lru_cache(maxsize=1024)(parse_action_state)
"""Cached, because most actions share few states and decoding the state is the slowest part of reading an action."""


def _read_action(row: Row) -> Action:
    return Action(
        id=row["id"],
        run_id=row["run_id"],
        goal_id=row["goal_id"],
        parent_id=row["parent_id"],
        key=row["key"],
        title=row["title"],
        description=row["description"],
        acceptance=NAMES.read(row["acceptance"]),
        verification_intent=row["verification_intent"],
        type=row["type"],
        notes=row["notes"],
        kind=row["kind"],
        method=row["method"],
        workspace=row["workspace"],
        executor=row["executor"],
        role=row["role"],
        preconditions=ASSERTIONS.read(row["preconditions"]),
        effects=ASSERTIONS.read(row["effects"]),
        files=NAMES.read(row["files"]),
        contract=CONTRACT.read(row["contract"]),
        state=_state(row["status"], row["reason"]),
        unmet=row["unmet"],
        position=row["position"],
        result=row["result"],
        guidance=row["guidance"],
        deaths=int(row["deaths"]),
        extra_attempts=row["extra_attempts"],
        created_at=parse_time(row["created_at"]),
        updated_at=parse_time(row["updated_at"]),
    )
