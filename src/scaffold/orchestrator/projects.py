"""Projects: goals whose tasks are given as a list, each with the tasks it depends on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import Key
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.dag import Task, dag_findings, dag_goal
from scaffold.plan.draft import Change, CreateActions, CreateGoal, Draft
from scaffold.plan.form import MOST_ACTIONS
from scaffold.plan.standing import Standing
from scaffold.plan.wording import in_one

PROJECT_METHOD: Final = "dag"
LONGEST_STEM = 60
"""Characters of a project's name in the keys of its tasks."""


def project_goal(name: str, description: str, tasks: Sequence[Task]) -> GoalSpec:
    """Return the goal that is reached when all tasks are done; those without a key are `NAME-task-N`, from 1.

    Raises PlanInvalid or DraftRefused, which name the tasks that are unsound by their places, from 0.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_STEM] or "project"
    keyed = [
        task if task.key else replace(task, key=Key(f"{stem}-task-{place}")) for place, task in enumerate(tasks, 1)
    ]
    if findings := dag_findings(keyed):
        places = {task.key: place for place, task in reversed([*enumerate(keyed)])}
        raise PlanInvalid(*in_one((_placed(each, places), each.fix) for each in findings), findings)
    spec = dag_goal(name, keyed, description=description)
    draft = Draft(Plan(goals=()), Standing())
    for change in changes_of(spec):
        draft.apply(change)
    return spec


def _placed(finding: Finding, places: Mapping[Key | None, int]) -> str:
    return finding.message if finding.action is None else f"tasks[{places[Key(finding.action)]}]: {finding.message}"


def changes_of(spec: GoalSpec) -> tuple[Change, ...]:
    """Return the changes that add a project with all its tasks to a run."""
    return (CreateGoal(replace(spec, actions=())), *_actions(spec))


def _actions(spec: GoalSpec) -> Iterator[CreateActions]:
    for first in range(0, len(spec.actions), MOST_ACTIONS):
        yield CreateActions(spec.name, spec.actions[first : first + MOST_ACTIONS], PROJECT_METHOD)
