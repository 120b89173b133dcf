"""How wide and how long a plan is, and how soon it could be done."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scaffold.core.ids import Key
from scaffold.core.plan import Plan
from scaffold.plan.reach import forward_chain
from scaffold.plan.wiring import Wiring


def width(wirings: Sequence[Wiring]) -> int:
    """Return the largest number of actions with the same earliest level, over all goals; 0 if none can run.

    Compounds with children take no level; actions that can never run have none.
    """
    levels = Counter(
        start
        for wiring in wirings
        for index, start in enumerate(wiring.reach.starts)
        if start is not None and index not in wiring.children
    )
    return max(levels.values(), default=0)


def critical_path(wirings: Sequence[Wiring]) -> tuple[Key, ...]:
    """Return a longest chain of actions, each waiting for the one before; of several, the first in plan order.

    Compounds with children are not on it; actions that can never run neither.
    """
    chains = (_longest(wiring) for wiring in wirings)
    return max(chains, key=len, default=())


def _longest(wiring: Wiring) -> tuple[Key, ...]:
    ends = [
        (-start, index)
        for index, start in enumerate(wiring.reach.starts)
        if start is not None and index not in wiring.children
    ]
    if not ends:
        return ()
    _, last = min(ends)
    return tuple(wiring.actions[index].key for index in wiring.reach.chain_to(last))


def makespan_bound(plan: Plan, workers: int, seconds: Mapping[Key, float]) -> float:
    """Return a lower bound, in seconds, on when the last action that can run ends: no schedule is faster.

    The larger of the longest chain and the total work shared evenly by `workers` (at least 1). An action that
    `seconds` does not name takes 0; compounds with children take none.
    """
    chain = total = 0.0
    for goal in plan.goals:
        wiring = Wiring(goal)
        steps = wiring.steps(lambda key: seconds.get(key, 0.0))
        for step, start in zip(steps, forward_chain(steps).starts, strict=True):
            if start is not None:
                chain = max(chain, start + step.duration)
                total += step.duration
    return max(chain, total / workers)
