"""All that is known of a run at one moment, read from the store in one piece."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from scaffold.cli.reader import Readable, shown_status
from scaffold.core.ids import ActionId, Assertion, GoalId
from scaffold.core.model import Action, Attempt, Fact, Goal, InboxItem, Run, Turn, Usage
from scaffold.core.states import WORKER_PHASES, status_of, waits_for
from scaffold.store.database import Store

STEADY_TRIES = 5
STILL_OPEN = frozenset({"pending", "running", "verifying", "landing", "blocked", "failed"})
GOING_ON = frozenset({"planning", "active"})
"""What a run is shown as while a living process carries it out."""

Failures = Mapping[ActionId, int]


class Progress(Struct, frozen=True):
    """How many children a compound has, and how many of them are done."""

    done: int
    children: int


class Picture(Struct, frozen=True, kw_only=True):
    """A run with its goals, actions, attempts and facts, as they were together at one moment."""

    at: datetime
    run: Run
    status: str
    """What people see: `interrupted` for a run whose owner died."""
    spent: Usage
    reserved_usd: float
    """Set aside for requests that are under way."""
    turns: tuple[Turn, ...]
    """Those of the planner and of supervisors' agents that go on."""
    at_work: Mapping[GoalId, int]
    """How many attempts of each goal take a slot."""
    progress: Mapping[ActionId, Progress]
    """By compound that was broken down."""
    failures: Failures
    """How many own failures count toward the maximum, of open actions that were begun."""
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

    @property
    def last_change(self) -> datetime:
        """Return when the run, or one of its actions, was last seen to change."""
        return max((self.run.updated_at, *(action.updated_at for action in self.actions)))

    @property
    def planning(self) -> bool:
        """Tell whether the planner is at it just now."""
        return self.status in GOING_ON and any(turn.goal_id is None for turn in self.turns)

    def asks(self, attempt: Attempt) -> bool:
        """Tell whether a human must decide before the attempt, or the one after it, goes on."""
        if attempt.outcome is None:
            return any(item.action_id == attempt.action_id and item.kind != "notice" for item in self.inbox)
        if attempt.outcome != "waiting":
            return False
        action = next(action for action in self.actions if action.id == attempt.action_id)
        return waits_for(action.state) is not None and self.attempts_of(action)[-1:] == (attempt,)

    def holding(self, goal: Goal) -> frozenset[Assertion]:
        """Return what holds in the goal."""
        return frozenset(fact.assertion for fact in self.facts[goal.id] if fact.state == "holds")


def take(reader: Readable, run: Run) -> Picture:
    """Return a picture of the run.

    Should another process write meanwhile, it is taken anew, so that its parts fit together.
    """
    version = reader.store.data_version()
    picture = _take(reader, run)
    for _ in range(STEADY_TRIES):
        if (now := reader.store.data_version()) == version:
            break
        version, picture = now, _take(reader, run)
    return picture


def _take(reader: Readable, run: Run) -> Picture:
    store = reader.store
    run = store.runs.get(run.id) or run
    goals = store.goals.of_run(run.id)
    attempts = sorted(store.attempts.of_run(run.id), key=lambda attempt: (attempt.action_id, attempt.number))
    by_action = {action_id: tuple(group) for action_id, group in groupby(attempts, lambda attempt: attempt.action_id)}
    actions = store.actions.of_run(run.id)
    return Picture(
        at=reader.clock.now(),
        run=run,
        status=shown_status(run),
        spent=store.runs.spent(run.id),
        reserved_usd=store.runs.reserved(run.id),
        turns=store.turns.open_of_run(run.id),
        at_work=_at_work(actions, by_action),
        progress=_progress(actions),
        failures=_failures(store, actions, by_action),
        goals=goals,
        actions=actions,
        attempts=by_action,
        facts={goal.id: store.facts.of_goal(goal.id) for goal in goals},
        queue=store.attempts.waiting_to_land(run.id),
        inbox=store.inbox.open_of_run(run.id),
    )


def _at_work(actions: Sequence[Action], attempts: Mapping[ActionId, Sequence[Attempt]]) -> Mapping[GoalId, int]:
    lasts = ((action.goal_id, attempts[action.id][-1]) for action in actions if action.id in attempts)
    return Counter(goal for goal, last in lasts if last.status != "ended" and last.phase in WORKER_PHASES)


def _progress(actions: Sequence[Action]) -> Mapping[ActionId, Progress]:
    found: dict[ActionId, Progress] = {}
    for child in actions:
        if child.parent_id is not None:
            so_far = found.get(child.parent_id, Progress(0, 0))
            done = status_of(child.state) in {"completed", "skipped"}
            found[child.parent_id] = Progress(so_far.done + done, so_far.children + 1)
    return found


def _failures(store: Store, actions: Sequence[Action], attempts: Mapping[ActionId, Sequence[Attempt]]) -> Failures:
    tried = [action for action in actions if action.id in attempts and status_of(action.state) in STILL_OPEN]
    return {action.id: store.actions.failures(action.id) for action in tried}
