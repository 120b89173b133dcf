"""Actions and tasks that a model passes to a tool: JSON, read as strictly as a plan file, with the same messages."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec, Finding, text_fields
from scaffold.plan.message_text import summarize_problems
from scaffold.plan.source.dag import TaskSpec
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import TEXT_KEYS, parse_action
from scaffold.plan.text.parse_tree import ListNode, ScalarNode, node_from_value

ACTION_KEYS = ("key", *TEXT_KEYS, "kind", "role", "preconditions", "effects", "files", "contract")
REQUIRED_ACTION_KEYS = ("key", "description", "effects")
TASK_KEYS = ("key", *TEXT_KEYS, "depends_on", "role", "files", "contract")
Read = TypeVar("Read")


def read_proposed_actions(actions: Any, *, parent: ActionKey | None) -> tuple[ActionSpec, ...]:
    """Return the actions of a tool call, all with `parent`.

    Raises PlanInvalid with every problem found, unknown keys included.
    """
    specs = _read_list(
        "actions", actions, lambda fields: parse_action(fields, ACTION_KEYS, required=REQUIRED_ACTION_KEYS)
    )
    return tuple(replace(spec, parent=parent) for spec in specs)


def read_tasks(tasks: Any) -> tuple[TaskSpec, ...]:
    """Return the tasks of a tool call; raise PlanInvalid as for actions. Dependencies are checked by `dag_goal`."""
    return _read_list("tasks", tasks, _read_task)


def _read_list(name: str, given: Any, read: Callable[[FieldReader], Read]) -> tuple[Read, ...]:
    try:
        nodes = node_from_value(given)
    # Arguments of a tool call are as deep as the model writes them.
    except RecursionError as error:
        raise PlanInvalid(f"`{name}` is nested too deeply", f"Write a flat list of {name}.") from error
    if not isinstance(nodes, ListNode):
        raise PlanInvalid(f"`{name}` is not a list", "Write a list of objects.")
    found: list[Finding] = []
    each = tuple(
        read(FieldReader(FindingCollector(found), node, f"{name}[{index}]")) for index, node in enumerate(nodes.items)
    )
    # All problems together: the agent corrects its call once.
    if found:
        raise PlanInvalid(*summarize_problems((finding.message, finding.fix) for finding in found), tuple(found))
    return each


def _read_task(fields: FieldReader) -> TaskSpec:
    spec = parse_action(fields, TASK_KEYS, required=("description",))
    depends_on: list[int | str] = []
    for index, item in enumerate(fields.items("depends_on")):
        if isinstance(item, ScalarNode) and item.kind in {"number", "text"} and isinstance(item.value, int | str):
            depends_on.append(item.value)
        else:
            message = f"depends_on[{index}] is neither an index in the list nor a key"
            fields.complain("depends_on", message, "Name tasks by their index, from 0, or by their keys.")
    return TaskSpec(
        **text_fields(spec),
        key=spec.key or None,
        depends_on=tuple(depends_on),
        role=spec.role,
        files=spec.files,
        contract=spec.contract,
    )
