"""Small plans for tests: `action("two", "a b", "c")` needs `a` and `b`, and makes `c` true."""

from collections.abc import Sequence
from typing import Any

from scaffold.core.ids import ActionId, ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.graph.readiness import ActionNode


def assertions(words: str) -> tuple[Assertion, ...]:
    return tuple(Assertion(word) for word in words.split())


def action(key: str, needs: str = "", gives: str = "", **fields: Any) -> ActionSpec:
    return ActionSpec(key=ActionKey(key), preconditions=assertions(needs), effects=assertions(gives), **fields)


def compound(key: str, needs: str = "", gives: str = "", **fields: Any) -> ActionSpec:
    return action(key, needs, gives, kind="compound", **fields)


def goal(wanted: str, *actions: ActionSpec, name: str = "g") -> GoalSpec:
    return GoalSpec(name=name, goal_state=assertions(wanted), actions=actions)


def plan(wanted: str, *actions: ActionSpec, name: str = "g") -> Plan:
    return Plan(goals=(goal(wanted, *actions, name=name),))


def independent(count: int, name: str = "g") -> GoalSpec:
    """Return a goal of so many actions that can all run at the same time."""
    effects = [f"{name}{number}" for number in range(count)]
    return goal(" ".join(effects), *(action(effect, gives=effect) for effect in effects), name=name)


def node(
    key: str, status: str = "pending", *, needs: str = "", gives: str = "", parent: Any = None, kind: Any = "primitive"
) -> ActionNode:
    return ActionNode(ActionId(key), parent, assertions(needs), assertions(gives), status, kind)


def ready_actions(actions: Sequence[ActionNode], facts: frozenset[Assertion]) -> tuple[ActionId, ...]:
    """Return the actions that may start, in order: pending, all preconditions hold, the parent (if any) is running.

    The specification in its simplest form, to compare with: the store and `ReadyQueue` maintain counters instead.
    """
    running = {action.id for action in actions if action.status == "running"}
    return tuple(
        action.id
        for action in actions
        if action.status == "pending"
        and facts.issuperset(action.preconditions)
        and (action.parent_id is None or action.parent_id in running)
    )
