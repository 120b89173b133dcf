"""Proves that a plan can reach its goals, or says why not. Actions only add facts, so the proof is exact."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.faults import Faults, error
from scaffold.plan.levels import critical_path, width
from scaffold.plan.wiring import Wiring
from scaffold.plan.wording import listed

WarningCode = Literal["unused-effect", "duplicate-provider", "empty-effects", "unknown-key"]


class LintReport(Struct, frozen=True, kw_only=True):
    """What lint found, and the shape of the plan as far as it can run."""

    findings: tuple[Finding, ...]
    width: int
    """The largest number of actions with the same earliest level."""
    critical_path: tuple[Key, ...]
    """A longest chain of actions, in order."""
    actions: int
    """How many actions the plan has."""

    @property
    def valid(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return not any(finding.severity == "error" for finding in self.findings)

    def after(self, findings: Iterable[Finding]) -> "LintReport":
        """Return the report with the findings of an earlier step, e.g. of `read_plan`, in front."""
        return LintReport(
            findings=(*findings, *self.findings),
            width=self.width,
            critical_path=self.critical_path,
            actions=self.actions,
        )


NOTHING: Mapping[str, Collection[Assertion]] = MappingProxyType({})


def lint(plan: Plan, facts: Mapping[str, Collection[Assertion]] = NOTHING) -> LintReport:
    """Return everything worth saying about `plan`; `facts` are what holds already, by the name of the goal.

    There is no error exactly if keys and names of goals are unique, every goal state can be reached, every action
    runs sooner or later, and every effect of a compound with children is an effect of one of them.
    """
    wirings = [Wiring(goal, facts.get(goal.name, ())) for goal in plan.goals]
    providers: dict[Assertion, list[str]] = {}
    for goal, wiring in zip(plan.goals, wirings, strict=True):
        for effect in wiring.providers:
            providers.setdefault(effect, []).append(goal.name)
    findings = [*_repeated_names(plan), *_repeated_keys(plan)]
    for goal, wiring in zip(plan.goals, wirings, strict=True):
        findings += Faults(goal, wiring, providers).all()
        findings += _warnings(goal, wiring)
    return LintReport(
        findings=tuple(findings), width=width(wirings), critical_path=critical_path(wirings), actions=len(plan.actions)
    )


def _repeated_names(plan: Plan) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for goal in plan.goals:
        seen[goal.name] += 1
        if seen[goal.name] == 2:
            fix = "Give each goal a name of its own, or join the two."
            yield error("duplicate-key", goal, None, f"more than one goal is named `{goal.name}`", fix)


def _repeated_keys(plan: Plan) -> Iterator[Finding]:
    seen: Counter[Key] = Counter()
    for goal in plan.goals:
        for action in goal.actions:
            seen[action.key] += 1
            if seen[action.key] == 2:
                fix = "Give each action a key of its own; keys are unique in the whole plan."
                yield error("duplicate-key", goal, action.key, f"more than one action has the key `{action.key}`", fix)


def _warnings(goal: GoalSpec, wiring: Wiring) -> Iterator[Finding]:
    yield from _empty_effects(goal)
    yield from _unused_effects(goal, wiring)
    yield from _duplicate_providers(goal, wiring)


def _warning(code: WarningCode, goal: GoalSpec, action: str, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="warning", goal=goal.name, action=action, message=message, fix=fix)


def _empty_effects(goal: GoalSpec) -> Iterator[Finding]:
    for action in goal.actions:
        if not action.effects:
            message = f"action `{action.key}` has no effects: nothing can wait for it, and no goal needs it"
            yield _warning("empty-effects", goal, action.key, message, "Name what it makes true, or remove it.")


def _unused_effects(goal: GoalSpec, wiring: Wiring) -> Iterator[Finding]:
    needed = {*goal.goal_state, *(need for action in goal.actions for need in action.preconditions)}
    for action, parent in zip(goal.actions, wiring.parents, strict=True):
        promised = () if parent is None else goal.actions[parent].effects
        for effect in dict.fromkeys(action.effects):
            if effect not in needed and effect not in promised:
                message = f"nobody needs the effect `{effect}` of action `{action.key}`"
                fix = "Add it to the goal state or to the preconditions of an action that should wait for it."
                yield _warning("unused-effect", goal, action.key, message, fix)


def _duplicate_providers(goal: GoalSpec, wiring: Wiring) -> Iterator[Finding]:
    for effect, givers in wiring.providers.items():
        if len(givers) > 1:
            keys = [goal.actions[giver].key for giver in givers]
            message = f"`{effect}` is provided more than once: by {listed(keys)}"
            fix = "Leave it to one of them, unless whichever comes first is enough."
            yield _warning("duplicate-provider", goal, keys[1], message, fix)
