"""All that is known of a run at one moment, read from the store in one piece."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion, GoalId
from scaffold.core.model import Action, Attempt, Fact, Goal, InboxItem, PlanningTurn, Run, Usage
from scaffold.core.states import WORKER_PHASES, awaited_inbox_id, status_of
from scaffold.store.database import Store
from scaffold.views.store_reader import StoreAccess, display_status

CONSISTENT_READ_TRIES = 5
OPEN_STATUSES = frozenset({"pending", "running", "verifying", "landing", "blocked", "failed"})
LIVE_STATUSES = frozenset({"planning", "active"})
"""What a run is shown as while a living process carries it out."""

FailureCounts = Mapping[ActionId, int]


class ChildProgress(Struct, frozen=True):
    """How many children a compound has, and how many of them are done."""

    done: int
    children: int


class RunView(Struct, frozen=True, kw_only=True):
    """A run with its goals, actions, attempts and facts, as they were together at one moment."""

    at: datetime
    run: Run
    status: str
    """What people see: `interrupted` for a run whose owner died."""
    spent: Usage
    reserved_usd: float
    """Set aside for requests that are under way."""
    turns: tuple[PlanningTurn, ...]
    """Those of the planner and of supervisors' agents that go on."""
    at_work: Mapping[GoalId, int]
    """How many attempts of each goal take a slot."""
    progress: Mapping[ActionId, ChildProgress]
    """By compound that was broken down."""
    failures: FailureCounts
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
        return self.status in LIVE_STATUSES and any(turn.goal_id is None for turn in self.turns)

    def asks(self, attempt: Attempt) -> bool:
        """Tell whether a human must decide before the attempt, or the one after it, goes on."""
        if attempt.outcome is None:
            return any(item.action_id == attempt.action_id and item.kind != "notice" for item in self.inbox)
        if attempt.outcome != "waiting":
            return False
        action = next(action for action in self.actions if action.id == attempt.action_id)
        return awaited_inbox_id(action.state) is not None and self.attempts_of(action)[-1:] == (attempt,)

    def holding(self, goal: Goal) -> frozenset[Assertion]:
        """Return what holds in the goal."""
        return frozenset(fact.assertion for fact in self.facts[goal.id] if fact.state == "holds")


def read_run_view(reader: StoreAccess, run: Run) -> RunView:
    """Return a picture of the run.

    Should another process write meanwhile, it is taken anew, so that its parts fit together.
    """
    version = reader.store.data_version()
    picture = _read_once(reader, run)
    for _ in range(CONSISTENT_READ_TRIES):
        if (now := reader.store.data_version()) == version:
            break
        version, picture = now, _read_once(reader, run)
    return picture


def _read_once(reader: StoreAccess, run: Run) -> RunView:
    store = reader.store
    run = store.runs.get(run.id) or run
    goals = store.goals.of_run(run.id)
    attempts = sorted(store.attempts.of_run(run.id), key=lambda attempt: (attempt.action_id, attempt.number))
    by_action = {action_id: tuple(group) for action_id, group in groupby(attempts, lambda attempt: attempt.action_id)}
    actions = store.actions.of_run(run.id)
    return RunView(
        at=reader.clock.now(),
        run=run,
        status=display_status(run),
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


def _progress(actions: Sequence[Action]) -> Mapping[ActionId, ChildProgress]:
    found: dict[ActionId, ChildProgress] = {}
    for child in actions:
        if child.parent_id is not None:
            so_far = found.get(child.parent_id, ChildProgress(0, 0))
            done = status_of(child.state) in {"completed", "skipped"}
            found[child.parent_id] = ChildProgress(so_far.done + done, so_far.children + 1)
    return found


def _failures(store: Store, actions: Sequence[Action], attempts: Mapping[ActionId, Sequence[Attempt]]) -> FailureCounts:
    tried = [action for action in actions if action.id in attempts and status_of(action.state) in OPEN_STATUSES]
    return {action.id: store.actions.failures(action.id) for action in tried}
