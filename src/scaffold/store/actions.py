"""Actions: the plan's nodes, each with a stored count of what it still waits for.

`unmet` is the number of an action's preconditions without a fact that holds, plus one while its
parent is not running. `COUNT_UNMET` is that definition; whatever changes a fact or a parent's state
shifts the count of those concerned in the same transaction, so readiness costs one index look-up.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.events import ActionMoved
from scaffold.core.ids import ActionId, Assertion, GoalId, Key, RunId
from scaffold.core.model import Action
from scaffold.core.states import (
    COMPOUND_MOVES,
    PRIMITIVE_MOVES,
    ActionState,
    Blocked,
    Pending,
    Skipped,
    action_state,
    reason_of,
    status_of,
    waiting_for,
)
from scaffold.store.columns import ASSERTIONS, CONTRACT, NAMES, Calendar, moment, stamp
from scaffold.store.connection import Connection, Row, Value
from scaffold.store.events import Events
from scaffold.store.facts import Facts
from scaffold.store.refusals import illegal_move
from scaffold.store.tally import Tally

ADD = """
INSERT INTO action (id, run_id, goal_id, parent_id, position, key, description, kind, method, role, preconditions,
                    effects, files, contract, status, reason, result, guidance, extra_attempts, unmet, failures,
                    created_at, updated_at)
VALUES (:id, :run_id, :goal_id, :parent_id, :position, :key, :description, :kind, :method, :role, :preconditions,
        :effects, :files, :contract, :status, :reason, :result, :guidance, :extra_attempts, 0, 0,
        :created_at, :updated_at)
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
STANDING = "SELECT id, run_id, goal_id, key, kind, status FROM action WHERE id = :id"
SHIFT_CHILDREN = "UPDATE action SET unmet = unmet + :step WHERE parent_id = :id"
GET = "SELECT * FROM action WHERE id = :id"
BY_KEY = "SELECT * FROM action WHERE run_id = :run_id AND key = :key"
OF_GOAL = "SELECT * FROM action WHERE goal_id = :goal_id ORDER BY position, id"
OF_RUN = "SELECT * FROM action WHERE run_id = :run_id ORDER BY position, id"
CHILDREN = "SELECT * FROM action WHERE parent_id = :parent_id ORDER BY position, id"
PROVIDERS = """
SELECT action.* FROM effect JOIN action ON action.id = effect.action_id
WHERE effect.goal_id = :goal_id AND effect.assertion = :assertion ORDER BY position, id
"""
MOVE = """
UPDATE action SET status = :status, reason = :reason, result = COALESCE(:result, result), updated_at = :at
WHERE id = :id AND status = :was
"""
# Must stay word for word what the partial index `action_ready` asks for, or it becomes a walk over the whole goal.
READY = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'pending' AND unmet = 0 ORDER BY position, id LIMIT :limit
"""
RUNNING = """
SELECT * FROM action WHERE goal_id = :goal_id AND status IN ('running', 'verifying', 'landing') AND kind = 'primitive'
ORDER BY position, id
"""
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
WAITING = """
SELECT * FROM action WHERE goal_id = :goal_id AND status IN ('pending', 'blocked') ORDER BY position, id
"""
STRANDED = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'blocked' AND reason NOT LIKE 'waits_for:%'
ORDER BY position, id
"""
COUNT_WAITING = """
SELECT COUNT(*) AS actions FROM action
WHERE goal_id = :goal_id AND status = 'blocked' AND reason LIKE 'waits_for:%'
"""
WAITERS = """
SELECT * FROM action WHERE run_id = :run_id AND status = 'blocked' AND reason = :reason ORDER BY position, id
"""
FORGIVE = "UPDATE action SET failures = 0, accounted = 0, extra_attempts = 0 WHERE id = :id"
GUIDE = "UPDATE action SET guidance = :guidance, extra_attempts = 1, accounted = 0 WHERE id = :id"
EXHAUSTED = """
SELECT * FROM action WHERE goal_id = :goal_id AND status = 'failed' AND kind = 'primitive' AND accounted = 0
ORDER BY position, id
"""
ACCOUNT_FOR = """
UPDATE action SET accounted = 1 WHERE goal_id = :goal_id AND status = 'failed' AND kind = 'primitive'
"""
LAST_POSITION = "SELECT COALESCE(MAX(position), -1) AS position FROM action WHERE run_id = :run_id"


Standing = Row | Mapping[str, Any]
"""Who an action is and where it stands: id, run_id, goal_id, key, kind, status."""


class OpenCompound(Struct, frozen=True):
    """A running compound, how far its children are, and which of its effects do not hold yet."""

    action: Action
    children: int
    open_children: int
    """Children that may still do something: pending, running, verifying, landing, or waiting for a human."""
    unmet_effects: tuple[Assertion, ...]


class Actions:
    """The actions of each goal, always given in plan order."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events, facts: Facts) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events
        self._facts = facts
        self._tally = Tally(connection)

    def add(self, actions: Sequence[Action]) -> None:
        """Store new actions, parents and children in any order; their own `unmet` is ignored and counted afresh."""
        self._connection.write_each(ADD, map(_columns, actions))
        self._connection.write_each(ADD_PRECONDITION, (_side(a, name) for a in actions for name in a.preconditions))
        self._connection.write_each(ADD_EFFECT, (_side(a, name) for a in actions for name in a.effects))
        self._connection.write_each(COUNT_UNMET, ({"id": action.id} for action in actions))
        for action in actions:
            self._tally.count(action.goal_id, status_of(action.state), 1)

    def get(self, action_id: ActionId) -> Action | None:
        """Return the action, None if there is none."""
        row = self._connection.row(GET, id=action_id)
        return None if row is None else _action(row)

    def by_key(self, run_id: RunId, key: Key) -> Action | None:
        """Return the run's action of that key, None if there is none."""
        row = self._connection.row(BY_KEY, run_id=run_id, key=key)
        return None if row is None else _action(row)

    def of_goal(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return all actions of the goal."""
        return self._list(OF_GOAL, goal_id=goal_id)

    def of_run(self, run_id: RunId) -> tuple[Action, ...]:
        """Return all actions of the run."""
        return self._list(OF_RUN, run_id=run_id)

    def children(self, parent_id: ActionId) -> tuple[Action, ...]:
        """Return the direct children of a compound."""
        return self._list(CHILDREN, parent_id=parent_id)

    def has_children(self, action_id: ActionId) -> bool:
        """Tell whether the action was broken down already."""
        return self._connection.row(HAS_CHILDREN, parent_id=action_id) is not None

    def providers(self, goal_id: GoalId, assertion: Assertion) -> tuple[Action, ...]:
        """Return the actions of the goal that have the assertion among their effects."""
        return self._list(PROVIDERS, goal_id=goal_id, assertion=assertion)

    def ready(self, goal_id: GoalId, limit: int) -> tuple[Action, ...]:
        """Return the first `limit` pending actions that wait for nothing; costs the same in plans of any size."""
        return self._list(READY, goal_id=goal_id, limit=limit)

    def running(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return the primitives that are running, verifying or landing."""
        return self._list(RUNNING, goal_id=goal_id)

    def tally(self, goal_id: GoalId) -> dict[str, int]:
        """Return how many actions have each status; statuses without any are left out."""
        return self._tally.of_goal(goal_id)

    def open_compounds(self, goal_id: GoalId) -> tuple[OpenCompound, ...]:
        """Return the running compounds."""
        return tuple(map(self._open_compound, self._list(RUNNING_COMPOUNDS, goal_id=goal_id)))

    def move(self, action_id: ActionId, to: ActionState, *, result: str | None = None) -> None:
        """Change the state; IllegalMove if there is no way from here. A `result` of None keeps the old one."""
        self._move([self._connection.held(STANDING, "action", action_id)], (to,), result)

    def move_each(self, actions: Sequence[Action], *path: ActionState) -> None:
        """Take actions along the same path of states, each a legal move: IllegalMove otherwise.

        They must be as they were read: StaleFence if one changed since.
        """
        self._move([_standing(action) for action in actions], path)

    def block(self, reasons: Mapping[ActionId, str]) -> None:
        """Mark pending actions as blocked, each for its reason; IllegalMove if one is not pending."""
        for action_id, reason in reasons.items():
            self.move(action_id, Blocked(reason))

    def unblock(self, goal_id: GoalId) -> tuple[ActionId, ...]:
        """Put what a failure has blocked in the goal back to pending and return which they were."""
        rows = self._connection.rows(STRANDED, goal_id=goal_id)
        self._move(rows, (Pending(),))
        return tuple(row["id"] for row in rows)

    def waiting(self, goal_id: GoalId) -> int:
        """Return how many actions of the goal wait for a human."""
        return int(self._connection.rows(COUNT_WAITING, goal_id=goal_id)[0]["actions"])

    def waiters(self, run_id: RunId, item_id: str) -> tuple[Action, ...]:
        """Return the run's actions that wait for an item of the inbox."""
        return self._list(WAITERS, run_id=run_id, reason=waiting_for(item_id).reason)

    def release(self, run_id: RunId, item_id: str) -> None:
        """Put every action that waits for the item back to pending."""
        self._move(self._connection.rows(WAITERS, run_id=run_id, reason=waiting_for(item_id).reason), (Pending(),))

    def lineage(self, action_id: ActionId | None) -> tuple[ActionId, ...]:
        """Return the action and those above it, from below."""
        found: list[ActionId] = []
        while action_id is not None:
            found.append(action_id)
            action_id = self._connection.held(GET, "action", action_id)["parent_id"]
        return tuple(found)

    def skip_pending(self, goal_id: GoalId, reason: str) -> None:
        """Skip every pending or blocked action of the goal."""
        self._move(self._connection.rows(WAITING, goal_id=goal_id), (Skipped(reason),))

    def failures(self, action_id: ActionId) -> int:
        """Return how many attempts failed by themselves since the action was last forgiven."""
        return int(self._connection.held(GET, "action", action_id)["failures"])

    def last_position(self, run_id: RunId) -> int:
        """Return the place of the run's last action in its plan, -1 if there is none."""
        return int(self._connection.rows(LAST_POSITION, run_id=run_id)[0]["position"])

    def guide(self, action_id: ActionId, guidance: str) -> None:
        """Give the action one attempt beyond its maximum, to take another approach."""
        self._connection.held(GET, "action", action_id)
        self._connection.write(GUIDE, id=action_id, guidance=guidance)

    def exhausted(self, goal_id: GoalId) -> tuple[Action, ...]:
        """Return the primitives that failed for good and that no replan has dealt with yet."""
        return self._list(EXHAUSTED, goal_id=goal_id)

    def account_for_failures(self, goal_id: GoalId) -> None:
        """Note that a replan has dealt with everything that failed in the goal until now."""
        self._connection.write(ACCOUNT_FOR, goal_id=goal_id)

    def forgive(self, action_id: ActionId) -> None:
        """Forget the failures: the action has all its attempts again."""
        self._connection.held(GET, "action", action_id)
        self._connection.write(FORGIVE, id=action_id)

    def _move(self, rows: Sequence[Standing], path: Sequence[ActionState], result: str | None = None) -> None:
        """Move what stands as `rows` say; the last state of the path is written, all of them are told of."""
        steps = [(status_of(state), reason_of(state)) for state in path]
        for row in rows:
            _check(row, steps)
        if not rows:
            return
        to, reason = steps[-1]
        new: dict[str, Value] = {"status": to, "reason": reason, "result": result, "at": stamp(self._clock.now())}
        self._connection.swap_each(MOVE, "action", [{"id": row["id"], "was": row["status"], **new} for row in rows])
        for row in rows:
            shift = (row["status"] == "running") - (to == "running")
            if shift:
                self._connection.write(SHIFT_CHILDREN, id=row["id"], step=shift)
            self._tally.count(row["goal_id"], row["status"], -1)
            self._tally.count(row["goal_id"], to, 1)
            self._events.append_all(row["run_id"], [ActionMoved(row["key"], *step) for step in steps])

    def _open_compound(self, compound: Action) -> OpenCompound:
        (counts,) = self._connection.rows(COUNT_CHILDREN, parent_id=compound.id)
        lacking = self._facts.lacking(compound.goal_id, compound.effects)
        return OpenCompound(compound, counts["children"], counts["open_children"], lacking)

    def _list(self, statement: str, **values: Value) -> tuple[Action, ...]:
        return tuple(map(_action, self._connection.rows(statement, **values)))


def _standing(action: Action) -> Standing:
    return {
        "id": action.id,
        "run_id": action.run_id,
        "goal_id": action.goal_id,
        "key": action.key,
        "kind": action.kind,
        "status": status_of(action.state),
    }


def _check(row: Standing, steps: Sequence[tuple[str, str | None]]) -> None:
    """Return if each step is legal after the one before it; raises IllegalMove otherwise."""
    moves = COMPOUND_MOVES if row["kind"] == "compound" else PRIMITIVE_MOVES
    was = row["status"]
    for status, _ in steps:
        if was not in moves.get(status, frozenset()):
            raise illegal_move("action", row["key"], was, status)
        was = status


def _side(action: Action, assertion: Assertion) -> dict[str, Value]:
    return {"action_id": action.id, "goal_id": action.goal_id, "assertion": assertion}


def _columns(action: Action) -> dict[str, Value]:
    return {
        "id": action.id,
        "run_id": action.run_id,
        "goal_id": action.goal_id,
        "parent_id": action.parent_id,
        "position": action.position,
        "key": action.key,
        "description": action.description,
        "kind": action.kind,
        "method": action.method,
        "role": action.role,
        "preconditions": ASSERTIONS.write(action.preconditions),
        "effects": ASSERTIONS.write(action.effects),
        "files": NAMES.write(action.files),
        "contract": CONTRACT.write(action.contract),
        "status": status_of(action.state),
        "reason": reason_of(action.state),
        "result": action.result,
        "guidance": action.guidance,
        "extra_attempts": action.extra_attempts,
        "created_at": stamp(action.created_at),
        "updated_at": stamp(action.updated_at),
    }


_state = functools.lru_cache(maxsize=1024)(action_state)
"""Most actions share a state with others; reading it back word by word is the dearest part of reading an action."""


def _action(row: Row) -> Action:
    return Action(
        id=row["id"],
        run_id=row["run_id"],
        goal_id=row["goal_id"],
        parent_id=row["parent_id"],
        key=row["key"],
        description=row["description"],
        kind=row["kind"],
        method=row["method"],
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
        extra_attempts=row["extra_attempts"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
    )
