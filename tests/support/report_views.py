"""Views of runs of any size for reports, built from values: no store, no git."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from builders import THEN, a_goal, a_run
from scaffold.core.ids import AttemptId
from scaffold.core.model import Action, Attempt, Fact, Goal, InboxItem, PlanningTurn, Run, Usage
from scaffold.core.states import status_of
from scaffold.plan.budget import BudgetUse, spending_limits
from scaffold.views.run_history import PhaseSpan, RunHistory
from scaffold.views.run_view import ChildProgress, GoalProgress, RunSummary, RunView
from scaffold.views.waiting import entry_of_item

PHASES = (("queued", 2), ("workspace", 3), ("executing", 40), ("verifying", 15), ("candidate", 4), ("landing", 1))


def a_view(
    actions: Sequence[Action],
    *,
    goals: Sequence[Goal] = (),
    attempts: Iterable[Attempt] = (),
    facts: Iterable[Fact] = (),
    inbox: Sequence[InboxItem] = (),
    run: Run | None = None,
    spent: Usage | None = None,
) -> RunView:
    """Return the view of a run that no process executes, one hour after it began."""
    run, goals = run or a_run(), tuple(goals) or (a_goal(),)
    by_action: dict[Any, tuple[Attempt, ...]] = {}
    for attempt in attempts:
        by_action[attempt.action_id] = (*by_action.get(attempt.action_id, ()), attempt)
    by_goal: dict[Any, tuple[Fact, ...]] = {goal.id: () for goal in goals}
    for fact in facts:
        by_goal[fact.goal_id] = (*by_goal[fact.goal_id], fact)
    summary = RunSummary(
        at=THEN + timedelta(hours=1),
        run=run,
        status=status_of(run.state),
        spent=spent or Usage(),
        budget=BudgetUse(limits=spending_limits(run.settings.limits)),
        goals=tuple(_progress(goal, by_goal[goal.id]) for goal in goals),
        turns=(),
        agents=(),
        waiting=tuple(
            entry_of_item(
                item, tuple(each.key for each in actions if each.id == item.action_id), Path("/somewhere/shop")
            )
            for item in inbox
        ),
        is_live=False,
    )
    return RunView(
        summary=summary,
        goals=goals,
        actions=tuple(actions),
        attempts=by_action,
        grants={},
        facts=by_goal,
        places={},
        queue=(),
        held_back={},
        slots_taken={},
        progress=_children(actions),
        failures={},
        exited=frozenset(),
    )


def a_history(view: RunView, *, turns: Sequence[PlanningTurn] = (), warnings: Sequence[str] = ()) -> RunHistory:
    """Return a history in which each attempt went through all phases."""
    spans = {each.id: _spans(each) for attempts in view.attempts.values() for each in attempts}
    return RunHistory(spans=spans, turns=tuple(turns), warnings=tuple((THEN, text) for text in warnings))


def _progress(goal: Goal, facts: Sequence[Fact]) -> GoalProgress:
    held = {fact.assertion for fact in facts if fact.state == "holds"} & set(goal.desired)
    return GoalProgress(goal.name, status_of(goal.state), len(held), len(goal.desired), {})


def _children(actions: Sequence[Action]) -> Mapping[Any, ChildProgress]:
    found: dict[Any, ChildProgress] = {}
    for action in actions:
        if action.parent_id is not None:
            so_far = found.get(action.parent_id, ChildProgress(0, 0))
            found[action.parent_id] = ChildProgress(so_far.done, so_far.children + 1)
    return found


def _spans(attempt: Attempt) -> tuple[PhaseSpan, ...]:
    at, spans = attempt.queued_at, []
    for phase, seconds in PHASES:
        spans.append(PhaseSpan(phase, at, at := at + timedelta(seconds=seconds)))
    return tuple(spans)


def spans_of(history: RunHistory, attempt: AttemptId) -> list[tuple[str, float]]:
    """Return an attempt's phases with their seconds."""
    return [(span.phase, (span.end - span.start).total_seconds()) for span in history.spans[attempt]]
