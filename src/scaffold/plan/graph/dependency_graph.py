"""The dependencies between one goal's actions: providers, parents, children, and the steps for forward chaining."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.graph.reach import ORPHANED, ChainStep, ChainToken, Reach, forward_chain


class DependencyGraph:
    """The actions of a goal by index, in plan order.

    A compound with children takes no time: it starts when its preconditions hold, and its index is the token its
    children wait for. Its children provide its effects; a compound without children provides its own.
    """

    def __init__(self, goal: GoalSpec, held: Iterable[Assertion] = ()) -> None:
        """Build the graph of `goal`, in which the assertions `held` already hold.

        If several actions have the same key, parents refer to the first.
        """
        self.actions: Sequence[ActionSpec] = goal.actions
        self.held = frozenset(held)
        # Reversed, so that the first of several actions with one key stays.
        self.indexes: Mapping[ActionKey, int] = {
            action.key: index for index, action in reversed(tuple(enumerate(goal.actions)))
        }

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        """The index of each action's parent; None if it has none, or if it is not a compound of this goal."""
        found = (None if each.parent is None else self.indexes.get(each.parent) for each in self.actions)
        return tuple(None if at is None or self.actions[at].kind != "compound" else at for at in found)

    @cached_property
    def orphans(self) -> tuple[int, ...]:
        """Actions whose parent is not a compound of this goal; they can never run."""
        return tuple(
            index
            for index, (action, parent) in enumerate(zip(self.actions, self.parents, strict=True))
            if action.parent is not None and parent is None
        )

    @cached_property
    def children(self) -> Mapping[int, Sequence[int]]:
        """The children of each compound that has any."""
        children: dict[int, list[int]] = {}
        for index, parent in enumerate(self.parents):
            if parent is not None:
                children.setdefault(parent, []).append(index)
        return children

    @cached_property
    def gaps(self) -> Mapping[int, tuple[Assertion, ...]]:
        """Per compound, its effects that neither hold already nor are an effect of a child."""
        gaps = {}
        for compound, children in self.children.items():
            made = self.held.union(*(self.actions[child].effects for child in children))
            if gap := tuple(effect for effect in self.actions[compound].effects if effect not in made):
                gaps[compound] = gap
        return gaps

    @cached_property
    def providers(self) -> Mapping[Assertion, Sequence[int]]:
        """The providers of each assertion: leaves by their effects, compounds with children only by their gaps."""
        providers: dict[Assertion, list[int]] = {}
        for index, action in enumerate(self.actions):
            effects = self.gaps.get(index, ()) if index in self.children else action.effects
            for effect in dict.fromkeys(effects):
                providers.setdefault(effect, []).append(index)
        return providers

    def needs(self, index: int) -> tuple[ChainToken, ...]:
        """Return the action's needs: its preconditions, then its parent's token, or ORPHANED for an orphan."""
        action, parent = self.actions[index], self.parents[index]
        # An orphan waits for a token that nothing gives, so forward chaining never starts it.
        if action.parent is None:
            return action.preconditions
        return (*action.preconditions, ORPHANED if parent is None else parent)

    def providers_of(self, need: ChainToken) -> Sequence[int]:
        """Return the actions that provide `need`, in plan order; none provide ORPHANED."""
        if isinstance(need, str):
            return self.providers.get(need, ())
        return () if need == ORPHANED else (need,)

    def steps(self, duration: Callable[[ActionKey], float]) -> tuple[ChainStep, ...]:
        """Return the actions as steps; a leaf's duration is `duration(key)`, in any unit."""
        return tuple(
            ChainStep(frozenset(self.needs(index)), (index,), 0)
            if index in self.children
            else ChainStep(frozenset(self.needs(index)), action.effects, duration(action.key))
            for index, action in enumerate(self.actions)
        )

    @cached_property
    def reach(self) -> Reach:
        """The result of forward chaining in which each leaf takes one level."""
        return forward_chain(self.steps(lambda _: 1), self.held)

    @property
    def leaf_starts(self) -> Iterator[tuple[int, float]]:
        """The index and the earliest level of each action that takes time and can run, in plan order."""
        for index, start in enumerate(self.reach.starts):
            if start is not None and index not in self.children:
                yield index, start


def width(graphs: Sequence[DependencyGraph]) -> int:
    """Return the largest number of actions with the same earliest level, over all goals; 0 if none can run.

    Compounds with children and actions that can never run have no level.
    """
    levels = Counter(start for graph in graphs for _, start in graph.leaf_starts)
    return max(levels.values(), default=0)


def critical_path(graphs: Sequence[DependencyGraph]) -> tuple[ActionKey, ...]:
    """Return one of the longest chains of dependent actions; of several, the first in plan order.

    Compounds with children and actions that can never run are not part of it.
    """
    chains: list[tuple[ActionKey, ...]] = []
    for graph in graphs:
        # The negated start makes the latest one the smallest, and the index breaks ties in plan order.
        if ends := [(-start, index) for index, start in graph.leaf_starts]:
            _, last = min(ends)
            chains.append(tuple(graph.actions[index].key for index in graph.reach.chain_to(last)))
    return max(chains, key=len, default=())


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
            # A step that never starts takes no time.
            if start is not None:
                chain = max(chain, start + step.duration)
                total += step.duration
    return max(chain, total / workers)
