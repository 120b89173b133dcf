"""Which actions wait for each other in a ring, as against those that merely wait behind one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from msgspec import Struct

from scaffold.plan.reach import Chaining, Step, Token
from scaffold.plan.wiring import Wiring


class Cycle(Struct, frozen=True):
    """Each action waits for what only the next can provide, the last for the first."""

    actions: tuple[int, ...]
    """Starting with the first in plan order."""
    needs: tuple[Token, ...]
    """What each of them waits for; an int is the parent that must begin first."""


def cycles(wiring: Wiring) -> Iterator[Cycle]:
    """Yield the cycles that keep actions of a goal from running, each by one ring of its actions.

    Needs that nobody provides, or only the action itself, are faults of their own and count as met here, and so do
    effects that a compound's children fail to provide. What then still cannot run waits for a cycle or behind one.
    Knots that wait for nobody outside come first; each ring found is taken to run, so that those who would then run
    too are not blamed.
    """
    needs = [tuple(need for need in wiring.needs(i) if _others(wiring, i, need)) for i in range(len(wiring.actions))]
    chaining = Chaining([_step(wiring, index, mine) for index, mine in enumerate(needs)], wiring.held)
    unmet = [tuple(need for need in mine if need not in chaining.held) for mine in needs]

    def edges(node: Token) -> Sequence[Token]:
        return unmet[node] if isinstance(node, int) else wiring.givers(node)

    stuck = [index for index, start in enumerate(chaining.starts) if start is None]
    for knot in tuple(_knots(stuck, edges)):
        for index in sorted(node for node in knot if isinstance(node, int)):
            yield from _rings_from(index, wiring, unmet, chaining)


def _others(wiring: Wiring, index: int, need: Token) -> bool:
    return any(giver != index for giver in wiring.givers(need))


def _step(wiring: Wiring, index: int, needs: Iterable[Token]) -> Step:
    if index in wiring.children:
        return Step(frozenset(needs), (*wiring.gaps.get(index, ()), index))
    return Step(frozenset(needs), wiring.actions[index].effects)


def _rings_from(start: int, wiring: Wiring, unmet: Sequence[Sequence[Token]], chaining: Chaining) -> Iterator[Cycle]:
    """Walk from who waits to whom it waits for; each time the path bites itself, that is a ring. Let it run, go on."""
    path: dict[int, Token] = {}
    following = start
    while path or chaining.starts[following] is None:
        if chaining.starts[following] is not None:
            following, _ = path.popitem()
        elif following in path:
            ring = tuple(path.items())[tuple(path).index(following) :]
            yield _cycle(ring)
            chaining.fire(index for index, _ in ring)
        else:
            path[following] = next(need for need in unmet[following] if need not in chaining.held)
            following = next(giver for giver in wiring.givers(path[following]) if giver != following)


def _cycle(ring: Sequence[tuple[int, Token]]) -> Cycle:
    first = min(range(len(ring)), key=lambda place: ring[place][0])
    actions, needs = zip(*ring[first:], *ring[:first], strict=True)
    return Cycle(actions, needs)


def _knots(roots: Iterable[Token], edges: Callable[[Token], Sequence[Token]]) -> Iterator[list[Token]]:
    """Yield the strongly connected components in reach of `roots`, each after those it leads to (Tarjan)."""
    lowest: dict[Token, float] = {}
    numbers: dict[Token, float] = {}
    unassigned: list[Token] = []
    for root in roots:
        path = [] if root in numbers else [(root, iter(edges(root)))]
        while path:
            node, rest = path[-1]
            if node not in numbers:
                numbers[node] = lowest[node] = len(numbers)
                unassigned.append(node)
            following = next((other for other in rest if _lower(lowest, node, other)), None)
            if following is not None:
                path.append((following, iter(edges(following))))
                continue
            path.pop()
            if lowest[node] == numbers[node]:
                yield _take(unassigned, node, lowest)
            if path:
                _lower(lowest, path[-1][0], node)


def _lower(lowest: dict[Token, float], node: Token, other: Token) -> bool:
    """Let `node` see as far back as `other`; return whether `other` was never visited."""
    lowest[node] = min(lowest[node], lowest.get(other, inf))
    return other not in lowest


def _take(unassigned: list[Token], last: Token, lowest: dict[Token, float]) -> list[Token]:
    """Take a finished component off the end; nobody sees back through it any more."""
    place = len(unassigned) - 1
    while unassigned[place] != last:
        place -= 1
    component = unassigned[place:]
    del unassigned[place:]
    lowest.update(dict.fromkeys(component, inf))
    return component
