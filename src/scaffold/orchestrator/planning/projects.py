"""Projects: goals given as a list of tasks with dependencies."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.edit.draft import CreateActions, CreateGoal, DraftChange, PlanDraft
from scaffold.plan.edit.proposal_limits import MAX_ACTIONS
from scaffold.plan.message_text import summarize_problems
from scaffold.plan.progress import PlanProgress
from scaffold.plan.source.dag import TaskSpec, dag_findings, dag_goal

PROJECT_METHOD: Final = "dag"
MAX_STEM_CHARS = 60
"""Limit for the project's name in the keys of its tasks."""


def project_goal(name: str, description: str, tasks: Sequence[TaskSpec]) -> GoalSpec:
    """Return the goal that is reached when all tasks are done; a task without a key gets `NAME-task-N`, from 1.

    Raises PlanInvalid or ChangeRejected, which name invalid tasks by their index, from 0.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_STEM_CHARS] or "project"
    keyed = [
        task if task.key else replace(task, key=ActionKey(f"{stem}-task-{index}"))
        for index, task in enumerate(tasks, 1)
    ]
    if findings := dag_findings(keyed):
        # Reversed, so that a duplicate key names its first task.
        indexes = {task.key: index for index, task in reversed([*enumerate(keyed)])}
        raise PlanInvalid(
            *summarize_problems((_message_with_index(each, indexes), each.fix) for each in findings), findings
        )
    spec = dag_goal(name, keyed, description=description)
    # A trial on an empty plan checks the limits of proposals, so that errors come before a run is opened.
    draft = PlanDraft(Plan(goals=()), PlanProgress())
    for change in project_changes(spec):
        draft.apply(change)
    return spec


def task_list_plan(name: str, file: str, tasks: Sequence[TaskSpec]) -> Plan:
    """Return the plan with one goal, reached when all tasks of a user's file are done; raises as `project_goal`."""
    goal = project_goal(name, f"All tasks of {file} are done.", tasks)
    return Plan(goals=(replace(goal, actions=tuple(replace(each, method=PROJECT_METHOD) for each in goal.actions)),))


def _message_with_index(finding: Finding, indexes: Mapping[ActionKey | None, int]) -> str:
    return (
        finding.message if finding.action is None else f"tasks[{indexes[ActionKey(finding.action)]}]: {finding.message}"
    )


def project_changes(spec: GoalSpec) -> tuple[DraftChange, ...]:
    """Return the changes that add a project with all its tasks to a run."""
    # One change creates at most MAX_ACTIONS.
    starts = range(0, len(spec.actions), MAX_ACTIONS)
    parts = (CreateActions(spec.name, spec.actions[at : at + MAX_ACTIONS], PROJECT_METHOD) for at in starts)
    return (CreateGoal(replace(spec, actions=())), *parts)
