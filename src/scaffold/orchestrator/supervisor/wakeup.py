"""Wake-ups for the tasks of one process, and which goals have changed, so that only their tasks are woken."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from scaffold.core.events import Event, GoalStatusChanged, PlanExtended, RunClaimed, RunStatusChanged
from scaffold.core.ids import ActionKey, GoalId, RunId
from scaffold.store.database import Store

EVENTS_AT_ONCE = 1000


class Wakeup:
    """Wakes all tasks that hold its next event; a wake-up between getting the event and waiting is not lost."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next_event(self) -> asyncio.Event:
        """Return the event that the next `notify_all` sets; get it, then check the state, then wait."""
        return self._next

    def notify_all(self) -> None:
        """Set the current event and start a new one."""
        self._next.set()
        self._next = asyncio.Event()


class Changes(Struct, frozen=True):
    """What commits have changed since the last call."""

    goals: frozenset[GoalId]
    """The goals that an event concerns."""
    statuses: bool
    """Whether a goal was added or changed its status."""


class GoalChanges:
    """Reads a run's new events; a commit without an event changes nothing that a decision depends on."""

    def __init__(self, store: Store, run_id: RunId) -> None:
        """Begin with the events that are committed from now on."""
        self._store = store
        self._run_id = run_id
        self._seq = store.events.last_seq(run_id)
        self._by_name: dict[str, GoalId] = {}
        self._by_action: dict[ActionKey, GoalId] = {}

    def read(self) -> Changes:
        """Return what has changed since the last call; the cost depends on the number of new events only."""
        goals: set[GoalId] = set()
        statuses, seq, is_full = False, self._seq, True
        while is_full:
            page = self._store.events.since(self._run_id, seq, limit=EVENTS_AT_ONCE)
            is_full = len(page) == EVENTS_AT_ONCE
            for recorded in page:
                seq = recorded.seq
                goals.update(self._concerned_goals(recorded.event))
                statuses = statuses or isinstance(recorded.event, GoalStatusChanged | PlanExtended)
        # Stored last, so that after an error of the database the next call reads all of them again.
        self._seq = seq
        return Changes(frozenset(goals), statuses)

    def _concerned_goals(self, event: Event) -> Iterable[GoalId]:
        if isinstance(event, RunClaimed | RunStatusChanged):
            return [goal.id for goal in self._store.goals.for_run(self._run_id)]
        # An event about one goal has a field `goal` with its name, or `action` with the key of one of its actions.
        name, key = getattr(event, "goal", None), getattr(event, "action", None)
        goal_id = self._goal_named(name) if name is not None else None if key is None else self._goal_of(key)
        return () if goal_id is None else (goal_id,)

    def _goal_named(self, name: str) -> GoalId | None:
        if name not in self._by_name and (goal := self._store.goals.by_name(self._run_id, name)) is not None:
            self._by_name[name] = goal.id
        return self._by_name.get(name)

    def _goal_of(self, key: ActionKey) -> GoalId | None:
        if key not in self._by_action and (action := self._store.actions.by_key(self._run_id, key)) is not None:
            self._by_action[key] = action.goal_id
        return self._by_action.get(key)
