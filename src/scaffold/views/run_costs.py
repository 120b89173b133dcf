"""What a run cost, by goal, by action, by role and by model."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from scaffold.core.model import PlanningTurn, Usage
from scaffold.views.agent_list import PLANNER, SUPERVISOR
from scaffold.views.run_view import RunView

NO_GOAL = "planning of the run"
"""Where the planner's turns are counted: they come before there is a goal."""


class CostLine(Struct, frozen=True):
    """The usage of all agents of one goal, role or model."""

    name: str
    agents: int
    """How many attempts and planning turns."""
    usage: Usage


class RunCosts(Struct, frozen=True, kw_only=True):
    """The usage of a run, split in four ways; each has the same sum. The dearest come first."""

    by_goal: tuple[CostLine, ...]
    by_action: tuple[CostLine, ...]
    """Planning turns about no action count under what they are about."""
    by_role: tuple[CostLine, ...]
    """An attempt's agents count under the role of its action: its critic and its reviewer have no account of theirs."""
    by_model: tuple[CostLine, ...]


class _Payer(Struct, frozen=True):
    goal: str
    action: str
    role: str
    model: str
    usage: Usage


def run_costs(view: RunView, turns: Sequence[PlanningTurn]) -> RunCosts:
    """Return what the attempts of the run and its planning turns have used so far."""
    payers = [*_attempts(view), *_turns(view, turns)]
    return RunCosts(
        by_goal=_lines((payer.goal, payer.usage) for payer in payers),
        by_action=_lines((payer.action, payer.usage) for payer in payers),
        by_role=_lines((payer.role, payer.usage) for payer in payers),
        by_model=_lines((payer.model, payer.usage) for payer in payers),
    )


def _attempts(view: RunView) -> Iterator[_Payer]:
    goals = {goal.id: goal.name for goal in view.goals}
    for action in view.actions:
        for attempt in view.attempts_of(action):
            model = attempt.model or view.run.settings.model.name
            yield _Payer(goals[action.goal_id], action.key, action.role, model, attempt.usage)


def _turns(view: RunView, turns: Sequence[PlanningTurn]) -> Iterator[_Payer]:
    goals = {goal.id: goal.name for goal in view.goals}
    actions = {action.id: str(action.key) for action in view.actions}
    model = view.run.settings.model.name
    for turn in turns:
        if turn.goal_id is None:
            yield _Payer(NO_GOAL, NO_GOAL, PLANNER, model, turn.usage)
        else:
            goal = goals.get(turn.goal_id, NO_GOAL)
            about = actions.get(turn.action_id) if turn.action_id else None
            yield _Payer(goal, about or f"supervision of {goal}", SUPERVISOR, model, turn.usage)


def _lines(parts: "Iterator[tuple[str, Usage]]") -> tuple[CostLine, ...]:
    sums: dict[str, CostLine] = {}
    for name, usage in parts:
        so_far = sums.get(name, CostLine(name, 0, Usage()))
        sums[name] = CostLine(name, so_far.agents + 1, so_far.usage + usage)
    # An unknown cost comes first: it may be the highest.
    return tuple(
        sorted(sums.values(), key=lambda line: (line.usage.cost_usd is not None, -(line.usage.cost_usd or 0.0)))
    )
