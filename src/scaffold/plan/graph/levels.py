"""The width of a plan, its critical path, and a lower bound on its duration."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Plan
from scaffold.plan.graph.dependency_graph import DependencyGraph
from scaffold.plan.graph.reach import forward_chain


def width(graphs: Sequence[DependencyGraph]) -> int:
    """Return the largest number of actions with the same earliest level, over all goals; 0 if none can run.

    Compounds with children and actions that can never run have no level.
    """
    levels = Counter(
        start
        for graph in graphs
        for index, start in enumerate(graph.reach.starts)
        if start is not None and index not in graph.children
    )
    return max(levels.values(), default=0)


def critical_path(graphs: Sequence[DependencyGraph]) -> tuple[ActionKey, ...]:
    """Return one of the longest chains of dependent actions; of several, the first in plan order.

    Compounds with children and actions that can never run are not part of it.
    """
    chains = (_longest(graph) for graph in graphs)
    return max(chains, key=len, default=())


def _longest(graph: DependencyGraph) -> tuple[ActionKey, ...]:
    ends = [
        (-start, index)
        for index, start in enumerate(graph.reach.starts)
        if start is not None and index not in graph.children
    ]
    if not ends:
        return ()
    # The negated start makes the latest one the smallest, and the index breaks ties in plan order.
    _, last = min(ends)
    return tuple(graph.actions[index].key for index in graph.reach.chain_to(last))


def makespan_bound(plan: Plan, workers: int, seconds: Mapping[ActionKey, float]) -> float:
    """Return a lower bound, in seconds, on the time until the last action that can run has ended.

    It is the longer of the critical path and the total work divided by `workers` (at least 1). Actions missing from
    `seconds` take 0, and so do compounds with children.
    """
    chain = total = 0.0
    for goal in plan.goals:
        graph = DependencyGraph(goal)
        steps = graph.steps(lambda key: seconds.get(key, 0.0))
        for step, start in zip(steps, forward_chain(steps).starts, strict=True):
            if start is not None:
                chain = max(chain, start + step.duration)
                total += step.duration
    return max(chain, total / workers)
