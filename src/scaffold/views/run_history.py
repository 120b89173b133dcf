"""The history of a run, and its cost: the phases of each attempt, the planning turns, the warnings.

Costs are split by goal, action, role and model, and by purpose: work, planning, proof and landing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from scaffold.core.events import AttemptPhaseChanged, NoticeRaised
from scaffold.core.ids import ActionKey, AttemptId
from scaffold.core.model import Attempt, PlanningTurn, Usage
from scaffold.core.spending import PURPOSES, Booking, Purpose, Spender, purpose_of
from scaffold.views.agent_list import PLANNER, SUPERVISOR
from scaffold.views.run_view import RunView
from scaffold.views.store_reader import StoreAccess

EVENTS_AT_ONCE = 1000
MAX_WARNINGS = 50
QUEUED = "queued"
"""The span before a worker took the attempt; the others are named after their phases."""
FIRST_PHASE = "workspace"


class PhaseSpan(Struct, frozen=True):
    """An attempt's time in one phase."""

    phase: str
    start: datetime
    end: datetime


class RunHistory(Struct, frozen=True, kw_only=True):
    """The past of a run."""

    spans: Mapping[AttemptId, tuple[PhaseSpan, ...]]
    """By attempt, in order, without gaps."""
    turns: tuple[PlanningTurn, ...]
    """Turns of planner and supervisors, in order of their start."""
    warnings: tuple[tuple[datetime, str], ...]
    """The latest ones, oldest first."""

    def seconds_in(self, attempt: Attempt, phase: str) -> float:
        """Return how long an attempt was in a phase."""
        spans = self.spans.get(attempt.id, ())
        return sum((span.end - span.start).total_seconds() for span in spans if span.phase == phase)


def read_history(reader: StoreAccess, view: RunView) -> RunHistory:
    """Return the history of the run in `view`; open phases end with the view's last moment."""
    changes: dict[tuple[ActionKey, int], list[tuple[datetime, str]]] = {}
    warnings: list[tuple[datetime, str]] = []
    seq = 0
    while found := reader.store.events.since(view.run.id, seq, limit=EVENTS_AT_ONCE):
        seq = found[-1].seq
        for recorded in found:
            match recorded.event:
                case AttemptPhaseChanged(action=action, number=number, phase=phase):
                    changes.setdefault((action, number), []).append((recorded.at, phase))
                case NoticeRaised(level="warning", text=text):
                    warnings.append((recorded.at, text))
                case _:
                    pass
    now = view.summary.at if view.summary.is_live else view.last_change
    keys = {action.id: action.key for action in view.actions}
    return RunHistory(
        spans={
            attempt.id: tuple(_phase_spans(attempt, changes.get((keys[attempt.action_id], attempt.number), ()), now))
            for attempts in view.attempts.values()
            for attempt in attempts
        },
        turns=reader.store.turns.for_run(view.run.id),
        warnings=tuple(warnings[-MAX_WARNINGS:]),
    )


def _phase_spans(
    attempt: Attempt, changes: "list[tuple[datetime, str]] | tuple[()]", now: datetime
) -> Iterator[PhaseSpan]:
    begins = [(attempt.queued_at, QUEUED)]
    if attempt.started_at is not None:
        begins.append((attempt.started_at, FIRST_PHASE))
    begins += changes
    end = max(attempt.ended_at or now, begins[-1][0])
    for (start, phase), (until, _) in zip(begins, [*begins[1:], (end, "")], strict=True):
        # A clock that was set back must not make a span of negative length.
        if until > start:
            yield PhaseSpan(phase, start, until)


NO_GOAL = "planning of the run"
"""The goal of the planner's turns, which come before any goal exists."""
PHASE_PURPOSES: Mapping[str, Purpose] = {
    "workspace": "work",
    "executing": "work",
    "verifying": "proof",
    "critiquing": "proof",
    "candidate": "landing",
    "landing": "landing",
}
"""The purpose of an attempt's time in each phase.

Checks and gates run in `verifying`, and again in `candidate`, with the time in which it waits for its turn.
"""


class CostLine(Struct, frozen=True):
    """The usage of all agents of one goal, action, role, model or purpose."""

    name: str
    agents: int
    """The number of attempts and planning turns."""
    usage: Usage
    seconds: float | None = None
    """Their total time; None if it was not measured."""


class RunCosts(Struct, frozen=True, kw_only=True):
    """The usage of a run, split in five ways with the same sum. The dearest come first, except among purposes."""

    by_goal: tuple[CostLine, ...]
    by_action: tuple[CostLine, ...]
    """Planning turns about no action count under what they are about."""
    by_role: tuple[CostLine, ...]
    """In runs of older versions, all agents of an attempt count under the role of its action."""
    by_model: tuple[CostLine, ...]
    by_purpose: tuple[CostLine, ...] = ()
    """Work, planning, proof and landing, in this order, with their time."""


class _Payer(Struct, frozen=True):
    id: str
    goal: str
    action: str
    spender: Spender
    usage: Usage


def run_costs(
    view: RunView, turns: Sequence[PlanningTurn], bookings: Sequence[Booking] = (), history: RunHistory | None = None
) -> RunCosts:
    """Return the usage of the run's attempts and planning turns so far."""
    model, booked = view.run.settings.model.name, defaultdict[str, list[Booking]](list)
    for booking in bookings:
        booked[booking.payer].append(booking)
    goals = {goal.id: goal.name for goal in view.goals}
    wholes = [
        _Payer(each.id, goals[action.goal_id], action.key, Spender(action.role, each.model or model), each.usage)
        for action in view.actions
        for each in view.attempts_of(action)
    ]
    payers: list[_Payer] = []
    for whole in (*wholes, *_turn_payers(view, turns)):
        # Older versions booked nothing: the payer counts as a whole.
        payers += [] if booked[whole.id] else [whole]
        for booking in booked[whole.id]:
            spender = Spender(booking.spender.role, booking.spender.model or whole.spender.model)
            payers.append(structs.replace(whole, spender=spender, usage=booking.usage))
    seconds = _seconds_by_purpose(view, turns, history)
    found = {line.name: line for line in _cost_lines((purpose_of(payer.spender.role), payer) for payer in payers)}
    by_purpose = [
        structs.replace(found.get(purpose, CostLine(purpose, 0, Usage())), seconds=seconds.get(purpose))
        for purpose in (PURPOSES if found else ())
    ]
    return RunCosts(
        by_goal=_cost_lines((payer.goal, payer) for payer in payers),
        by_action=_cost_lines((payer.action, payer) for payer in payers),
        by_role=_cost_lines((payer.spender.role, payer) for payer in payers),
        by_model=_cost_lines((payer.spender.model, payer) for payer in payers),
        by_purpose=tuple(by_purpose),
    )


def _turn_payers(view: RunView, turns: Sequence[PlanningTurn]) -> Iterator[_Payer]:
    goals = {goal.id: goal.name for goal in view.goals}
    actions = {action.id: str(action.key) for action in view.actions}
    model = view.run.settings.model.name
    for turn in turns:
        if turn.goal_id is None:
            yield _Payer(turn.id, NO_GOAL, NO_GOAL, Spender(PLANNER, turn.model or model), turn.usage)
        else:
            goal = goals.get(turn.goal_id, NO_GOAL)
            about = actions.get(turn.action_id) if turn.action_id else None
            about = about or f"supervision of {goal}"
            yield _Payer(turn.id, goal, about, Spender(SUPERVISOR, turn.model or model), turn.usage)


def _seconds_by_purpose(
    view: RunView, turns: Sequence[PlanningTurn], history: RunHistory | None
) -> Mapping[Purpose, float]:
    """Return how long agents planned, worked, proved and landed; nothing without a history."""
    if history is None:
        return {}
    seconds = dict.fromkeys(PURPOSES, 0.0)
    for turn in turns:
        took = ((turn.ended_at or view.summary.at) - turn.started_at).total_seconds()
        seconds["planning"] += max(0.0, took)  # a clock may be set back
    for spans in history.spans.values():
        for span in spans:
            if (purpose := PHASE_PURPOSES.get(span.phase)) is not None:
                seconds[purpose] += (span.end - span.start).total_seconds()
    return seconds


def _cost_lines(parts: "Iterator[tuple[str, _Payer]]") -> tuple[CostLine, ...]:
    usages, agents = defaultdict[str, Usage](Usage), defaultdict[str, set[str]](set)
    for name, payer in parts:
        usages[name] += payer.usage
        agents[name].add(payer.id)
    lines = [CostLine(name, len(agents[name]), usage) for name, usage in usages.items()]
    # An unknown cost comes first: it may be the highest.
    return tuple(sorted(lines, key=lambda line: (line.usage.cost_usd is not None, -(line.usage.cost_usd or 0.0))))
