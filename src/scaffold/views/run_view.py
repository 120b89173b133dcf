"""The read model of a run for every interface: its state at one moment, read from the store in one snapshot.

`RunSummary` costs the same in plans of any size, so a screen can read it every second. `RunView` adds the whole plan.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.change_approval import subject_of
from scaffold.core.ids import ActionId, Assertion, AttemptId, GoalId
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.landing.queue_place import QueuePlace
from scaffold.core.model import (
    Action,
    Assumption,
    Attempt,
    Fact,
    FileGrant,
    Goal,
    InboxItem,
    PlanningTurn,
    ProcessIdentity,
    Run,
    Usage,
)
from scaffold.core.states import INTERRUPTED, Active, Pending, awaited_inbox_id, reason_of, status_of
from scaffold.host.process_identity import has_exited
from scaffold.host.startup import importing
from scaffold.plan.budget import BudgetUse
from scaffold.plan.collisions.rules import HeldBack
from scaffold.plan.review_rates import unreliable_text
from scaffold.plan.slot_shares import free_slots
from scaffold.run.collision_board import held_back_actions
from scaffold.store.spending.run_budget import budget_use
from scaffold.views.agent_list import (
    MERGE_QUEUE,
    ORCHESTRATOR,
    PLANNER,
    AgentListInput,
    AgentRow,
    agent_rows,
    busy_rows,
    owned_since,
)
from scaffold.views.compliance import Compliance, read_compliance
from scaffold.views.state_labels import ending_note
from scaffold.views.store_reader import StoreAccess, display_status, is_executed
from scaffold.views.waiting import WaitingEntry, read_items


class GoalProgress(Struct, frozen=True):
    """The progress of one goal in numbers."""

    name: str
    status: str
    held: int
    """The number of desired assertions that hold."""
    desired: int
    status_counts: Mapping[str, int]
    """The number of its actions in each status."""


TakingOrder = Literal["greenfield", "pr"]
"""The order given to `run` or `resume` for the work at the end of the run."""


class Taken(Struct, frozen=True, kw_only=True):
    """The user's part of a run's work."""

    moves: tuple[BranchMove, ...] = ()
    """To branches that still have it, and by pull requests; oldest first."""
    whole: bool = False
    """Whether the base branch has all that landed."""
    order: TakingOrder | None = None
    """The order for the end of a completed run that is not done yet."""


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run without its plan: its spending, the progress of its goals, its agents, the items that need a human."""

    at: datetime
    run: Run
    status: str
    """The status for people: `interrupted` for a run whose owner died."""
    spent: Usage
    budget: BudgetUse
    goals: tuple[GoalProgress, ...]
    turns: tuple[PlanningTurn, ...]
    """The open turns of the planner and of supervisors' agents."""
    agents: tuple[AgentRow, ...]
    """A row for each process and each agent, the owner first."""
    waiting: tuple[WaitingEntry, ...]
    """The open items of the inbox, oldest first; whether the run itself waits for a human is its status."""
    is_live: bool
    """Whether a living process owns the run."""
    taken: Taken = Taken()
    """What the user has of its work; empty until `views/changes/taken_work.py` has asked git."""

    @property
    def inbox(self) -> tuple[InboxItem, ...]:
        """Return the open items, oldest first."""
        return tuple(entry.item for entry in self.waiting if entry.item is not None)

    @property
    def waits_for(self) -> str:
        """Return the endpoint that the run waits for, and until when; empty if it waits for none."""
        return self.run.waits_for if self.is_live else ""

    @property
    def reason(self) -> str | None:
        """Return the reason for the run's status; None for an interrupted run."""
        return None if self.status == INTERRUPTED else reason_of(self.run.state)

    @property
    def ending(self) -> str:
        """Return how a run that was asked to end does so, e.g. `pausing, 1 agent is finishing`; else empty."""
        request = self.run.request_to_owner if self.is_live else None
        if request is None or request == "resume":
            return ""
        rows = [row for row in self.active_agents if not row.needs_you and row.role != ORCHESTRATOR]
        landing = sum(row.waits_on == MERGE_QUEUE for row in rows)
        return ending_note(request, working=len(rows) - landing, landing=landing)

    @property
    def planning(self) -> bool:
        """Return whether the planner is running."""
        return self.is_live and any(turn.goal_id is None for turn in self.turns)

    @property
    def processes(self) -> tuple[AgentRow, ...]:
        """Return the rows of processes: owner, planner, supervisors, workers."""
        return tuple(row for row in self.agents if row.pid is not None or row.role == PLANNER)

    @property
    def active_agents(self) -> tuple[AgentRow, ...]:
        """Return the rows of agents that work, have handed in, or wait for a human; those that need a human first."""
        rows = [row for row in self.agents if row.active]
        return tuple(
            sorted(rows, key=lambda row: (not row.needs_you, row.waits_on == MERGE_QUEUE, row.attempt is None))
        )


class ChildProgress(Struct, frozen=True):
    """The number of a compound's children, and of the completed ones."""

    done: int
    children: int


class RunView(Struct, frozen=True, kw_only=True):
    """A run with its goals, actions, attempts and facts at one moment."""

    summary: RunSummary
    goals: tuple[Goal, ...]
    actions: tuple[Action, ...]
    """In plan order."""
    attempts: Mapping[ActionId, tuple[Attempt, ...]]
    """By action, oldest first; actions without any are left out."""
    grants: Mapping[ActionId, tuple[FileGrant, ...]]
    """Entries added to the files of actions at their agents' request; actions without any are left out."""
    facts: Mapping[GoalId, tuple[Fact, ...]]
    queue: tuple[Attempt, ...]
    """Candidates that wait to land, in landing order if all pass."""
    places: Mapping[AttemptId, QueuePlace]
    """What each candidate waits for, as last arranged by the owner; one that waits alone is left out."""
    held_back: Mapping[ActionId, HeldBack]
    """Why ready actions may not start beside running ones; the others are left out."""
    slots_taken: Mapping[GoalId, int]
    """The slots taken by the attempts of each goal."""
    progress: Mapping[ActionId, ChildProgress]
    """By compound that was broken down."""
    failures: Mapping[ActionId, int]
    """The failures of an action that count toward its maximum; actions without any are left out."""
    exited: frozenset[ProcessIdentity]
    """Supervisors, and workers of open attempts, that no longer run."""
    compliance: Compliance | None = None
    """The audits of the specification; None for a run that is not audited."""

    unreliable_reviewer: str = ""
    """The notice that approvals of the run's second reviewer do not count; empty if they do, or if it has none."""
    assumptions: tuple[Assumption, ...] = ()
    """Assumptions of agents that asked no human, oldest first."""

    @property
    def run(self) -> Run:
        """Return the run itself."""
        return self.summary.run

    @property
    def status(self) -> str:
        """Return the run's status as people see it."""
        return self.summary.status

    @property
    def last_change(self) -> datetime:
        """Return when the run, or one of its actions, last changed."""
        return max((self.run.updated_at, *(action.updated_at for action in self.actions)))

    @property
    def is_taken(self) -> bool:
        """Return whether the base branch has all that landed."""
        return self.summary.taken.whole

    @property
    def landing_backlog(self) -> int:
        """Return the number of candidates that keep ready work from starting; 0 if landing keeps up."""
        agents, taken = self.run.agents, sum(self.slots_taken.values())
        unlanded = sum(each.outcome is None for attempts in self.attempts.values() for each in attempts)
        # With every agent at work, it is their number that holds the run back.
        if not self.summary.is_live or taken >= agents or free_slots(agents, taken=taken, unlanded=unlanded):
            return 0
        active = {goal.id for goal in self.goals if isinstance(goal.state, Active)}
        primitives = (action for action in self.actions if action.kind == "primitive" and action.goal_id in active)
        waits = any(isinstance(action.state, Pending) and not action.unmet for action in primitives)
        return len(self.queue) if waits else 0

    def actions_of(self, goal: Goal) -> tuple[Action, ...]:
        """Return the goal's actions in plan order."""
        return tuple(action for action in self.actions if action.goal_id == goal.id)

    def attempts_of(self, action: Action) -> tuple[Attempt, ...]:
        """Return the action's attempts, oldest first."""
        return self.attempts.get(action.id, ())

    def attempts_allowed(self, action: Action) -> int:
        """Return the number of failures that the action may have: a failed step fails its story."""
        return (1 if action.method == "story" else self.run.settings.limits.attempts) + action.extra_attempts

    def holding(self, goal: Goal) -> frozenset[Assertion]:
        """Return the assertions that hold in the goal."""
        return frozenset(fact.assertion for fact in self.facts[goal.id] if fact.state == "holds")

    def facts_of(self, goal: Goal) -> tuple[Fact, ...]:
        """Return the goal's facts about the branch, without facts that only order steps."""
        return tuple(fact for fact in self.facts[goal.id] if not fact.only_orders)

    def asks(self, action: Action, attempt: Attempt) -> bool:
        """Return whether a human must decide before the action's attempt, or the one after it, continues."""
        if attempt.outcome is None:
            place = self.places.get(attempt.id)
            is_change = place is not None and place.state == "approval"
            return is_change or any(item.id == attempt.waits_for for item in self.summary.inbox)
        waits = attempt.outcome == "waiting" and awaited_inbox_id(action.state) is not None
        return waits and self.attempts_of(action)[-1:] == (attempt,)


def read_summary(reader: StoreAccess, run: Run) -> RunSummary:
    """Return the run's summary as it is now."""
    with reader.store.snapshot():
        return _run_summary(reader, run)


def read_work(reader: StoreAccess, run: Run) -> tuple[Sequence[AgentRow], str]:
    """Return the rows of what has an activity now, and the endpoint that the run waits for, if it does."""
    store = reader.store
    with store.snapshot():
        now = store.runs.get(run.id) or run
        found = store.activities.for_run(run.id, fence=now.fence) if is_executed(now) else ()
        # Asked once a second as long as a run lasts, and most of the time nothing lasts as long.
        if not found:
            return (), now.waits_for if is_executed(now) else ""
        work = AgentListInput(
            run=now,
            status=display_status(now),
            goals={goal.id: goal for goal in store.goals.for_run(run.id)},
            turns=(),
            inbox=store.inbox.open_of_run(run.id),
            activities={each.attempt_id: each for each in found},
        )
        return tuple(busy_rows(store, work)), now.waits_for


def read_run_view(reader: StoreAccess, run: Run) -> RunView:
    """Return everything about the run as it is now."""
    # One snapshot: a landing between two reads would show a fact without its attempt.
    with reader.store.snapshot():
        return _run_view(reader, run)


def read_processes(reader: StoreAccess, run: Run) -> tuple[AgentRow, ...]:
    """Return the current processes of a run; the owner's has the time when it claimed the run."""
    rows = read_summary(reader, run).processes
    since = owned_since(reader.store, run)
    return tuple(structs.replace(row, since=since) if row.role == ORCHESTRATOR else row for row in rows)


def _run_summary(reader: StoreAccess, run: Run) -> RunSummary:
    store = reader.store
    run = store.runs.get(run.id) or run
    goals = store.goals.for_run(run.id)
    turns = store.turns.open_of_run(run.id)
    inbox = store.inbox.open_of_run(run.id)
    status = display_status(run)
    activities = store.activities.for_run(run.id, fence=run.fence) if is_executed(run) else ()
    open_work = AgentListInput(
        run=run,
        status=status,
        goals={goal.id: goal for goal in goals},
        turns=turns,
        inbox=inbox,
        activities={each.attempt_id: each for each in activities},
    )
    held = {goal.id: store.facts.holding(goal.id) & set(goal.desired) for goal in goals}
    return RunSummary(
        at=reader.clock.now(),
        run=run,
        status=status,
        spent=store.runs.spent(run.id),
        budget=budget_use(store, run),
        goals=tuple(
            GoalProgress(
                each.name, status_of(each.state), len(held[each.id]), len(each.desired), store.actions.tally(each.id)
            )
            for each in goals
        ),
        turns=turns,
        agents=tuple(agent_rows(store, open_work)),
        waiting=read_items(reader, inbox),
        is_live=is_executed(run),
    )


def _run_view(reader: StoreAccess, run: Run) -> RunView:
    store = reader.store
    summary = _run_summary(reader, run)
    goals = store.goals.for_run(run.id)
    actions = store.actions.for_run(run.id)
    attempts = sorted(store.attempts.for_run(run.id), key=lambda attempt: (attempt.action_id, attempt.number))
    by_action = {action_id: tuple(group) for action_id, group in groupby(attempts, lambda attempt: attempt.action_id)}
    # Candidates also wait for a human while no process executes the run. The queue of an owner that is gone says
    # nothing about the others.
    subjects = {item.id: subject.landing for item in summary.inbox if (subject := subject_of(item)) is not None}
    places = {each: QueuePlace(attempt_id=each, state="approval", detail=item) for item, each in subjects.items()}
    places |= {place.attempt_id: place for place in store.merge_queues.for_run(run.id) if summary.is_live}
    order = [*places]
    waiting = store.attempts.waiting_to_land(run.id)
    processes = {goal.supervisor for goal in goals} | {each.worker for each in attempts if each.outcome is None}
    found: dict[ActionId, ChildProgress] = {}
    for child in actions:
        if child.parent_id is not None:
            so_far = found.get(child.parent_id, ChildProgress(0, 0))
            done = status_of(child.state) in {"completed", "skipped"}
            found[child.parent_id] = ChildProgress(so_far.done + done, so_far.children + 1)
    return RunView(
        summary=summary,
        goals=goals,
        actions=actions,
        attempts=by_action,
        grants=store.file_grants.for_run(run.id),
        facts={goal.id: store.facts.for_goal(goal.id) for goal in goals},
        # Those that were handed in since are last, in that order.
        queue=tuple(sorted(waiting, key=lambda each: order.index(each.id) if each.id in places else len(order))),
        places=places,
        held_back=held_back_actions(store, run) if summary.is_live else {},
        unreliable_reviewer=_unreliable_reviewer(reader, run),
        assumptions=store.assumptions.for_run(run.id),
        slots_taken={goal: use.taken for goal, use in store.attempts.slots(run.id).items()},
        progress=found,
        failures=store.actions.failures_of_run(run.id),
        exited=frozenset(process for process in processes if process is not None and has_exited(process)),
        compliance=read_compliance(store, summary.run),
    )


def _unreliable_reviewer(reader: StoreAccess, run: Run) -> str:
    reviewer = run.settings.planning.reviewer
    if reviewer is None:
        return ""
    with importing():  # few runs have a second reviewer
        from scaffold.run.learning.stores import reviewer_standing
    standing = reviewer_standing(reviewer.model.name, reader.clock)
    return unreliable_text(reviewer.model.name, standing) if standing.is_unreliable else ""
