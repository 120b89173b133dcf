"""What sets two plans apart, and what that does to their shape."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from scaffold.core.ids import Key
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.lint import LintReport, lint

Name = TypeVar("Name", bound=str)
Named = TypeVar("Named", GoalSpec, ActionSpec)


class Change(Struct, frozen=True):
    """A goal or an action that both plans have, and which of its fields differ."""

    name: str
    fields: tuple[str, ...]
    """In the order of the plan file's reference; `goal` is where an action belongs, `order` that of the actions."""


class Shape(Struct, frozen=True, kw_only=True):
    """What `lint` says of the shape of a plan."""

    valid: bool
    actions: int
    width: int
    critical_path: tuple[Key, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """From one plan to another; removed things are in the order of the first plan, all others in that of the second."""

    goals_added: tuple[str, ...]
    goals_removed: tuple[str, ...]
    goals_changed: tuple[Change, ...]
    goals_reordered: bool
    actions_added: tuple[Key, ...]
    actions_removed: tuple[Key, ...]
    actions_changed: tuple[Change, ...]
    before: Shape
    after: Shape
    findings_new: tuple[Finding, ...]
    findings_gone: tuple[Finding, ...]

    @property
    def none(self) -> bool:
        """Whether both plans say the same."""
        goals = self.goals_added or self.goals_removed or self.goals_changed or self.goals_reordered
        return not (goals or self.actions_added or self.actions_removed or self.actions_changed)


def difference(before: Plan, after: Plan) -> Difference:
    """Return what sets `after` apart from `before`; names of goals and keys of actions tell what is the same thing."""
    linted, relinted = lint(before), lint(after)
    goals, new_goals = ({goal.name: goal for goal in plan.goals} for plan in (before, after))
    places, new_places = (
        {action.key: (goal, action) for goal in plan.goals for action in goal.actions} for plan in (before, after)
    )
    return Difference(
        goals_added=_without(new_goals, goals),
        goals_removed=_without(goals, new_goals),
        goals_changed=_changes((name, _goal(goals[name], goal)) for name, goal in new_goals.items() if name in goals),
        goals_reordered=_reordered(tuple(goals), tuple(new_goals)),
        actions_added=_without(new_places, places),
        actions_removed=_without(places, new_places),
        actions_changed=_changes(
            (key, _action(places[key], placed)) for key, placed in new_places.items() if key in places
        ),
        before=_shape(linted),
        after=_shape(relinted),
        findings_new=tuple(finding for finding in relinted.findings if finding not in linted.findings),
        findings_gone=tuple(finding for finding in linted.findings if finding not in relinted.findings),
    )


def _without(these: Iterable[Name], those: Mapping[Name, object]) -> tuple[Name, ...]:
    return tuple(each for each in these if each not in those)


def _changes(compared: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Change, ...]:
    return tuple(Change(name, fields) for name, fields in compared if fields)


def _goal(before: GoalSpec, after: GoalSpec) -> tuple[str, ...]:
    order = _reordered([action.key for action in before.actions], [action.key for action in after.actions])
    fields = _fields(before, after, apart_from={"actions"})
    return (*fields, "order") if order else fields


def _action(before: tuple[GoalSpec, ActionSpec], after: tuple[GoalSpec, ActionSpec]) -> tuple[str, ...]:
    fields = _fields(before[1], after[1])
    return ("goal", *fields) if before[0].name != after[0].name else fields


def _fields(before: Named, after: Named, apart_from: frozenset[str] | set[str] = frozenset()) -> tuple[str, ...]:
    return tuple(
        name
        for name in before.__struct_fields__
        if name not in apart_from and getattr(before, name) != getattr(after, name)
    )


def _reordered(before: Sequence[str], after: Sequence[str]) -> bool:
    """Tell whether what is in both is in another order."""
    both = set(before) & set(after)
    return [each for each in before if each in both] != [each for each in after if each in both]


def _shape(report: LintReport) -> Shape:
    return Shape(valid=report.valid, actions=report.actions, width=report.width, critical_path=report.critical_path)
