"""Dependency cycles: actions that wait for each other, as opposed to those that only wait for a cycle."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from msgspec import Struct

from scaffold.plan.graph.dependency_graph import DependencyGraph
from scaffold.plan.graph.reach import ChainStep, ChainToken, ForwardChaining


class Cycle(Struct, frozen=True):
    """A dependency cycle: each action waits for the next, the last for the first."""

    actions: tuple[int, ...]
    """Indexes, starting with the first in plan order."""
    needs: tuple[ChainToken, ...]
    """The needs of each; an int is the parent that must start first."""


def cycles(graph: DependencyGraph) -> Iterator[Cycle]:
    """Yield the cycles that keep actions of a goal from running.

    Preconditions that no action, or only the action itself, provides are separate errors and count as met here, as do
    missing effects of compounds. Any action that still cannot run is on a cycle or behind one. Independent components
    come first; the actions of a reported cycle then count as run, so that actions merely behind it are not reported.
    """
    needs = [
        tuple(need for need in graph.needs(i) if any(giver != i for giver in graph.providers_of(need)))
        for i in range(len(graph.actions))
    ]
    # A compound gives what no child of it does, and lets its children run.
    gives: list[Sequence[ChainToken]] = [
        (*graph.gaps.get(index, ()), index) if index in graph.children else action.effects
        for index, action in enumerate(graph.actions)
    ]
    steps = [ChainStep(frozenset(own), tuple(given)) for own, given in zip(needs, gives, strict=True)]
    chaining = ForwardChaining(steps, graph.held)
    unmet = [tuple(need for need in own if need not in chaining.held) for own in needs]

    def edges(node: ChainToken) -> Sequence[ChainToken]:
        return unmet[node] if isinstance(node, int) else graph.providers_of(node)

    stuck = [index for index, start in enumerate(chaining.starts) if start is None]
    for component in tuple(_strong_components(stuck, edges)):
        # In plan order, so that the same plan always gives the same findings.
        for index in sorted(node for node in component if isinstance(node, int)):
            yield from _cycles_from(index, graph, unmet, chaining)


def _cycles_from(
    start: int, graph: DependencyGraph, unmet: Sequence[Sequence[ChainToken]], chaining: ForwardChaining
) -> Iterator[Cycle]:
    """Follow dependencies from `start`; yield each cycle the path closes, let its actions run, and continue."""
    path: dict[int, ChainToken] = {}
    following = start
    while path or chaining.starts[following] is None:
        if chaining.starts[following] is not None:
            following, _ = path.popitem()
        elif following in path:
            cycle = tuple(path.items())[tuple(path).index(following) :]
            # It begins with the first action in plan order, whichever the search found first.
            first = min(range(len(cycle)), key=lambda at: cycle[at][0])
            actions, needs = zip(*cycle[first:], *cycle[:first], strict=True)
            yield Cycle(actions, needs)
            # From here on the cycle counts as broken, so that only actions on another cycle are still stuck.
            chaining.apply_steps(index for index, _ in cycle)
        else:
            # A stuck action has an unmet need, and `needs` contains only those that another action provides.
            path[following] = next(need for need in unmet[following] if need not in chaining.held)
            following = next(giver for giver in graph.providers_of(path[following]) if giver != following)


def _strong_components(
    roots: Iterable[ChainToken], edges: Callable[[ChainToken], Sequence[ChainToken]]
) -> Iterator[list[ChainToken]]:
    """Yield the strongly connected components reachable from `roots`, in reverse topological order (Tarjan)."""
    lowest: dict[ChainToken, float] = {}
    numbers: dict[ChainToken, float] = {}
    unassigned: list[ChainToken] = []
    for root in roots:
        path = [] if root in numbers else [(root, iter(edges(root)))]
        while path:
            node, rest = path[-1]
            if node not in numbers:
                numbers[node] = lowest[node] = len(numbers)
                unassigned.append(node)
            following = next((other for other in rest if _lower_link(lowest, node, other)), None)
            if following is not None:
                path.append((following, iter(edges(following))))
                continue
            path.pop()
            if lowest[node] == numbers[node]:
                start = len(unassigned) - 1
                while unassigned[start] != node:
                    start -= 1
                component = unassigned[start:]
                del unassigned[start:]
                # Infinite, so that later nodes ignore a finished component.
                lowest.update(dict.fromkeys(component, inf))
                yield component
            if path:
                _lower_link(lowest, path[-1][0], node)


def _lower_link(lowest: dict[ChainToken, float], node: ChainToken, other: ChainToken) -> bool:
    """Lower `node`'s low link to `other`'s; return whether `other` is unvisited."""
    lowest[node] = min(lowest[node], lowest.get(other, inf))
    return other not in lowest
