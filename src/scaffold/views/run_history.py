"""The history of a run: the phases of each attempt, the planning turns, the warnings."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from scaffold.core.events import AttemptPhaseChanged, NoticeRaised, StoredEvent
from scaffold.core.ids import ActionKey, AttemptId
from scaffold.core.model import Attempt, PlanningTurn
from scaffold.store.database import Store
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
    for recorded in _run_events(reader.store, view):
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
        turns=reader.store.turns.of_run(view.run.id),
        warnings=tuple(warnings[-MAX_WARNINGS:]),
    )


def _run_events(store: Store, view: RunView) -> Iterator[StoredEvent]:
    seq = 0
    while found := store.events.since(view.run.id, seq, limit=EVENTS_AT_ONCE):
        yield from found
        seq = found[-1].seq


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
