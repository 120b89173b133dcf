"""What a plan means: what runs when, who provides what for whom, how long it could take, and where it is weak."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.advice import Advice, advise
from scaffold.plan.levels import critical_path, makespan_bound, width
from scaffold.plan.lint import lint
from scaffold.plan.luck import Pace
from scaffold.plan.wiring import Wiring
from scaffold.plan.wording import listed

WeaknessCode = Literal["no-contract", "needs-planner", "shared-file"]


class Supply(Struct, frozen=True, kw_only=True):
    """An assertion: who makes it true, and for whom."""

    assertion: Assertion
    providers: tuple[Key, ...]
    needed_by: tuple[Key, ...]
    """Actions, in plan order."""
    wanted: bool
    """Whether it belongs to the goal state."""


class GoalExplained(Struct, frozen=True, kw_only=True):
    """One goal; compounds with children take no time and are on no level."""

    name: str
    levels: tuple[tuple[Key, ...], ...]
    """What could run side by side, the first at once, each next when the one before is done."""
    supplies: tuple[Supply, ...]
    """In the order in which they are first provided in the plan."""
    critical_path: tuple[Key, ...]
    width: int
    bound_s: float
    """No number of agents is faster than that, if each action takes `mean_s` of `Pace`."""


class Explanation(Struct, frozen=True, kw_only=True):
    """All there is to know about a plan before it runs."""

    goals: tuple[GoalExplained, ...]
    weaknesses: tuple[Finding, ...]
    """All warnings: those of lint, then actions without a contract, compounds left to a planner, shared files."""
    advice: Advice


def explain(plan: Plan) -> Explanation:
    """Return what `plan`, which lint found valid, means."""
    warnings = (finding for finding in lint(plan).findings if finding.severity == "warning")
    return Explanation(
        goals=tuple(map(_goal, plan.goals)),
        weaknesses=(*warnings, *(weakness for goal in plan.goals for weakness in _weaknesses(goal, Wiring(goal)))),
        advice=advise(plan),
    )


def _goal(goal: GoalSpec) -> GoalExplained:
    wiring = Wiring(goal)
    seconds = dict.fromkeys((action.key for action in goal.actions), float(Pace().mean_s))
    return GoalExplained(
        name=goal.name,
        levels=tuple(tuple(goal.actions[index].key for index in level) for _, level in _levels(wiring)),
        supplies=tuple(_supplies(goal, wiring)),
        critical_path=critical_path([wiring]),
        width=width([wiring]),
        bound_s=makespan_bound(Plan(goals=(goal,)), len(goal.actions) or 1, seconds),
    )


def _levels(wiring: Wiring) -> list[tuple[float, list[int]]]:
    levels: dict[float, list[int]] = {}
    for index, start in enumerate(wiring.reach.starts):
        if start is not None and index not in wiring.children:
            levels.setdefault(start, []).append(index)
    return sorted(levels.items())


def _supplies(goal: GoalSpec, wiring: Wiring) -> Iterator[Supply]:
    needers: dict[Assertion, list[Key]] = {}
    for action in goal.actions:
        for need in dict.fromkeys(action.preconditions):
            needers.setdefault(need, []).append(action.key)
    wanted = frozenset(goal.goal_state)
    for assertion, givers in wiring.providers.items():
        yield Supply(
            assertion=assertion,
            providers=tuple(goal.actions[giver].key for giver in givers),
            needed_by=tuple(needers.get(assertion, ())),
            wanted=assertion in wanted,
        )


def _weaknesses(goal: GoalSpec, wiring: Wiring) -> Iterator[Finding]:
    for index, action in enumerate(goal.actions):
        if action.kind == "compound" and index not in wiring.children:
            message = f"compound `{action.key}` has no children: a planner has to break it down"
            yield _weakness("needs-planner", goal, action.key, message, "Write its children down.")
        elif action.kind == "primitive" and (action.contract is None or action.contract.empty):
            message = f"action `{action.key}` has no contract: all that will be known is that it changed something"
            yield _weakness("no-contract", goal, action.key, message, "Add a command that shows its effects.")
    for path, keys in _shared(goal, wiring):
        message = f"{listed(keys)} may run side by side and both touch `{path}`: one may have to be done again"
        fix = f"Let `{keys[1]}` wait for an effect of `{keys[0]}`, or give the file to one of them."
        yield _weakness("shared-file", goal, keys[1], message, fix)


def _shared(goal: GoalSpec, wiring: Wiring) -> Iterator[tuple[str, Sequence[Key]]]:
    """Yield the files that several actions of the same level name, word for word, with those actions."""
    for _, level in _levels(wiring):
        users: dict[str, list[Key]] = {}
        for index in level:
            for path in dict.fromkeys(goal.actions[index].files):
                users.setdefault(path, []).append(goal.actions[index].key)
        yield from ((path, keys) for path, keys in users.items() if len(keys) > 1)


def _weakness(code: WeaknessCode, goal: GoalSpec, action: Key, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="warning", goal=goal.name, action=action, message=message, fix=fix)
