"""All that is known of a run at one moment, read from the store in one piece."""

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from scaffold.cli.desk import Readable, shown_status
from scaffold.core.events import RunTaken
from scaffold.core.ids import ActionId, Assertion, GoalId
from scaffold.core.model import Action, Attempt, Fact, Goal, InboxItem, Run, Usage
from scaffold.store.database import Store

STEADY_TRIES = 5
EVENTS_AT_ONCE = 500
GOING_ON = frozenset({"planning", "active"})
"""What a run is shown as while a living process carries it out."""


class Supervision(Struct, frozen=True):
    """The process that carries a run out."""

    pid: int
    since: datetime | None


class Picture(Struct, frozen=True, kw_only=True):
    """A run with its goals, actions, attempts and facts, as they were together at one moment."""

    at: datetime
    run: Run
    status: str
    """What people see: `interrupted` for a run whose owner died."""
    spent: Usage
    reserved_usd: float
    """Set aside for requests that are under way."""
    supervision: Supervision | None
    """None where no living process carries the run out."""
    goals: tuple[Goal, ...]
    actions: tuple[Action, ...]
    """In plan order."""
    attempts: Mapping[ActionId, tuple[Attempt, ...]]
    """By action, oldest first; actions without any are left out."""
    facts: Mapping[GoalId, tuple[Fact, ...]]
    queue: tuple[Attempt, ...]
    """Candidates that wait to land, first come first."""
    inbox: tuple[InboxItem, ...]
    """What waits for a human, oldest first."""

    def actions_of(self, goal: Goal) -> tuple[Action, ...]:
        """Return the goal's actions in plan order."""
        return tuple(action for action in self.actions if action.goal_id == goal.id)

    def attempts_of(self, action: Action) -> tuple[Attempt, ...]:
        """Return the action's attempts, oldest first."""
        return self.attempts.get(action.id, ())

    def holding(self, goal: Goal) -> frozenset[Assertion]:
        """Return what holds in the goal."""
        return frozenset(fact.assertion for fact in self.facts[goal.id] if fact.state == "holds")


def take(desk: Readable, run: Run) -> Picture:
    """Return a picture of the run.

    Should another process write meanwhile, it is taken anew, so that its parts fit together.
    """
    version = desk.store.data_version()
    picture = _take(desk, run)
    for _ in range(STEADY_TRIES):
        if (now := desk.store.data_version()) == version:
            break
        version, picture = now, _take(desk, run)
    return picture


def _take(desk: Readable, run: Run) -> Picture:
    store = desk.store
    run = store.runs.get(run.id) or run
    goals = store.goals.of_run(run.id)
    attempts = sorted(store.attempts.of_run(run.id), key=lambda attempt: (attempt.action_id, attempt.number))
    status = shown_status(run)
    return Picture(
        at=desk.clock.now(),
        run=run,
        status=status,
        spent=store.runs.spent(run.id),
        reserved_usd=store.runs.reserved(run.id),
        supervision=_supervision(store, run, status),
        goals=goals,
        actions=store.actions.of_run(run.id),
        attempts={action_id: tuple(group) for action_id, group in groupby(attempts, lambda attempt: attempt.action_id)},
        facts={goal.id: store.facts.of_goal(goal.id) for goal in goals},
        queue=store.attempts.waiting_to_land(run.id),
        inbox=store.inbox.open_of_run(run.id),
    )


def _supervision(store: Store, run: Run, status: str) -> Supervision | None:
    if run.owner is None or status not in GOING_ON:
        return None
    return Supervision(run.owner.pid, _taken_at(store, run))


def _taken_at(store: Store, run: Run) -> datetime | None:
    """Return when the run's owner took it: the youngest such event, looked for from the end."""
    last = store.events.last_seq(run.id)
    while last > 0:
        first = max(0, last - EVENTS_AT_ONCE)
        for recorded in reversed(store.events.since(run.id, first, limit=EVENTS_AT_ONCE)):
            if isinstance(recorded.event, RunTaken):
                return recorded.at
        last = first
    return None
