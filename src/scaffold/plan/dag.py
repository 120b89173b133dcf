"""Task lists as plans: tasks that depend on each other become actions that need each other's `done:` assertions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.contract import Contract
from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import DEFAULT_ROLE, ActionSpec, Finding, GoalSpec
from scaffold.plan.cycles import Cycle, cycles
from scaffold.plan.planfile import bad_key
from scaffold.plan.wiring import Wiring
from scaffold.plan.wording import Spelling, shown

Code = Literal["bad-value", "duplicate-key", "unknown-dependency", "self-dependency", "cycle"]


class Task(Struct, frozen=True, kw_only=True):
    """One task of a list, as a model or a file names it."""

    description: str
    key: Key | None = None
    """None for `task-N`, N being the task's place in the list, from 1."""
    depends_on: tuple[int | str, ...] = ()
    """Tasks that must be done before: places in the list, from 0, or keys; repeated ones count once."""
    role: str = DEFAULT_ROLE
    files: tuple[str, ...] = ()
    contract: Contract | None = None


def done(key: str) -> Assertion:
    """Return what holds once the task of that key is done."""
    return Assertion(f"done:{key}")


def dag_goal(name: str, tasks: Sequence[Task], *, description: str = "") -> GoalSpec:
    """Return a goal that is reached when all `tasks` are done; PlanInvalid with all findings if they are unsound."""
    if findings := dag_findings(tasks):
        others = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PlanInvalid(f"{findings[0].message}{others}", findings[0].fix, findings)
    actions = _actions(tasks)
    wanted = tuple(done(action.key) for action in actions)
    return GoalSpec(name=name, description=description, goal_state=wanted, actions=actions)


def dag_findings(tasks: Sequence[Task]) -> tuple[Finding, ...]:
    """Return all errors of the list, by task: keys, then dependencies, then cycles; none means it can be done."""
    if not tasks:
        return (_error("bad-value", None, "there is no task in the list", "Name at least one task."),)
    keys = _all_keys(tasks)
    rings = cycles(Wiring(GoalSpec(name="tasks", actions=_actions(tasks))))
    return (*_keys(keys), *_dependencies(tasks, keys), *(_cycle(ring, keys) for ring in rings))


def _actions(tasks: Sequence[Task]) -> tuple[ActionSpec, ...]:
    """Return the tasks as actions, without dependencies on what is no task of the list."""
    keys = _all_keys(tasks)
    known = frozenset(keys)
    return tuple(
        ActionSpec(
            key=key,
            description=task.description,
            role=task.role,
            preconditions=tuple(
                dict.fromkeys(
                    done(other) for dependency in task.depends_on if (other := _meant(dependency, keys)) in known
                )
            ),
            effects=(done(key),),
            files=task.files,
            contract=task.contract,
        )
        for key, task in zip(keys, tasks, strict=True)
    )


def _all_keys(tasks: Sequence[Task]) -> tuple[Key, ...]:
    return tuple(Key(f"task-{place}") if task.key is None else task.key for place, task in enumerate(tasks, 1))


def _meant(dependency: int | str, keys: Sequence[Key]) -> Key | None:
    """Return the key that is meant; None for a place outside the list."""
    if isinstance(dependency, str):
        return Key(dependency)
    return keys[dependency] if 0 <= dependency < len(keys) else None


def _keys(keys: Sequence[Key]) -> Iterator[Finding]:
    seen: Counter[Key] = Counter()
    for key in keys:
        seen[key] += 1
        if wrong := bad_key(key):
            yield _error("bad-value", key, f"the task's key {shown(key)} {wrong}", "Give the task another key.")
        elif seen[key] == 2:
            fix = "Give each task a key of its own."
            yield _error("duplicate-key", key, f"more than one task has the key `{key}`", fix)


def _dependencies(tasks: Sequence[Task], keys: Sequence[Key]) -> Iterator[Finding]:
    known = frozenset(keys)
    spelling = Spelling(keys)
    for key, task in zip(keys, tasks, strict=True):
        for dependency in dict.fromkeys(task.depends_on):
            meant = _meant(dependency, keys)
            if meant == key:
                fix = f"Take `{key}` out of its own dependencies."
                yield _error("self-dependency", key, f"task `{key}` depends on itself", fix)
            elif meant is None:
                message = f"task `{key}` depends on task {dependency}, but the list has {len(keys)} tasks"
                fix = f"Name a task from 0 to {len(keys) - 1}, or its key."
                yield _error("unknown-dependency", key, message, fix)
            elif meant not in known:
                message = f"task `{key}` depends on {shown(meant)}, which is no task of the list"
                fix = f"{spelling.hint(meant)}Name a task of the list, or take the dependency out."
                yield _error("unknown-dependency", key, message, fix)


def _cycle(cycle: Cycle, keys: Sequence[Key]) -> Finding:
    ring = [keys[index] for index in (*cycle.actions, cycle.actions[0])]
    message = f"tasks wait for each other: {' -> '.join(ring)}"
    return _error("cycle", ring[0], message, f"Take one dependency out, e.g. `{ring[1]}` of `{ring[0]}`.")


def _error(code: Code, key: Key | None, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="error", action=key, message=message, fix=fix)
