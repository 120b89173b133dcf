"""The progress of a plan: the statuses of its actions, the facts that hold, and what is left to do."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from scaffold.core.ids import ActionId, ActionKey, Assertion
from scaffold.core.plan import GoalSpec, Plan
from scaffold.plan.graph.readiness import DEAD_STATUSES, ActionNode, blocked_by_failure

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


def settled_progress(plan: Plan, progress: PlanProgress) -> PlanProgress:
    """Return the progress with those actions pending again that no failure blocks any more."""
    # Blocks are computed again: a change may have removed the failed action, or added another provider.
    freed = replace(progress, statuses={key: was for key, was in progress.statuses.items() if was != "blocked"})
    statuses = dict(freed.statuses)
    for goal in plan.goals:
        lost = map(ActionKey, blocked_by_failure(freed.nodes(goal), progress.held(goal.name)))
        statuses |= {key: "blocked" for key in lost if progress.status(key) == "blocked"}
    return replace(progress, statuses=statuses)


def without_dead_actions(plan: Plan, progress: PlanProgress) -> Plan:
    """Return the plan without actions that can no longer make anything true; their started children lose the parent."""
    # Blocked actions stay: the findings name them, and they run again once the failure is repaired.
    dead = {action.key for action in plan.actions if progress.status(action.key) in DEAD_STATUSES - {"blocked"}}
    return Plan(
        goals=tuple(
            replace(
                goal,
                actions=tuple(
                    replace(action, parent=None)
                    if action.parent in dead and progress.status(action.key) in STARTED_STATUSES
                    else action
                    for action in goal.actions
                    if action.key not in dead
                ),
            )
            for goal in plan.goals
        )
    )
