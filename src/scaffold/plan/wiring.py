"""How the actions of one goal hang together: who gives what, who is whose child, and the steps that chaining runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.plan.reach import ORPHANED, Reach, Step, Token, forward_chain


class Wiring:
    """The actions of a goal by index, in plan order.

    A compound with children takes no time: once its preconditions hold it has begun, and its index is the token its
    children wait for. Its effects are theirs to give; a compound without children gives its effects itself.
    """

    def __init__(self, goal: GoalSpec, held: Iterable[Assertion] = ()) -> None:
        """Wire up `goal`, in which `held` is true already.

        Of several actions with one key, the first is the one parents are looked up by.
        """
        self.actions: Sequence[ActionSpec] = goal.actions
        self.held = frozenset(held)
        self.indexes: Mapping[Key, int] = {
            action.key: index for index, action in reversed(tuple(enumerate(goal.actions)))
        }

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        """The index of each action's parent; None where it has none, and where what it names is no compound here."""
        return tuple(None if action.parent is None else self._compound(action.parent) for action in self.actions)

    def _compound(self, key: Key) -> int | None:
        index = self.indexes.get(key)
        return index if index is not None and self.actions[index].kind == "compound" else None

    @cached_property
    def orphans(self) -> tuple[int, ...]:
        """The actions whose parent is no compound of this goal; they can never run."""
        return tuple(
            index
            for index, (action, parent) in enumerate(zip(self.actions, self.parents, strict=True))
            if action.parent is not None and parent is None
        )

    @cached_property
    def children(self) -> Mapping[int, Sequence[int]]:
        """The children of each compound that has some."""
        children: dict[int, list[int]] = {}
        for index, parent in enumerate(self.parents):
            if parent is not None:
                children.setdefault(parent, []).append(index)
        return children

    @cached_property
    def gaps(self) -> Mapping[int, tuple[Assertion, ...]]:
        """The effects of compounds that none of their children has and that do not hold already."""
        gaps = {}
        for compound, children in self.children.items():
            made = self.held.union(*(self.actions[child].effects for child in children))
            if gap := tuple(effect for effect in self.actions[compound].effects if effect not in made):
                gaps[compound] = gap
        return gaps

    @cached_property
    def providers(self) -> Mapping[Assertion, Sequence[int]]:
        """Who gives an assertion: leaves by their effects, compounds with children only by their gaps."""
        providers: dict[Assertion, list[int]] = {}
        for index, action in enumerate(self.actions):
            effects = self.gaps.get(index, ()) if index in self.children else action.effects
            for effect in dict.fromkeys(effects):
                providers.setdefault(effect, []).append(index)
        return providers

    def needs(self, index: int) -> tuple[Token, ...]:
        """Return what the action waits for: its preconditions, then its parent; an orphan for ORPHANED."""
        action, parent = self.actions[index], self.parents[index]
        if action.parent is None:
            return action.preconditions
        return (*action.preconditions, ORPHANED if parent is None else parent)

    def givers(self, need: Token) -> Sequence[int]:
        """Return the actions that make `need` hold, in plan order; nobody adopts an orphan."""
        if isinstance(need, str):
            return self.providers.get(need, ())
        return () if need == ORPHANED else (need,)

    def steps(self, duration: Callable[[Key], float]) -> tuple[Step, ...]:
        """Return the actions as steps; a leaf takes the `duration` of its key, in any unit."""
        return tuple(
            Step(frozenset(self.needs(index)), (index,), 0)
            if index in self.children
            else Step(frozenset(self.needs(index)), action.effects, duration(action.key))
            for index, action in enumerate(self.actions)
        )

    @cached_property
    def reach(self) -> Reach:
        """What comes of the plan when each leaf takes one level."""
        return forward_chain(self.steps(lambda _: 1), self.held)
