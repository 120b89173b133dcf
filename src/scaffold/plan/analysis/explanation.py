"""Explanation of a plan: what runs when, which action provides what, how long it takes, where it is weak."""

from collections.abc import Iterator

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.analysis.agent_count import AgentCountAdvice, advise_agent_count
from scaffold.plan.analysis.lint import goal_finding, lint
from scaffold.plan.graph.dependency_graph import DependencyGraph, critical_path, makespan_bound, width
from scaffold.plan.message_text import quoted_list
from scaffold.plan.simulation.simulator import AttemptTiming


class AssertionProviders(Struct, frozen=True, kw_only=True):
    """An assertion, with the actions that make it true and those that need it."""

    assertion: Assertion
    providers: tuple[ActionKey, ...]
    needed_by: tuple[ActionKey, ...]
    """In plan order."""
    wanted: bool
    """Whether it is part of the goal state."""


class GoalExplanation(Struct, frozen=True, kw_only=True):
    """One goal. Compounds with children take no time and are on no level."""

    name: str
    levels: tuple[tuple[ActionKey, ...], ...]
    """Actions that could run in parallel: the first level at once, each next one when the previous is done."""
    supplies: tuple[AssertionProviders, ...]
    """In the order the plan first provides them."""
    critical_path: tuple[ActionKey, ...]
    width: int
    bound_s: float
    """Lower bound in seconds with any number of agents, if each action takes the `mean_s` of `AttemptTiming`."""


class Explanation(Struct, frozen=True, kw_only=True):
    """Everything known about a plan before it runs."""

    goals: tuple[GoalExplanation, ...]
    weaknesses: tuple[Finding, ...]
    """All warnings: lint's, then actions without a contract, compounds left to a planner, shared files."""
    advice: AgentCountAdvice


def explain(plan: Plan) -> Explanation:
    """Return the explanation of `plan`, which must be valid according to lint."""
    warnings = (finding for finding in lint(plan).findings if finding.severity == "warning")
    return Explanation(
        goals=tuple(map(_explain_goal, plan.goals)),
        weaknesses=(
            *warnings,
            *(weakness for goal in plan.goals for weakness in _find_weaknesses(goal, DependencyGraph(goal))),
        ),
        advice=advise_agent_count(plan),
    )


def _explain_goal(goal: GoalSpec) -> GoalExplanation:
    graph = DependencyGraph(goal)
    seconds = dict.fromkeys((action.key for action in goal.actions), float(AttemptTiming().mean_s))
    needers: dict[Assertion, list[ActionKey]] = {}
    for action in goal.actions:
        for need in dict.fromkeys(action.preconditions):
            needers.setdefault(need, []).append(action.key)
    wanted = frozenset(goal.goal_state)
    # Without a limit on agents, so the levels show what could run at once and not what will.
    return GoalExplanation(
        name=goal.name,
        levels=tuple(tuple(goal.actions[index].key for index in level) for _, level in _levels_by_start(graph)),
        supplies=tuple(
            AssertionProviders(
                assertion=assertion,
                providers=tuple(goal.actions[provider].key for provider in providers),
                needed_by=tuple(needers.get(assertion, ())),
                wanted=assertion in wanted,
            )
            for assertion, providers in graph.providers.items()
        ),
        critical_path=critical_path([graph]),
        width=width([graph]),
        # As many workers as actions, so that only the critical path counts.
        bound_s=makespan_bound(Plan(goals=(goal,)), len(goal.actions) or 1, seconds),
    )


def _levels_by_start(graph: DependencyGraph) -> list[tuple[float, list[int]]]:
    levels: dict[float, list[int]] = {}
    for index, start in graph.leaf_starts:
        levels.setdefault(start, []).append(index)
    return sorted(levels.items())


def _find_weaknesses(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    for index, action in enumerate(goal.actions):
        # The plan can still run; people decide whether it is good enough.
        if action.kind == "compound" and index not in graph.children:
            message = f"compound `{action.key}` has no children, so a planner has to decompose it"
            yield goal_finding("needs-planner", goal, action.key, message, "Add its children to the plan.")
        elif action.kind == "primitive" and (action.contract is None or action.contract.empty):
            message = f"action `{action.key}` has no contract: the only check is that it changed something"
            yield goal_finding("no-contract", goal, action.key, message, "Add a command that shows its effects.")
    for _, level in _levels_by_start(graph):
        users: dict[str, list[ActionKey]] = {}
        for index in level:
            # A file that an action names twice is not shared.
            for path in dict.fromkeys(goal.actions[index].files):
                users.setdefault(path, []).append(goal.actions[index].key)
        for path, keys in users.items():
            if len(keys) > 1:
                message = f"{quoted_list(keys)} may both change `{path}`, so they do not run at the same time"
                fix = f"Let `{keys[1]}` wait for an effect of `{keys[0]}`, or assign the file to only one of them."
                yield goal_finding("shared-file", goal, keys[1], message, fix)
