"""The processes and agents of a run: a row for each, in the same words on every screen; and the actions held back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct, structs

from scaffold.core.events import RunClaimed
from scaffold.core.ids import ActionId, ActionKey, AttemptId, GoalId
from scaffold.core.model import (
    Action,
    Attempt,
    CurrentActivity,
    Goal,
    InboxItem,
    PlanningTurn,
    ProcessIdentity,
    Run,
    Usage,
)
from scaffold.core.states import INTERRUPTED, WORKER_PHASES, status_of
from scaffold.host.process_identity import is_alive
from scaffold.plan.collisions.rules import HeldBack
from scaffold.run.collision_board import held_back_actions
from scaffold.run.projections import recorded_journal
from scaffold.store.database import Store
from scaffold.views.journal_entries import JournalEntry, LastActivity, last_activity
from scaffold.views.state_labels import AgentState, supervisor_state, worker_state
from scaffold.views.store_reader import StoreAccess, is_executed

ORCHESTRATOR, SUPERVISOR, PLANNER = "orchestrator", "supervisor", "planner"
HUMAN_LABEL = "you"
"""The name of a human that an agent waits for."""
MERGE_QUEUE = "the merge queue"
SLOT = "a free slot"
EVENTS_AT_ONCE = 500


class AgentRow(Struct, frozen=True, kw_only=True):
    """One agent or process of a run, as it was at one moment."""

    role: str
    goal: str | None = None
    action: str | None = None
    attempt: int | None = None
    pid: int | None = None
    alive: bool = False
    active: bool = True
    """False for a process that has nothing to do: the owner between two steps, a supervisor between two turns."""
    state: AgentState
    phase: str
    since: datetime | None = None
    usage: Usage = Usage()
    model: str = ""
    """The model string of its agent; empty for a process without a working agent."""
    waits_on: str = ""
    """Empty if it does not wait."""
    activity: CurrentActivity | None = None
    """Its current command or wait, recorded after half a second; None without one."""
    last_activity: LastActivity | None = None
    worktree: str | None = None
    """The worktree of a worker."""

    @property
    def name(self) -> str:
        """Return its name for people: `implementation store#2`, `supervisor shop: store`, `orchestrator`."""
        if self.attempt is not None or self.role not in {SUPERVISOR, PLANNER, ORCHESTRATOR}:
            return f"{self.role} {self.action}#{self.attempt or '?'}"
        about = ": ".join(each for each in (self.goal, self.action) if each)
        return f"{self.role} {about}".strip()

    @property
    def label(self) -> str:
        """Return its short name: `store#2`, `supervisor shop: store`, `planner`; the owner is the run itself."""
        if self.role == ORCHESTRATOR:
            return "run"
        return f"{self.action}#{self.attempt}" if self.attempt is not None else self.name

    @property
    def doing(self) -> str:
        """Return its current command; else what it waits for, and its last activity."""
        if self.activity is not None:
            return self.activity.work.text
        act = self.last_activity.text if self.last_activity is not None else ""
        return f"waits for {self.waits_on}{f'; {act}' if act else ''}" if self.waits_on else act

    @property
    def needs_you(self) -> bool:
        """Return whether it waits for a human's decision."""
        return self.state == "waiting_approval"


class AgentListInput(Struct, frozen=True, kw_only=True):
    """The open work of a run."""

    run: Run
    status: str
    goals: Mapping[GoalId, Goal]
    turns: tuple[PlanningTurn, ...]
    inbox: tuple[InboxItem, ...]
    activities: Mapping[AttemptId | None, CurrentActivity] = {}
    """The activity of each attempt, and of the owner for the whole run (None)."""


def agent_rows(store: Store, work: AgentListInput) -> Iterator[AgentRow]:
    """Yield the rows of a run: owner, planner, supervisors, workers, and agents that ended to wait for a human."""
    if work.run.owner is not None:
        yield _owner_row(work, work.run.owner)
    yield from (_planner_row(store, work, turn) for turn in work.turns if turn.goal_id is None)
    # Reversed: of several open turns of a goal, its row shows the first.
    turns = {turn.goal_id: turn for turn in reversed(work.turns)}
    for goal in work.goals.values():
        if goal.supervisor is not None or goal.id in turns:
            yield _supervisor_row(store, goal, turns.get(goal.id))
    yield from _worker_rows(store, work, store.attempts.open_of_run(work.run.id))
    yield from _waiting_rows(store, work)


def busy_rows(store: Store, work: AgentListInput) -> Iterator[AgentRow]:
    """Yield the rows of owner and workers that have an activity."""
    if None in work.activities and work.run.owner is not None:
        yield _owner_row(work, work.run.owner)
    attempts = (store.attempts.get(each) for each in work.activities if each is not None)
    yield from _worker_rows(store, work, (each for each in attempts if each is not None and each.outcome is None))


def _worker_rows(store: Store, work: AgentListInput, attempts: Iterable[Attempt]) -> Iterator[AgentRow]:
    asked = {item.id: item for item in work.inbox}
    for attempt in attempts:
        if (action := store.actions.get(attempt.action_id)) is not None:
            item = asked.get(attempt.waits_for) if attempt.waits_for else None
            row = _worker_row(work.goals[action.goal_id], action, attempt, item)
            yield structs.replace(row, activity=work.activities.get(attempt.id))


def owned_since(store: Store, run: Run) -> datetime | None:
    """Return when the run's owner claimed it; None if it never had one. Searches its events backwards."""
    last = store.events.last_seq(run.id)
    while last > 0:
        first = max(0, last - EVENTS_AT_ONCE)
        for recorded in reversed(store.events.since(run.id, first, limit=EVENTS_AT_ONCE)):
            if isinstance(recorded.event, RunClaimed):
                return recorded.at
        last = first
    return None


def _owner_row(work: AgentListInput, owner: ProcessIdentity) -> AgentRow:
    activity = work.activities.get(None)
    return AgentRow(
        role=ORCHESTRATOR,
        pid=owner.pid,
        alive=is_alive(owner),
        active=activity is not None,
        state="failed" if work.status == INTERRUPTED else "running",
        phase=activity.stage if activity else work.status,
        activity=activity,
    )


def _planner_row(store: Store, work: AgentListInput, turn: PlanningTurn) -> AgentRow:
    owner = work.run.owner
    alive = owner is not None and is_alive(owner)
    state: AgentState = "running" if alive else "failed"
    row = _turn_row(store, PLANNER, turn)
    return structs.replace(row, pid=owner.pid if owner else None, alive=alive, state=state)


def _supervisor_row(store: Store, goal: Goal, turn: PlanningTurn | None) -> AgentRow:
    process = goal.supervisor
    alive = process is not None and is_alive(process)
    row = AgentRow(role=SUPERVISOR, state="running", phase="") if turn is None else _turn_row(store, SUPERVISOR, turn)
    return structs.replace(
        row,
        goal=goal.name,
        pid=process.pid if process else None,
        alive=alive,
        active=turn is not None,
        state=supervisor_state(goal, gone=process is not None and not alive),
        phase=row.phase or status_of(goal.state),
        since=row.since or goal.supervisor_started_at,
    )


def _turn_row(store: Store, role: str, turn: PlanningTurn) -> AgentRow:
    action = store.actions.get(turn.action_id) if turn.action_id else None
    return AgentRow(
        role=role,
        action=action.key if action else None,
        state="running",
        phase=turn.event,
        since=turn.started_at,
        usage=turn.usage,
        model=turn.model,
        last_activity=_log_activity(turn.log_file, lambda entry: entry.at >= turn.started_at),
    )


def _worker_row(goal: Goal, action: Action, attempt: Attempt, item: InboxItem | None) -> AgentRow:
    # After these phases the merge queue has the attempt, and its worker is gone.
    works = attempt.phase in WORKER_PHASES
    asks = works and item is not None
    alive = attempt.worker is not None and is_alive(attempt.worker)
    return AgentRow(
        role=action.role,
        goal=goal.name,
        action=action.key,
        attempt=attempt.number,
        pid=attempt.worker.pid if works and attempt.worker else None,
        alive=works and alive,
        state=worker_state(attempt, asks=asks, gone=attempt.worker is not None and not alive),
        phase=attempt.phase if attempt.status == "claimed" else "queued",
        since=attempt.started_at or attempt.queued_at,
        usage=attempt.usage,
        model=attempt.model,
        waits_on=MERGE_QUEUE if not works else _human_wait(item) if item else SLOT if attempt.waits_for else "",
        last_activity=_attempt_activity(action, attempt),
        worktree=attempt.worktree if works and alive else None,
    )


def _attempt_activity(action: Action, attempt: Attempt) -> LastActivity | None:
    def belongs(entry: JournalEntry) -> bool:
        fields = entry.fields
        # A journal belongs to a goal's and an action's name, so it may contain entries of earlier runs.
        of_run = fields.get("run", action.run_id) == action.run_id
        return of_run and (fields.get("action"), fields.get("attempt")) == (action.key, attempt.number)

    return _log_activity(attempt.log_file, belongs)


def _waiting_rows(store: Store, work: AgentListInput) -> Iterator[AgentRow]:
    """Yield the agents whose attempt has ended until a human decides."""
    shown: set[ActionId] = set()
    for item in work.inbox:
        for action in store.actions.waiters(work.run.id, item.id):
            if action.id not in shown:
                shown.add(action.id)
                attempts = store.attempts.for_action(action.id)
                yield AgentRow(
                    role=action.role,
                    goal=work.goals[action.goal_id].name,
                    action=action.key,
                    attempt=attempts[-1].number if attempts else None,
                    state="waiting_approval",
                    phase="waiting",
                    since=item.created_at,
                    usage=attempts[-1].usage if attempts else Usage(),
                    waits_on=_human_wait(item),
                    last_activity=LastActivity(item.created_at, ""),
                )


def _human_wait(item: InboxItem) -> str:
    return f"{HUMAN_LABEL} ({item.id}): {item.text}"


def _log_activity(log_file: str | None, belongs: Callable[[JournalEntry], bool]) -> LastActivity | None:
    return last_activity(recorded_journal(log_file), belongs) if log_file else None


class HeldBackAction(Struct, frozen=True):
    """An action, and what it waits for."""

    key: ActionKey
    why: HeldBack


def read_held_back(reader: StoreAccess, run: Run) -> tuple[HeldBackAction, ...]:
    """Return the held-back actions of a running run, in plan order; none of another one."""
    store = reader.store
    if not is_executed(run):
        return ()
    with store.snapshot():
        found = held_back_actions(store, run)
        keys = {action.id: action.key for action in store.actions.for_run(run.id)} if found else {}
    return tuple(HeldBackAction(keys[action_id], why) for action_id, why in found.items())
