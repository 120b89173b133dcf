"""The differences between two plans, and between their shapes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.analysis.lint import LintReport, lint

Name = TypeVar("Name", bound=str)
Named = TypeVar("Named", GoalSpec, ActionSpec)


class ChangedItem(Struct, frozen=True):
    """A goal or an action in both plans, with the fields that differ."""

    name: str
    fields: tuple[str, ...]
    """In the order of the plan file format. `goal`: the action moved to another goal. `order`: its actions' order."""


class PlanShape(Struct, frozen=True, kw_only=True):
    """The shape of a plan, as reported by `lint`."""

    valid: bool
    actions: int
    width: int
    critical_path: tuple[ActionKey, ...]


class PlanDiff(Struct, frozen=True, kw_only=True):
    """The changes from one plan to another: removed items in the first plan's order, others in the second's."""

    goals_added: tuple[str, ...]
    goals_removed: tuple[str, ...]
    goals_changed: tuple[ChangedItem, ...]
    goals_reordered: bool
    actions_added: tuple[ActionKey, ...]
    actions_removed: tuple[ActionKey, ...]
    actions_changed: tuple[ChangedItem, ...]
    before: PlanShape
    after: PlanShape
    findings_new: tuple[Finding, ...]
    findings_gone: tuple[Finding, ...]

    @property
    def none(self) -> bool:
        """True if both plans have the same content."""
        goals = self.goals_added or self.goals_removed or self.goals_changed or self.goals_reordered
        return not (goals or self.actions_added or self.actions_removed or self.actions_changed)


def diff_plans(before: Plan, after: Plan) -> PlanDiff:
    """Return the changes from `before` to `after`; goals are matched by name, actions by key."""
    old_report, new_report = lint(before), lint(after)
    goals, new_goals = ({goal.name: goal for goal in plan.goals} for plan in (before, after))
    old_actions, new_actions = (
        {action.key: (goal, action) for goal in plan.goals for action in goal.actions} for plan in (before, after)
    )
    return PlanDiff(
        goals_added=_names_without(new_goals, goals),
        goals_removed=_names_without(goals, new_goals),
        goals_changed=_changed_items(
            (name, _changed_goal_fields(goals[name], goal)) for name, goal in new_goals.items() if name in goals
        ),
        goals_reordered=_is_reordered(tuple(goals), tuple(new_goals)),
        actions_added=_names_without(new_actions, old_actions),
        actions_removed=_names_without(old_actions, new_actions),
        actions_changed=_changed_items(_compare_actions(old_actions, new_actions)),
        before=_plan_shape(old_report),
        after=_plan_shape(new_report),
        findings_new=tuple(finding for finding in new_report.findings if finding not in old_report.findings),
        findings_gone=tuple(finding for finding in old_report.findings if finding not in new_report.findings),
    )


def _names_without(items: Iterable[Name], others: Mapping[Name, object]) -> tuple[Name, ...]:
    return tuple(each for each in items if each not in others)


def _changed_items(compared: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[ChangedItem, ...]:
    return tuple(ChangedItem(name, fields) for name, fields in compared if fields)


def _changed_goal_fields(before: GoalSpec, after: GoalSpec) -> tuple[str, ...]:
    # The actions themselves are compared by key, so that moving one is not a change of all of them.
    order = _is_reordered([action.key for action in before.actions], [action.key for action in after.actions])
    fields = _different_fields(before, after, apart_from={"actions"})
    return (*fields, "order") if order else fields


def _compare_actions(
    before: Mapping[ActionKey, tuple[GoalSpec, ActionSpec]], after: Mapping[ActionKey, tuple[GoalSpec, ActionSpec]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key, (goal, action) in after.items():
        if key in before:
            fields = _different_fields(before[key][1], action)
            yield key, ("goal", *fields) if before[key][0].name != goal.name else fields


def _different_fields(
    before: Named, after: Named, apart_from: frozenset[str] | set[str] = frozenset()
) -> tuple[str, ...]:
    return tuple(
        name
        for name in before.__struct_fields__
        if name not in apart_from and getattr(before, name) != getattr(after, name)
    )


def _is_reordered(before: Sequence[str], after: Sequence[str]) -> bool:
    # Added and removed items do not count: they have their own fields.
    both = set(before) & set(after)
    return [each for each in before if each in both] != [each for each in after if each in both]


def _plan_shape(report: LintReport) -> PlanShape:
    return PlanShape(valid=report.valid, actions=report.actions, width=report.width, critical_path=report.critical_path)
