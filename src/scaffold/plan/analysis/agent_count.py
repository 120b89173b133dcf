"""Advice on how many agents to use for a plan, predicted by simulation, with the reason."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.plan import Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.simulation.simulate import simulate
from scaffold.plan.simulation.simulated_goal import WORKER_CAP

MAX_AGENTS = 16
"""The largest number of agents that is simulated."""

SEEDS = (0, 1, 2)
"""Random seeds of the simulations that a prediction averages."""

ACCEPTABLE_LOSS = 0.10
"""How much more time fewer agents may take, as a fraction."""


class MakespanPrediction(Struct, frozen=True):
    """A plan's predicted duration in seconds: the mean of several simulations without failures."""

    agents: int
    makespan_s: float


class AgentCountAdvice(Struct, frozen=True, kw_only=True):
    """The smallest number of agents that takes at most a tenth more time than any larger number, and why."""

    agents: int
    why: str
    predictions: tuple[MakespanPrediction, ...]
    """For 1, 2, ... agents, up to the number above which more could not run in parallel."""


def advise_agent_count(plan: Plan) -> AgentCountAdvice:
    """Return how many agents to use for `plan`, which must be valid according to lint. Depends on the plan only."""
    width = lint(plan).width
    most = max(1, min(width, WORKER_CAP * len(plan.goals), MAX_AGENTS))
    predictions = tuple(MakespanPrediction(agents, _makespan_s(plan, agents)) for agents in range(1, most + 1))
    # There is always one: the largest number has no larger one to compare with.
    best = next(each for each in predictions if _enough(each, predictions))
    return AgentCountAdvice(agents=best.agents, why=_why(best, predictions, width), predictions=predictions)


def _makespan_s(plan: Plan, agents: int) -> float:
    return round(sum(simulate(plan, agents=agents, seed=seed).makespan_s for seed in SEEDS) / len(SEEDS), 1)


def _enough(chosen: MakespanPrediction, predictions: Sequence[MakespanPrediction]) -> bool:
    """Return whether every larger number of agents would save too little time to be worth it."""
    larger = [each.makespan_s for each in predictions if each.agents > chosen.agents]
    return chosen.makespan_s <= (1 + ACCEPTABLE_LOSS) * min(larger, default=chosen.makespan_s)


def _why(best: MakespanPrediction, predictions: Sequence[MakespanPrediction], width: int) -> str:
    fewer = [each for each in predictions if each.agents == best.agents - 1]
    larger = [each for each in predictions if each.agents > best.agents]
    gained = [f"one fewer would take {_percent(fewer[0], best)} longer"] if fewer else []
    if larger:
        least = min(larger, key=lambda each: each.makespan_s)
        saved = max(0, round(100 * (1 - least.makespan_s / best.makespan_s)))
        return "; ".join([*gained, f"more would save at most {saved}% of the time"])
    if width == 1:
        return "no two actions can run in parallel"
    if width <= best.agents:
        return "; ".join([*gained, f"never more than {width} actions can run in parallel"])
    return "; ".join(
        [*gained, f"no more than {WORKER_CAP} may work on one goal, and no more than {MAX_AGENTS} were tried"]
    )


def _percent(slower: MakespanPrediction, faster: MakespanPrediction) -> str:
    return f"{round(100 * (slower.makespan_s / faster.makespan_s - 1))}%"
