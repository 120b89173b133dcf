"""Who works on a run: a row for each agent and each process, in the same words on every screen."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.events import RunClaimed
from scaffold.core.ids import ActionId, GoalId
from scaffold.core.model import Action, Attempt, Goal, InboxItem, PlanningTurn, ProcessIdentity, Run, Usage
from scaffold.core.states import INTERRUPTED, WORKER_PHASES, status_of
from scaffold.host.identity import has_exited, is_alive
from scaffold.store.database import Store
from scaffold.views.journal import JournalEntry
from scaffold.views.last_activity import Activity, last_activity
from scaffold.views.state_labels import AgentState, supervisor_state, worker_state
from scaffold.views.store_reader import StoreAccess, display_status

ORCHESTRATOR, SUPERVISOR, PLANNER = "orchestrator", "supervisor", "planner"
HUMAN_LABEL = "you"
"""Who is waited for where a human must decide."""
MERGE_QUEUE = "the merge queue"
EVENTS_AT_ONCE = 500


class AgentRow(Struct, frozen=True, kw_only=True):
    """One agent or process of a run, as it was at one moment."""

    role: str
    goal: str | None = None
    action: str | None = None
    attempt: int | None = None
    pid: int | None = None
    alive: bool = False
    state: AgentState
    phase: str
    since: datetime | None = None
    usage: Usage = Usage()
    waits_on: str = ""
    """Whom or what it cannot go on without."""
    last_activity: Activity | None = None

    @property
    def name(self) -> str:
        """What people call it: `implementation store#2`, `supervisor shop: store`, `orchestrator`."""
        if self.attempt is not None or self.role not in {SUPERVISOR, PLANNER, ORCHESTRATOR}:
            return f"{self.role} {self.action}#{self.attempt or '?'}"
        about = ": ".join(each for each in (self.goal, self.action) if each)
        return f"{self.role} {about}".strip()

    @property
    def needs_you(self) -> bool:
        """Tell whether it goes on only once a human has decided."""
        return self.state == "waiting_approval"


class AgentList:
    """Calls the roll of a run; reads no more of the store than what is open."""

    def __init__(self, reader: StoreAccess, run: Run) -> None:
        self._store: Store = reader.store
        self._run = reader.store.runs.get(run.id) or run
        self._goals: Mapping[GoalId, Goal] = {goal.id: goal for goal in reader.store.goals.of_run(run.id)}
        self._turns = reader.store.turns.open_of_run(run.id)

    def agents(self) -> tuple[AgentRow, ...]:
        """Return who is at work, has handed in, or waits for a human; who needs one comes first."""
        found = [*self._workers(), *self._asking(), *self._thinking()]
        return tuple(sorted(found, key=lambda member: (not member.needs_you, member.waits_on == MERGE_QUEUE)))

    def processes(self) -> tuple[AgentRow, ...]:
        """Return every process of the run: who carries it out, who pursues its goals, who works."""
        owner = [self._orchestrator(self._run.owner)] if self._run.owner is not None else []
        supervisors = [self._supervisor(goal) for goal in self._goals.values() if goal.supervisor is not None]
        planners = [member for member in self._thinking() if member.role == PLANNER]
        workers = [member for member in self._workers() if member.pid is not None]
        return (*owner, *planners, *supervisors, *workers)

    def _orchestrator(self, owner: ProcessIdentity) -> AgentRow:
        status = display_status(self._run)
        return AgentRow(
            role=ORCHESTRATOR,
            pid=owner.pid,
            alive=is_alive(owner),
            state="failed" if status == INTERRUPTED else "running",
            phase=status,
            since=_owned_since(self._store, self._run),
        )

    def _supervisor(self, goal: Goal) -> AgentRow:
        turn = next((turn for turn in self._turns if turn.goal_id == goal.id), None)
        who = goal.supervisor
        member = self._thinker(turn) if turn else AgentRow(role=SUPERVISOR, goal=goal.name, state="running", phase="")
        return structs.replace(
            member,
            pid=who.pid if who else None,
            alive=who is not None and is_alive(who),
            state=supervisor_state(goal, gone=has_exited(who)),
            phase=member.phase or status_of(goal.state),
            since=member.since or goal.supervisor_started_at,
        )

    def _thinking(self) -> Iterator[AgentRow]:
        """Yield who thinks about the plan just now: a sleeping supervisor is no agent at work."""
        for turn in self._turns:
            goal = self._goals.get(turn.goal_id) if turn.goal_id else None
            yield self._supervisor(goal) if goal else self._planner(turn)

    def _planner(self, turn: PlanningTurn) -> AgentRow:
        owner = self._run.owner
        thinks = owner is not None and is_alive(owner)
        state: AgentState = "running" if thinks else "failed"
        return structs.replace(self._thinker(turn), pid=owner.pid if owner else None, alive=thinks, state=state)

    def _thinker(self, turn: PlanningTurn) -> AgentRow:
        goal = self._goals.get(turn.goal_id) if turn.goal_id else None
        action = self._store.actions.get(turn.action_id) if turn.action_id else None
        act = _log_activity(turn.log_file, lambda entry: entry.at >= turn.started_at)
        return AgentRow(
            role=SUPERVISOR if turn.goal_id else PLANNER,
            goal=goal.name if goal else None,
            action=action.key if action else None,
            state="running",
            phase=turn.event,
            since=turn.started_at,
            usage=turn.usage,
            last_activity=act,
        )

    def _workers(self) -> Iterator[AgentRow]:
        asked = {item.action_id: item for item in self._store.inbox.open_of_run(self._run.id)}
        for attempt in self._store.attempts.open_of_run(self._run.id):
            action = self._store.actions.get(attempt.action_id)
            if action is not None:
                yield self._worker(action, attempt, asked.get(action.id))

    def _worker(self, action: Action, attempt: Attempt, item: InboxItem | None) -> AgentRow:
        works = attempt.phase in WORKER_PHASES
        asks = works and item is not None and item.kind != "notice"
        waits = MERGE_QUEUE if not works else _waits_on_item(item) if asks and item else ""
        return AgentRow(
            role=action.role,
            goal=self._goals[action.goal_id].name,
            action=action.key,
            attempt=attempt.number,
            pid=attempt.worker.pid if works and attempt.worker else None,
            alive=works and attempt.worker is not None and is_alive(attempt.worker),
            state=worker_state(attempt, asks=asks, gone=has_exited(attempt.worker)),
            phase=attempt.phase if attempt.status == "claimed" else "queued",
            since=attempt.started_at or attempt.queued_at,
            usage=attempt.usage,
            waits_on=waits,
            last_activity=self._last_act(action, attempt),
        )

    def _last_act(self, action: Action, attempt: Attempt) -> Activity | None:
        def belongs(entry: JournalEntry) -> bool:
            fields = entry.fields
            of_run = fields.get("run", self._run.id) == self._run.id
            return of_run and (fields.get("action"), fields.get("attempt")) == (action.key, attempt.number)

        return _log_activity(attempt.log_file, belongs)

    def _asking(self) -> Iterator[AgentRow]:
        """Yield the agents that have put their work away until a human decides."""
        shown: set[ActionId] = set()
        for item in self._store.inbox.open_of_run(self._run.id):
            for action in self._store.actions.waiters(self._run.id, item.id):
                if action.id not in shown:
                    shown.add(action.id)
                    yield self._put_away(action, item)

    def _put_away(self, action: Action, item: InboxItem) -> AgentRow:
        attempts = self._store.attempts.of_action(action.id)
        return AgentRow(
            role=action.role,
            goal=self._goals[action.goal_id].name,
            action=action.key,
            attempt=attempts[-1].number if attempts else None,
            state="waiting_approval",
            phase="waiting",
            since=item.created_at,
            usage=sum((attempt.usage for attempt in attempts[-1:]), Usage()),
            waits_on=_waits_on_item(item),
            last_activity=Activity(item.created_at, ""),
        )


def _waits_on_item(item: InboxItem) -> str:
    return f"{HUMAN_LABEL} ({item.id}): {item.text}"


def _log_activity(log_file: str | None, belongs: Callable[[JournalEntry], bool]) -> Activity | None:
    return last_activity(Path(log_file), belongs) if log_file else None


def _owned_since(store: Store, run: Run) -> datetime | None:
    """Return when the run's owner took it: the youngest such event, looked for from the end."""
    last = store.events.last_seq(run.id)
    while last > 0:
        first = max(0, last - EVENTS_AT_ONCE)
        for recorded in reversed(store.events.since(run.id, first, limit=EVENTS_AT_ONCE)):
            if isinstance(recorded.event, RunClaimed):
                return recorded.at
        last = first
    return None
