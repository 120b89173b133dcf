"""Proves that a plan can reach its goals, or explains why not. Actions only add facts, so the proof is exact."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.analysis.goal_errors import GoalErrorFinder, goal_error
from scaffold.plan.analysis.story_errors import story_errors
from scaffold.plan.graph.dependency_graph import DependencyGraph
from scaffold.plan.graph.levels import critical_path, width
from scaffold.plan.message_text import quoted_list

WarningCode = Literal["unused-effect", "duplicate-provider", "empty-effects", "unknown-key"]
WeaknessCode = Literal["no-contract", "needs-planner", "shared-file"]
"""What the explanation of a plan warns of; the plan can run all the same."""


class LintReport(Struct, frozen=True, kw_only=True):
    """The findings, and the shape of the part of the plan that can run."""

    findings: tuple[Finding, ...]
    width: int
    """The largest number of actions with the same earliest level."""
    critical_path: tuple[ActionKey, ...]
    """One of the longest chains of actions, in order."""
    actions: int
    """Number of actions in the plan."""

    @property
    def valid(self) -> bool:
        """True if there are no errors; warnings are allowed."""
        return not any(finding.severity == "error" for finding in self.findings)

    def after(self, findings: Iterable[Finding]) -> "LintReport":
        """Return this report with the findings of an earlier step, e.g. `read_plan`, put first."""
        return LintReport(
            findings=(*findings, *self.findings),
            width=self.width,
            critical_path=self.critical_path,
            actions=self.actions,
        )


NO_FACTS: Mapping[str, Collection[Assertion]] = MappingProxyType({})


def lint(plan: Plan, facts: Mapping[str, Collection[Assertion]] = NO_FACTS) -> LintReport:
    """Return all errors and warnings of `plan`, given the `facts` that already hold, by goal name.

    There is no error if and only if goal names and keys are unique, every goal state is reachable, every action can
    run, every effect of a compound with children is also an effect of one of them, and stories have steps alone.
    """
    graphs = [DependencyGraph(goal, facts.get(goal.name, ())) for goal in plan.goals]
    providers: dict[Assertion, list[str]] = {}
    for goal, graph in zip(plan.goals, graphs, strict=True):
        for effect in graph.providers:
            providers.setdefault(effect, []).append(goal.name)
    findings = [*_repeated_names(plan), *_repeated_keys(plan)]
    for goal, graph in zip(plan.goals, graphs, strict=True):
        findings += GoalErrorFinder(goal, graph, providers).all()
        findings += story_errors(goal)
        findings += _warnings(goal, graph)
    return LintReport(
        findings=tuple(findings), width=width(graphs), critical_path=critical_path(graphs), actions=len(plan.actions)
    )


def _repeated_names(plan: Plan) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for goal in plan.goals:
        seen[goal.name] += 1
        if seen[goal.name] == 2:
            fix = "Give each goal its own name, or merge the two."
            yield goal_error("duplicate-key", goal, None, f"more than one goal is named `{goal.name}`", fix)


def _repeated_keys(plan: Plan) -> Iterator[Finding]:
    seen: Counter[ActionKey] = Counter()
    for goal in plan.goals:
        for action in goal.actions:
            seen[action.key] += 1
            if seen[action.key] == 2:
                fix = "Give each action its own key; keys are unique in the whole plan."
                yield goal_error(
                    "duplicate-key", goal, action.key, f"more than one action has the key `{action.key}`", fix
                )


def _warnings(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    yield from _empty_effects(goal)
    yield from _unused_effects(goal, graph)
    yield from _duplicate_providers(goal, graph)


def goal_warning(code: WarningCode | WeaknessCode, goal: GoalSpec, action: str, message: str, fix: str) -> Finding:
    """Return a warning about an action of `goal`."""
    return Finding(code=code, severity="warning", goal=goal.name, action=action, message=message, fix=fix)


def _empty_effects(goal: GoalSpec) -> Iterator[Finding]:
    for action in goal.actions:
        if not action.effects:
            message = f"action `{action.key}` has no effects: nothing can wait for it, and no goal needs it"
            yield goal_warning("empty-effects", goal, action.key, message, "Name what it makes true, or remove it.")


def _unused_effects(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    needed = {*goal.goal_state, *(need for action in goal.actions for need in action.preconditions)}
    for action, parent in zip(goal.actions, graph.parents, strict=True):
        promised = () if parent is None else goal.actions[parent].effects
        for effect in dict.fromkeys(action.effects):
            if effect not in needed and effect not in promised:
                message = f"nothing needs the effect `{effect}` of action `{action.key}`"
                fix = "Add it to the goal state or to the preconditions of an action that should wait for it."
                yield goal_warning("unused-effect", goal, action.key, message, fix)


def _duplicate_providers(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    for effect, provider_indexes in graph.providers.items():
        if len(provider_indexes) > 1:
            keys = [goal.actions[index].key for index in provider_indexes]
            message = f"`{effect}` is provided more than once: by {quoted_list(keys)}"
            fix = "Let only one of them provide it, unless either one is enough."
            yield goal_warning("duplicate-provider", goal, keys[1], message, fix)
