"""Task lists as plans: each task becomes an action with the effect `done:<key>`, which its dependents need."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import DEFAULT_ROLE, ActionSpec, Finding, GoalSpec, TaskText, text_fields
from scaffold.core.printable_text import count_of
from scaffold.core.proof.contract import Contract
from scaffold.plan.graph.cycles import cycles
from scaffold.plan.graph.dependency_graph import DependencyGraph
from scaffold.plan.message_text import quoted
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.text.file_format import bad_key

EMPTY_LIST = "the list of tasks is empty"
Code = Literal["bad-value", "duplicate-key", "unknown-dependency", "self-dependency", "cycle"]


class TaskSpec(TaskText, frozen=True, kw_only=True):
    """One task of a list from a model or a file."""

    key: ActionKey | None = None
    """None means `task-N`, where N is the task's position in the list, from 1."""
    depends_on: tuple[int | str, ...] = ()
    """The tasks to complete first: indexes from 0, or keys; duplicates count once."""
    role: str = DEFAULT_ROLE
    files: tuple[str, ...] = ()
    contract: Contract | None = None


def done_assertion(key: str) -> Assertion:
    """Return the assertion that holds once the task with this key is done."""
    return Assertion(f"done:{key}")


def dag_goal(name: str, tasks: Sequence[TaskSpec], *, description: str = "") -> GoalSpec:
    """Return a goal reached when all `tasks` are done; raise PlanInvalid with all findings if the list is invalid."""
    if findings := dag_findings(tasks):
        others = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PlanInvalid(f"{findings[0].message}{others}", findings[0].fix, findings)
    actions = _task_actions(tasks)
    goal_state = tuple(done_assertion(action.key) for action in actions)
    return GoalSpec(name=name, description=description, goal_state=goal_state, actions=actions)


def dag_findings(tasks: Sequence[TaskSpec]) -> tuple[Finding, ...]:
    """Return all errors of the list: keys first, then dependencies, then cycles; empty if it is valid."""
    if not tasks:
        return (_error_finding("bad-value", None, EMPTY_LIST, "Name at least one task."),)
    keys = _all_keys(tasks)
    # Dependencies on unknown tasks are left out of the graph; `_check_dependencies` reports them.
    found = cycles(DependencyGraph(GoalSpec(name="tasks", actions=_task_actions(tasks))))
    findings: list[Finding] = []
    seen: Counter[ActionKey] = Counter()
    for key in keys:
        seen[key] += 1
        if wrong := bad_key(key):
            message = f"the task's key {quoted(key)} {wrong}"
            findings.append(_error_finding("bad-value", key, message, "Give the task another key."))
        elif seen[key] == 2:
            message = f"more than one task has the key `{key}`"
            findings.append(_error_finding("duplicate-key", key, message, "Give each task its own key."))
    findings += _check_dependencies(tasks, keys)
    for cycle in found:
        on_cycle = [keys[index] for index in (*cycle.actions, cycle.actions[0])]
        message = f"tasks wait for each other: {' -> '.join(on_cycle)}"
        fix = f"Remove one dependency, e.g. `{on_cycle[1]}` of `{on_cycle[0]}`."
        findings.append(_error_finding("cycle", on_cycle[0], message, fix))
    return tuple(findings)


def _task_actions(tasks: Sequence[TaskSpec]) -> tuple[ActionSpec, ...]:
    """Return the tasks as actions; dependencies on unknown tasks are dropped."""
    keys = _all_keys(tasks)
    known = frozenset(keys)
    return tuple(
        ActionSpec(
            key=key,
            **text_fields(task),
            role=task.role,
            preconditions=tuple(
                dict.fromkeys(
                    # Unknown ones are left out here; they are reported by their own check.
                    done_assertion(other)
                    for dependency in task.depends_on
                    if (other := _dependency_key(dependency, keys)) in known
                )
            ),
            effects=(done_assertion(key),),
            files=task.files,
            contract=task.contract,
        )
        for key, task in zip(keys, tasks, strict=True)
    )


def _all_keys(tasks: Sequence[TaskSpec]) -> tuple[ActionKey, ...]:
    return tuple(ActionKey(f"task-{index}") if task.key is None else task.key for index, task in enumerate(tasks, 1))


def _dependency_key(dependency: int | str, keys: Sequence[ActionKey]) -> ActionKey | None:
    """Return the key of the task a dependency refers to; None for an index outside the list."""
    if isinstance(dependency, str):
        return ActionKey(dependency)
    # A model may count from 1, or count wrong.
    return keys[dependency] if 0 <= dependency < len(keys) else None


def _check_dependencies(tasks: Sequence[TaskSpec], keys: Sequence[ActionKey]) -> Iterator[Finding]:
    known = frozenset(keys)
    hints = SpellingHints(keys)
    for key, task in zip(keys, tasks, strict=True):
        for dependency in dict.fromkeys(task.depends_on):
            target = _dependency_key(dependency, keys)
            if target == key:
                fix = f"Remove `{key}` from its own dependencies."
                yield _error_finding("self-dependency", key, f"task `{key}` depends on itself", fix)
            elif target is None:
                message = f"task `{key}` depends on task {dependency}, but the list has {count_of(len(keys), 'task')}"
                fix = f"Name a task from 0 to {len(keys) - 1}, or its key."
                yield _error_finding("unknown-dependency", key, message, fix)
            elif target not in known:
                message = f"task `{key}` depends on {quoted(target)}, which is not a task of the list"
                fix = f"{hints.hint(target)}Name a task of the list, or remove the dependency."
                yield _error_finding("unknown-dependency", key, message, fix)


def _error_finding(code: Code, key: ActionKey | None, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="error", action=key, message=message, fix=fix)
