"""The progress of a plan: its actions' statuses and the facts that hold."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from scaffold.core.ids import ActionId, ActionKey, Assertion
from scaffold.core.plan import GoalSpec
from scaffold.plan.graph.readiness import ActionNode

STARTED_STATUSES = frozenset({"running", "verifying", "landing", "completed"})
"""Statuses of actions that a plan change must not touch: they are being worked on, or others rely on them."""


class PlanProgress(Struct, frozen=True, kw_only=True):
    """The progress of a plan; without arguments, a plan that has not started."""

    statuses: Mapping[ActionKey, str] = field(default_factory=lambda: MappingProxyType({}))
    """Status words by action key; missing actions are pending."""
    facts: Mapping[str, Collection[Assertion]] = field(default_factory=lambda: MappingProxyType({}))
    """The assertions that hold, by goal name."""

    def status(self, key: ActionKey) -> str:
        """Return the status of the action with this key."""
        return self.statuses.get(key, "pending")

    def held(self, goal: str) -> frozenset[Assertion]:
        """Return the assertions that hold in the goal with this name."""
        return frozenset(self.facts.get(goal, ()))

    def nodes(self, goal: GoalSpec) -> tuple[ActionNode, ...]:
        """Return the actions of `goal` for `readiness`; their keys serve as ids."""
        return tuple(
            ActionNode(
                id=ActionId(action.key),
                parent_id=None if action.parent is None else ActionId(action.parent),
                preconditions=action.preconditions,
                effects=action.effects,
                status=self.status(action.key),
                kind=action.kind,
            )
            for action in goal.actions
        )
