"""How far a plan is: what became of its actions, and what holds."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from scaffold.core.ids import ActionId, Assertion, Key
from scaffold.core.plan import GoalSpec
from scaffold.plan.readiness import Node

BEGUN = frozenset({"running", "verifying", "landing", "completed"})
"""Statuses of actions that must not be taken from under whoever works on them, or relies on their work."""


class Standing(Struct, frozen=True, kw_only=True):
    """Where a plan stands; the one without arguments is that of a plan that nobody has begun."""

    statuses: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))
    """The words users see; who is not named is pending."""
    facts: Mapping[str, Collection[Assertion]] = field(default_factory=lambda: MappingProxyType({}))
    """What holds, by the name of the goal."""

    def status(self, key: Key) -> str:
        """Return the status of the action of that key."""
        return self.statuses.get(key, "pending")

    def held(self, goal: str) -> frozenset[Assertion]:
        """Return what holds in the goal of that name."""
        return frozenset(self.facts.get(goal, ()))

    def nodes(self, goal: GoalSpec) -> tuple[Node, ...]:
        """Return the actions of `goal` as readiness sees them; their keys are their ids."""
        return tuple(
            Node(
                id=ActionId(action.key),
                parent_id=None if action.parent is None else ActionId(action.parent),
                preconditions=action.preconditions,
                effects=action.effects,
                status=self.status(action.key),
                kind=action.kind,
            )
            for action in goal.actions
        )
