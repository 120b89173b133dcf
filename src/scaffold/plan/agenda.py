"""Who is ready in one goal, kept up to date change by change: what the store keeps in tables, kept in memory."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from scaffold.core.ids import ActionId, Assertion
from scaffold.plan.readiness import Node

OPEN = frozenset({"pending", "running", "verifying", "landing"})
"""Statuses of actions that may still do something."""


class Agenda:
    """The actions of one goal with counters of what each waits for; a change costs only those who wait for it.

    `readiness.ready` defines who is ready, and after any changes both say the same.
    """

    def __init__(self, actions: Iterable[Node], facts: Iterable[Assertion] = ()) -> None:
        """Take the actions in plan order, ids unique, and what holds."""
        self._actions = {action.id: action for action in actions}
        self._order: Sequence[ActionId] = tuple(self._actions)
        self._places = {action_id: place for place, action_id in enumerate(self._order)}
        self._facts = set(facts)
        self._needers: dict[Assertion, list[ActionId]] = {}
        self._children: dict[ActionId, list[ActionId]] = {}
        self._open_children = dict.fromkeys(self._order, 0)
        self._tally = Counter(action.status for action in self._actions.values())
        self._unmet: dict[ActionId, int] = {}
        self._ready: list[int] = []
        for action in self._actions.values():
            self._enter(action)

    @property
    def facts(self) -> frozenset[Assertion]:
        """What holds now."""
        return frozenset(self._facts)

    @property
    def actions(self) -> tuple[Node, ...]:
        """The actions as they stand now, in plan order."""
        return tuple(self._actions.values())

    def action(self, action_id: ActionId) -> Node:
        """Return one action as it stands now."""
        return self._actions[action_id]

    def ready(self, limit: int | None = None) -> tuple[ActionId, ...]:
        """Return the first `limit` actions that may start, all if None, in plan order."""
        return tuple(self._order[place] for place in self._ready[:limit])

    def lacking(self, assertions: Iterable[Assertion]) -> tuple[Assertion, ...]:
        """Return those of `assertions` that do not hold, in order."""
        return tuple(assertion for assertion in assertions if assertion not in self._facts)

    def tally(self, status: str) -> int:
        """Return how many actions have this status."""
        return self._tally[status]

    def open_children(self, compound: ActionId) -> int:
        """Return how many direct children may still do something."""
        return self._open_children[compound]

    def awaited(self, action_id: ActionId) -> bool:
        """Tell whether anybody needs what the action gives, or is its child."""
        effects = self._actions[action_id].effects
        return action_id in self._children or any(effect in self._needers for effect in effects)

    def shown(self, assertion: Assertion) -> None:
        """Make an assertion hold; nothing changes if it does already."""
        if assertion not in self._facts:
            self._facts.add(assertion)
            self._shift(self._needers.get(assertion, ()), -1)

    def withdrawn(self, assertion: Assertion) -> None:
        """Make an assertion not hold, stale or refuted; nothing changes if it does not already."""
        if assertion in self._facts:
            self._facts.remove(assertion)
            self._shift(self._needers.get(assertion, ()), 1)

    def moved(self, action_id: ActionId, status: str) -> None:
        """Note the new status of an action, whichever it had."""
        action = self._actions[action_id]
        self._actions[action_id] = replace(action, status=status)
        self._tally[action.status] -= 1
        self._tally[status] += 1
        if action.parent_id in self._open_children:
            self._open_children[action.parent_id] += (status in OPEN) - (action.status in OPEN)
        if step := (action.status == "running") - (status == "running"):
            self._shift(self._children.get(action_id, ()), step)
        self._place(action_id)

    def _enter(self, action: Node) -> None:
        needs = set(action.preconditions)
        for need in needs:
            self._needers.setdefault(need, []).append(action.id)
        self._unmet[action.id] = len(needs - self._facts)
        if action.parent_id is not None:
            parent = self._actions.get(action.parent_id)
            self._children.setdefault(action.parent_id, []).append(action.id)
            self._unmet[action.id] += parent is None or parent.status != "running"
            if parent is not None:
                self._open_children[parent.id] += action.status in OPEN
        self._place(action.id)

    def _shift(self, actions: Collection[ActionId], step: int) -> None:
        for action_id in actions:
            self._unmet[action_id] += step
            self._place(action_id)

    def _place(self, action_id: ActionId) -> None:
        """Put the action among the ready, in plan order, or take it out, whichever is due."""
        place = self._places[action_id]
        at = bisect_left(self._ready, place)
        listed = at < len(self._ready) and self._ready[at] == place
        due = self._actions[action_id].status == "pending" and self._unmet[action_id] == 0
        if due and not listed:
            self._ready.insert(at, place)
        elif listed and not due:
            del self._ready[at]
