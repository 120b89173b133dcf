"""The errors of one goal: why it can never be reached, or some of its actions can never run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from scaffold.core.ids import Assertion
from scaffold.core.plan import Finding, GoalSpec
from scaffold.plan.graph.cycles import Cycle, cycles
from scaffold.plan.graph.dependency_graph import DependencyGraph
from scaffold.plan.message_text import SpellingHints, quoted_list

ErrorCode = Literal[
    "unreachable-goal", "unprovided-precondition", "cycle", "self-dependency", "duplicate-key", "malformed-story"
]


def goal_error(code: ErrorCode, goal: GoalSpec, action: str | None, message: str, fix: str) -> Finding:
    """Return an error about `goal`, or about one of its actions if `action` is not None."""
    return Finding(code=code, severity="error", goal=goal.name, action=action, message=message, fix=fix)


class GoalErrorFinder:
    """Finds the errors of one goal; `providers` maps each assertion to the goals that provide it."""

    def __init__(self, goal: GoalSpec, graph: DependencyGraph, providers: Mapping[Assertion, Sequence[str]]) -> None:
        """Take `goal` and its dependency graph."""
        self._goal = goal
        self._graph = graph
        self._providers = providers
        self._effects = SpellingHints(graph.providers)
        self._keys = SpellingHints(action.key for action in goal.actions if action.kind == "compound")

    def all(self) -> Iterator[Finding]:
        """Yield the errors: causes first, unreachable parts of the goal state last."""
        yield from self._unprovided()
        yield from self._orphans()
        yield from self._self_dependencies()
        yield from (self._cycle(cycle) for cycle in cycles(self._graph))
        yield from self._gaps()
        yield from self._unreachable()

    def _unprovided(self) -> Iterator[Finding]:
        for action in self._goal.actions:
            for need in dict.fromkeys(action.preconditions):
                if need not in self._graph.providers and need not in self._graph.held:
                    message = (
                        f"action `{action.key}` needs `{need}`, which no action of goal `{self._goal.name}` makes true"
                    )
                    fix = self._fix(need, f"or remove it from the preconditions of `{action.key}`")
                    yield goal_error("unprovided-precondition", self._goal, action.key, message, fix)

    def _fix(self, missing: Assertion, otherwise: str) -> str:
        if elsewhere := self._providers.get(missing):
            return (
                f"Facts are per goal, and only goal `{elsewhere[0]}` provides `{missing}`: "
                f"provide it in goal `{self._goal.name}` too, or merge the two goals."
            )
        return f"{self._effects.hint(missing)}Add an action with the effect `{missing}`, {otherwise}."

    def _orphans(self) -> Iterator[Finding]:
        for index in self._graph.orphans:
            key, parent = self._goal.actions[index].key, self._goal.actions[index].parent or ""
            message = (
                f"action `{key}` waits for its parent `{parent}`, which is not a compound of goal `{self._goal.name}`"
            )
            fix = f"{self._keys.hint(parent)}Name a compound of the same goal, or remove `parent`."
            yield goal_error("unprovided-precondition", self._goal, key, message, fix)

    def _self_dependencies(self) -> Iterator[Finding]:
        for index, action in enumerate(self._goal.actions):
            for need in dict.fromkeys(self._graph.needs(index)):
                providers = self._graph.providers_of(need)
                if len(providers) == 1 and providers[0] == index and need not in self._graph.held:
                    what = f"`{need}`" if isinstance(need, str) else "its parent"
                    message = f"action `{action.key}` waits for {what}, which only the action itself provides"
                    fix = f"Remove {what} from its preconditions, or add another action that provides it."
                    if isinstance(need, int):
                        message, fix = f"action `{action.key}` is its own parent", "Remove `parent`."
                    yield goal_error("self-dependency", self._goal, action.key, message, fix)

    def _cycle(self, cycle: Cycle) -> Finding:
        keys = [self._goal.actions[index].key for index in cycle.actions]
        message = f"actions wait for each other: {' -> '.join([*keys, keys[0]])}"
        named = ((key, need) for key, need in zip(keys, cycle.needs, strict=True) if isinstance(need, str))
        key, need = next(named, (keys[0], None))
        fix = f"Remove one precondition on the cycle, e.g. `{need}` of `{key}`, or provide it by another action."
        if need is None:
            fix = f"Remove one `parent` on the cycle, e.g. that of `{key}`."
        return goal_error("cycle", self._goal, keys[0], message, fix)

    def _gaps(self) -> Iterator[Finding]:
        for index, gap in self._graph.gaps.items():
            key = self._goal.actions[index].key
            for effect in gap:
                message = f"compound `{key}` promises `{effect}`, but its children never make `{effect}` true"
                fix = f"Add `{effect}` to the effects of a child of `{key}`, or remove it from the compound's."
                yield goal_error("unreachable-goal", self._goal, key, message, fix)

    def _unreachable(self) -> Iterator[Finding]:
        for assertion in dict.fromkeys(self._goal.goal_state):
            if assertion in self._graph.reach.held:
                continue
            message = f"goal `{self._goal.name}` is never reached: no action makes `{assertion}` true"
            fix = self._fix(assertion, "or remove it from the goal state")
            if providers := self._graph.providers_of(assertion):
                keys = quoted_list([self._goal.actions[giver].key for giver in providers])
                message = (
                    f"goal `{self._goal.name}` is never reached: `{assertion}` needs {keys}, which cannot provide it"
                )
                fix = f"Fix {keys}, or the actions they depend on."
            yield goal_error("unreachable-goal", self._goal, None, message, fix)
