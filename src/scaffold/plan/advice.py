"""How many agents a plan deserves: predicted by simulation, with the reason."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.plan import Plan
from scaffold.plan.lint import lint
from scaffold.plan.rehearsal import WORKER_CAP
from scaffold.plan.simulate import simulate

MOST = 16
"""No more agents than that are tried."""

SEEDS = (0, 1, 2)
"""The luck that predictions are averaged over."""

LOSS = 0.10
"""The part of the time that fewer agents may cost."""


class Prediction(Struct, frozen=True):
    """How long a plan would take; seconds, the mean of a few failure-free simulations."""

    agents: int
    makespan_s: float


class Advice(Struct, frozen=True, kw_only=True):
    """The smallest number of agents that costs at most a tenth more time than any larger one, and why."""

    agents: int
    why: str
    predictions: tuple[Prediction, ...]
    """For 1, 2, ... agents, up to the number beyond which no more could work side by side."""


def advise(plan: Plan) -> Advice:
    """Return how many agents `plan`, which lint found valid, deserves; depends on the plan alone."""
    width = lint(plan).width
    most = max(1, min(width, WORKER_CAP * len(plan.goals), MOST))
    predictions = tuple(Prediction(agents, _makespan_s(plan, agents)) for agents in range(1, most + 1))
    best = next(each for each in predictions if _enough(each, predictions))
    return Advice(agents=best.agents, why=_why(best, predictions, width), predictions=predictions)


def _makespan_s(plan: Plan, agents: int) -> float:
    return round(sum(simulate(plan, agents=agents, seed=seed).makespan_s for seed in SEEDS) / len(SEEDS), 1)


def _enough(chosen: Prediction, predictions: Sequence[Prediction]) -> bool:
    """Tell whether no larger number of agents would save more than is worth it."""
    larger = [each.makespan_s for each in predictions if each.agents > chosen.agents]
    return chosen.makespan_s <= (1 + LOSS) * min(larger, default=chosen.makespan_s)


def _why(best: Prediction, predictions: Sequence[Prediction], width: int) -> str:
    fewer = [each for each in predictions if each.agents == best.agents - 1]
    larger = [each for each in predictions if each.agents > best.agents]
    gained = [f"one fewer would take {_percent(fewer[0], best)} longer"] if fewer else []
    if larger:
        least = min(larger, key=lambda each: each.makespan_s)
        saved = max(0, round(100 * (1 - least.makespan_s / best.makespan_s)))
        return "; ".join([*gained, f"more would save {saved}% of the time at most"])
    if width == 1:
        return "no two actions can run side by side"
    if width <= best.agents:
        return "; ".join([*gained, f"never more than {width} actions can run side by side"])
    return "; ".join([*gained, f"no more than {WORKER_CAP} may work on one goal, and no more than {MOST} were tried"])


def _percent(slower: Prediction, faster: Prediction) -> str:
    return f"{round(100 * (slower.makespan_s / faster.makespan_s - 1))}%"
