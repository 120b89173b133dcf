"""The errors of one goal: what keeps it, or some of its actions, from ever being done."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from scaffold.core.ids import Assertion
from scaffold.core.plan import Finding, GoalSpec
from scaffold.plan.cycles import Cycle, cycles
from scaffold.plan.wiring import Wiring
from scaffold.plan.wording import Spelling, listed

ErrorCode = Literal["unreachable-goal", "unprovided-precondition", "cycle", "self-dependency", "duplicate-key"]


def error(code: ErrorCode, goal: GoalSpec, action: str | None, message: str, fix: str) -> Finding:
    """Return an error about `goal`, or about one of its actions."""
    return Finding(code=code, severity="error", goal=goal.name, action=action, message=message, fix=fix)


class Faults:
    """Finds the errors of one goal; `providers` tells which goals provide an assertion."""

    def __init__(self, goal: GoalSpec, wiring: Wiring, providers: Mapping[Assertion, Sequence[str]]) -> None:
        """Look at `goal`, wired up as `wiring`."""
        self._goal = goal
        self._wiring = wiring
        self._providers = providers
        self._effects = Spelling(wiring.providers)
        self._keys = Spelling(action.key for action in goal.actions if action.kind == "compound")

    def all(self) -> Iterator[Finding]:
        """Yield them: causes first, the goal state they keep from being reached last."""
        yield from self._unprovided()
        yield from self._orphans()
        yield from self._self_dependencies()
        yield from (self._cycle(cycle) for cycle in cycles(self._wiring))
        yield from self._gaps()
        yield from self._unreachable()

    def _unprovided(self) -> Iterator[Finding]:
        for action in self._goal.actions:
            for need in dict.fromkeys(action.preconditions):
                if need not in self._wiring.providers and need not in self._wiring.held:
                    message = (
                        f"action `{action.key}` needs `{need}`, which no action of goal `{self._goal.name}` makes true"
                    )
                    fix = self._fix(need, f"or take it out of the preconditions of `{action.key}`")
                    yield error("unprovided-precondition", self._goal, action.key, message, fix)

    def _fix(self, missing: Assertion, otherwise: str) -> str:
        if elsewhere := self._providers.get(missing):
            return (
                f"Facts are per goal, and only goal `{elsewhere[0]}` provides `{missing}`: "
                f"provide it in goal `{self._goal.name}` too, or join the two goals."
            )
        return f"{self._effects.hint(missing)}Add an action with the effect `{missing}`, {otherwise}."

    def _orphans(self) -> Iterator[Finding]:
        for index in self._wiring.orphans:
            key, parent = self._goal.actions[index].key, self._goal.actions[index].parent or ""
            message = (
                f"action `{key}` waits for its parent `{parent}`, which is no compound of goal `{self._goal.name}`"
            )
            fix = f"{self._keys.hint(parent)}Name a compound of the same goal, or take `parent` out."
            yield error("unprovided-precondition", self._goal, key, message, fix)

    def _self_dependencies(self) -> Iterator[Finding]:
        for index, action in enumerate(self._goal.actions):
            for need in dict.fromkeys(self._wiring.needs(index)):
                givers = self._wiring.givers(need)
                if len(givers) == 1 and givers[0] == index and need not in self._wiring.held:
                    what = f"`{need}`" if isinstance(need, str) else "its parent"
                    message = f"action `{action.key}` waits for {what}, which only it could provide itself"
                    fix = f"Take {what} out of its preconditions, or add another action that provides it."
                    if isinstance(need, int):
                        message, fix = f"action `{action.key}` is its own parent", "Take `parent` out."
                    yield error("self-dependency", self._goal, action.key, message, fix)

    def _cycle(self, cycle: Cycle) -> Finding:
        keys = [self._goal.actions[index].key for index in cycle.actions]
        message = f"actions wait for each other: {' -> '.join([*keys, keys[0]])}"
        named = ((key, need) for key, need in zip(keys, cycle.needs, strict=True) if isinstance(need, str))
        key, need = next(named, (keys[0], None))
        fix = f"Take one precondition on the cycle out, e.g. `{need}` of `{key}`, or provide it by another action."
        if need is None:
            fix = f"Take one `parent` on the cycle out, e.g. that of `{key}`."
        return error("cycle", self._goal, keys[0], message, fix)

    def _gaps(self) -> Iterator[Finding]:
        for index, gap in self._wiring.gaps.items():
            key = self._goal.actions[index].key
            for effect in gap:
                message = f"compound `{key}` promises `{effect}`, but its children never make `{effect}` true"
                fix = f"Add `{effect}` to the effects of a child of `{key}`, or take it out of the compound's."
                yield error("unreachable-goal", self._goal, key, message, fix)

    def _unreachable(self) -> Iterator[Finding]:
        for wish in dict.fromkeys(self._goal.goal_state):
            if wish in self._wiring.reach.held:
                continue
            message = f"goal `{self._goal.name}` is never reached: no action makes `{wish}` true"
            fix = self._fix(wish, "or take it out of the goal state")
            if givers := self._wiring.givers(wish):
                keys = listed([self._goal.actions[giver].key for giver in givers])
                message = (
                    f"goal `{self._goal.name}` is never reached: `{wish}` is left to {keys}, which cannot provide it"
                )
                fix = f"Mend what is said of {keys}, or of the actions before."
            yield error("unreachable-goal", self._goal, None, message, fix)
