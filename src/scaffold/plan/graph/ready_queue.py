"""The ready actions of one goal, updated incrementally in memory; the store does the same with tables."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from scaffold.core.ids import ActionId, Assertion
from scaffold.plan.graph.readiness import ActionNode

OPEN_STATUSES = frozenset({"pending", "running", "verifying", "landing"})
"""Statuses of actions that have not ended."""


class ReadyQueue:
    """The actions of one goal with a counter of unmet needs each; an update costs only the actions that depend on it.

    An action is ready while it is pending, all its preconditions hold, and its parent, if any, is running.
    """

    def __init__(self, actions: Iterable[ActionNode], facts: Iterable[Assertion] = ()) -> None:
        """Take the actions in plan order, with unique ids, and the facts that hold."""
        self._actions = {action.id: action for action in actions}
        self._order: Sequence[ActionId] = tuple(self._actions)
        self._positions = {action_id: position for position, action_id in enumerate(self._order)}
        self._facts = set(facts)
        self._dependents: dict[Assertion, list[ActionId]] = {}
        self._children: dict[ActionId, list[ActionId]] = {}
        self._open_children = dict.fromkeys(self._order, 0)
        self._unmet: dict[ActionId, int] = {}
        self._ready: list[int] = []
        for action in self._actions.values():
            needs = set(action.preconditions)
            for need in needs:
                self._dependents.setdefault(need, []).append(action.id)
            self._unmet[action.id] = len(needs - self._facts)
            if action.parent_id is not None:
                parent = self._actions.get(action.parent_id)
                self._children.setdefault(action.parent_id, []).append(action.id)
                # A parent that does not run counts as one more unmet need.
                self._unmet[action.id] += parent is None or parent.status != "running"
                if parent is not None:
                    self._open_children[parent.id] += action.status in OPEN_STATUSES
            self._update_ready(action.id)

    @property
    def facts(self) -> frozenset[Assertion]:
        """The assertions that hold now."""
        return frozenset(self._facts)

    @property
    def actions(self) -> tuple[ActionNode, ...]:
        """The actions with their current status, in plan order."""
        return tuple(self._actions.values())

    def action(self, action_id: ActionId) -> ActionNode:
        """Return one action with its current status."""
        return self._actions[action_id]

    def ready(self, limit: int | None = None) -> tuple[ActionId, ...]:
        """Return the first `limit` ready actions in plan order; all of them if None."""
        return tuple(self._order[position] for position in self._ready[:limit])

    def iterate_ready(self) -> Iterator[ActionId]:
        """Yield the ready actions in plan order; nothing may change meanwhile."""
        return (self._order[position] for position in self._ready)

    def lacking(self, assertions: Iterable[Assertion]) -> tuple[Assertion, ...]:
        """Return the `assertions` that do not hold, in order."""
        return tuple(assertion for assertion in assertions if assertion not in self._facts)

    def open_children(self, compound: ActionId) -> int:
        """Return the number of direct children that have not ended."""
        return self._open_children[compound]

    def awaited(self, action_id: ActionId) -> bool:
        """Return whether another action needs an effect of this one, or is its child."""
        # Only then can a failure of it keep something from running.
        effects = self._actions[action_id].effects
        return action_id in self._children or any(effect in self._dependents for effect in effects)

    def add_fact(self, assertion: Assertion) -> None:
        """Make an assertion hold; does nothing if it already holds."""
        if assertion not in self._facts:
            self._facts.add(assertion)
            self._shift_unmet(self._dependents.get(assertion, ()), -1)

    def set_status(self, action_id: ActionId, status: str) -> None:
        """Set the status of an action; any change is accepted."""
        action = self._actions[action_id]
        self._actions[action_id] = replace(action, status=status)
        if action.parent_id in self._open_children:
            self._open_children[action.parent_id] += (status in OPEN_STATUSES) - (action.status in OPEN_STATUSES)
        # Leaving `running` adds an unmet need to each child (+1), entering it removes one (-1).
        if step := (action.status == "running") - (status == "running"):
            self._shift_unmet(self._children.get(action_id, ()), step)
        self._update_ready(action_id)

    def _shift_unmet(self, actions: Collection[ActionId], step: int) -> None:
        for action_id in actions:
            self._unmet[action_id] += step
            self._update_ready(action_id)

    def _update_ready(self, action_id: ActionId) -> None:
        position = self._positions[action_id]
        # The list stays sorted by plan order, so the first ready actions are a slice of it.
        at = bisect_left(self._ready, position)
        listed = at < len(self._ready) and self._ready[at] == position
        ready = self._actions[action_id].status == "pending" and self._unmet[action_id] == 0
        if ready and not listed:
            self._ready.insert(at, position)
        elif listed and not ready:
            del self._ready[at]
