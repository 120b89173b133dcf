"""Proves that a plan can reach its goals, or explains why not. Actions only add facts, so the proof is exact."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.graph.cycles import Cycle, cycles
from scaffold.plan.graph.dependency_graph import DependencyGraph, critical_path, width
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.story.actions import step_key
from scaffold.plan.story.record import STEP_ID, StepId
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.plan.text.right_forms import EXAMPLES

ErrorCode = Literal[
    "unreachable-goal", "unprovided-precondition", "cycle", "self-dependency", "duplicate-key", "malformed-story"
]
ERROR_CODES = frozenset(get_args(ErrorCode))


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
        # Causes before consequences: who fixes the first finding often fixes the others.
        yield from self._unprovided_preconditions()
        for index in self._graph.orphans:
            key, parent = self._goal.actions[index].key, self._goal.actions[index].parent or ""
            message = (
                f"action `{key}` waits for its parent `{parent}`, which is not a compound of goal `{self._goal.name}`"
            )
            fix = f"{self._keys.hint(parent)}Name a compound of the same goal, or remove `parent`."
            yield goal_finding("unprovided-precondition", self._goal, key, message, fix)
        yield from self._self_dependencies()
        yield from (self._cycle_finding(cycle) for cycle in cycles(self._graph))
        for index, gap in self._graph.gaps.items():
            key = self._goal.actions[index].key
            for effect in gap:
                message = f"compound `{key}` promises `{effect}`, but its children never make `{effect}` true"
                fix = f"Add `{effect}` to the effects of a child of `{key}`, or remove it from the compound's."
                yield goal_finding("unreachable-goal", self._goal, key, message, fix)
        yield from self._unreachable_goals()

    def _unprovided_preconditions(self) -> Iterator[Finding]:
        for action in self._goal.actions:
            for need in dict.fromkeys(action.preconditions):
                if need not in self._graph.providers and need not in self._graph.held:
                    message = (
                        f"action `{action.key}` needs `{need}`, which no action of goal `{self._goal.name}` makes true"
                    )
                    fix = self._fix_missing(need, f"or remove it from the preconditions of `{action.key}`")
                    yield goal_finding("unprovided-precondition", self._goal, action.key, message, fix)

    def _fix_missing(self, missing: Assertion, otherwise: str) -> str:
        if elsewhere := self._providers.get(missing):
            return (
                f"Facts are per goal, and only goal `{elsewhere[0]}` provides `{missing}`: "
                f"provide it in goal `{self._goal.name}` too, or merge the two goals."
            )
        return f"{self._effects.hint(missing)}Add an action with the effect `{missing}`, {otherwise}."

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
                    yield goal_finding("self-dependency", self._goal, action.key, message, fix)

    def _cycle_finding(self, cycle: Cycle) -> Finding:
        keys = [self._goal.actions[index].key for index in cycle.actions]
        message = f"actions wait for each other: {' -> '.join([*keys, keys[0]])}"
        named = ((key, need) for key, need in zip(keys, cycle.needs, strict=True) if isinstance(need, str))
        key, need = next(named, (keys[0], None))
        fix = f"Remove one precondition on the cycle, e.g. `{need}` of `{key}`, or provide it by another action."
        if need is None:
            fix = f"Remove one `parent` on the cycle, e.g. that of `{key}`."
        return goal_finding("cycle", self._goal, keys[0], message, fix)

    def _unreachable_goals(self) -> Iterator[Finding]:
        for assertion in dict.fromkeys(self._goal.goal_state):
            if assertion in self._graph.reach.held:
                continue
            message = f"goal `{self._goal.name}` is never reached: no action makes `{assertion}` true"
            fix = self._fix_missing(assertion, "or remove it from the goal state")
            if providers := self._graph.providers_of(assertion):
                keys = quoted_list([self._goal.actions[giver].key for giver in providers])
                message = (
                    f"goal `{self._goal.name}` is never reached: `{assertion}` needs {keys}, which cannot provide it"
                )
                fix = f"Fix {keys}, or the actions they depend on."
            yield goal_finding("unreachable-goal", self._goal, None, message, fix)


_STORY_FIX = "Only its own agents change the steps of a story; add other actions beside it."


WarningCode = Literal["unused-effect", "duplicate-provider", "empty-effects"]
WeaknessCode = Literal["no-contract", "needs-planner", "shared-file"]
"""Warnings in the explanation of a plan; the plan can still run."""
Code = ErrorCode | WarningCode | WeaknessCode


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


# A run that has not started.
NO_FACTS: Mapping[str, Collection[Assertion]] = MappingProxyType({})


def lint(plan: Plan, facts: Mapping[str, Collection[Assertion]] = NO_FACTS) -> LintReport:
    """Return all errors and warnings of `plan`, given the `facts` that already hold, by goal name.

    No error means exactly that goal names and keys are unique, every goal state is reachable, every action can
    run, every effect of a compound with children is also an effect of one of them, and stories have steps alone.
    """
    graphs = [DependencyGraph(goal, facts.get(goal.name, ())) for goal in plan.goals]
    providers: dict[Assertion, list[str]] = {}
    for goal, graph in zip(plan.goals, graphs, strict=True):
        for effect in graph.providers:
            providers.setdefault(effect, []).append(goal.name)
    # Reported once for each name, not once for each further occurrence.
    findings = [*_repetitions(plan)]
    for goal, graph in zip(plan.goals, graphs, strict=True):
        findings += GoalErrorFinder(goal, graph, providers).all()
        findings += story_errors(goal)
        for action in goal.actions:
            if not action.effects:
                message = f"action `{action.key}` has no effects: nothing can wait for it, and no goal needs it"
                fix = "Name what it makes true, or remove it."
                findings.append(goal_finding("empty-effects", goal, action.key, message, fix))
        findings += (*_unused_effects(goal, graph), *_duplicate_providers(goal, graph))
    return LintReport(
        findings=tuple(findings), width=width(graphs), critical_path=critical_path(graphs), actions=len(plan.actions)
    )


def _repetitions(plan: Plan) -> Iterator[Finding]:
    names: Counter[str] = Counter()
    for goal in plan.goals:
        names[goal.name] += 1
        if names[goal.name] == 2:
            fix = "Give each goal its own name, or merge the two."
            yield goal_finding("duplicate-key", goal, None, f"more than one goal is named `{goal.name}`", fix)
    keys: Counter[ActionKey] = Counter()
    for goal in plan.goals:
        for action in goal.actions:
            keys[action.key] += 1
            if keys[action.key] == 2:
                fix = "Give each action its own key; keys are unique in the whole plan."
                message = f"more than one action has the key `{action.key}`"
                yield goal_finding("duplicate-key", goal, action.key, message, fix)


def _unused_effects(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    needed = {*goal.goal_state, *(need for action in goal.actions for need in action.preconditions)}
    for action, parent in zip(goal.actions, graph.parents, strict=True):
        # A child's effect may be there only to keep the promise of its parent.
        promised = () if parent is None else goal.actions[parent].effects
        for effect in dict.fromkeys(action.effects):
            if effect not in needed and effect not in promised:
                message = f"nothing needs the effect `{effect}` of action `{action.key}`"
                fix = "Add it to the goal state or to the preconditions of an action that should wait for it."
                yield goal_finding("unused-effect", goal, action.key, message, fix)


def _duplicate_providers(goal: GoalSpec, graph: DependencyGraph) -> Iterator[Finding]:
    for effect, provider_indexes in graph.providers.items():
        if len(provider_indexes) > 1:
            keys = [goal.actions[index].key for index in provider_indexes]
            message = f"`{effect}` is provided more than once: by {quoted_list(keys)}"
            fix = "Let only one of them provide it, unless either one is enough."
            yield goal_finding("duplicate-provider", goal, keys[1], message, fix)


def story_errors(goal: GoalSpec) -> Iterator[Finding]:
    """Yield an error for each story without a final review, and for each child of a story that is not a step of it."""
    stories = {each.key: each for each in goal.actions if each.kind == "compound" and each.method == "story"}
    reviewed = set()
    for action in goal.actions:
        story = stories.get(action.parent) if action.parent else None
        if story is None:
            continue
        if why := _why_not_a_step(action):
            message = f"action `{action.key}` is not a step of the story `{story.key}`: {why}"
            yield goal_finding("malformed-story", goal, action.key, message, _STORY_FIX)
        elif action.role == "final_review":
            reviewed.add(story.key)
    for key in stories:
        if key not in reviewed:
            message = f"the story `{key}` has no step of type `final_review`, which lands it"
            fix = "Write it with `scaffold plan --prd`, or without `method`."
            yield goal_finding("malformed-story", goal, key, message, fix)


def _why_not_a_step(action: ActionSpec) -> str:
    """Return why an action cannot be a step of its parent; empty if it can."""
    # The key and the method are how the store finds a story's steps, and the role chooses their instructions.
    own = action.key.rpartition("/")[2]
    if action.parent is None or STEP_ID.fullmatch(own) is None or action.key != step_key(action.parent, StepId(own)):
        return f"its key is not like {quoted(f'{action.parent}/step-001')}"
    if action.role not in STEP_TYPES:
        return f"its role {quoted(action.role)} is not a step type"
    if (action.kind, action.workspace, action.method) != ("primitive", "parent", "story"):
        return "it has to be a primitive with `workspace: parent` and `method: story`"
    return ""


def goal_finding(code: Code, goal: GoalSpec, action: str | None, message: str, fix: str) -> Finding:
    """Return a finding about `goal`, or about one of its actions if `action` is not None."""
    return Finding(
        code=code,
        severity="error" if code in ERROR_CODES else "warning",
        goal=goal.name,
        action=action,
        message=message,
        fix=fix,
        example=EXAMPLES[code],
    )
