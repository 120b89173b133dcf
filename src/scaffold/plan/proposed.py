"""Actions and tasks as a model names them in a call: JSON, read as strictly as a plan file and in the same words."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from scaffold.core.contract import Contract
from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import Key
from scaffold.core.plan import ActionSpec, Finding
from scaffold.plan.dag import Task
from scaffold.plan.fields import Fields, Notes, any_text
from scaffold.plan.located import Listing, Scalar, located
from scaffold.plan.planfile import action_of
from scaffold.plan.wording import in_one

KNOWN = (
    "key",
    "description",
    "kind",
    "role",
    "preconditions",
    "effects",
    "files",
    "acceptance",
    "verification_intent",
    "contract",
)
REQUIRED = ("key", "description", "effects")
TASK = ("key", "description", "depends_on", "role", "files", "acceptance", "verification_intent", "contract")

Read = TypeVar("Read")


def read_proposed(actions: Any, *, parent: Key | None) -> tuple[ActionSpec, ...]:
    """Return the actions of a call, all below `parent`; what is to be accepted and verified becomes part of them.

    Raises PlanInvalid, which names everything that is wrong with any of them, keys that nobody knows included.
    """
    specs = _read("actions", actions, lambda fields: _enriched(fields, action_of(fields, KNOWN, required=REQUIRED)))
    return tuple(replace(spec, parent=parent) for spec in specs)


def read_tasks(tasks: Any) -> tuple[Task, ...]:
    """Return the tasks of a call; PlanInvalid as for actions. Whether they can be done is for `dag_goal` to say."""
    return _read("tasks", tasks, _task)


def _read(name: str, given: Any, read: Callable[[Fields], Read]) -> tuple[Read, ...]:
    try:
        nodes = located(given)
    except RecursionError as error:
        raise PlanInvalid(f"`{name}` is nested too deeply", f"Write a flat list of {name}.") from error
    if not isinstance(nodes, Listing):
        raise PlanInvalid(f"`{name}` is no list", "Write a list of objects.")
    found: list[Finding] = []
    each = tuple(read(Fields(Notes(found), node, f"{name}[{index}]")) for index, node in enumerate(nodes.items))
    if found:
        raise PlanInvalid(*in_one((finding.message, finding.fix) for finding in found), tuple(found))
    return each


def _task(fields: Fields) -> Task:
    spec = _enriched(fields, action_of(fields, TASK, required=("description",)))
    return Task(
        description=spec.description,
        key=spec.key or None,
        depends_on=tuple(_dependencies(fields)),
        role=spec.role,
        files=spec.files,
        contract=spec.contract,
    )


def _dependencies(fields: Fields) -> Iterator[int | str]:
    for place, item in enumerate(fields.items("depends_on")):
        if isinstance(item, Scalar) and item.kind in {"number", "text"} and isinstance(item.value, int | str):
            yield item.value
        else:
            message = f"depends_on[{place}] is neither a place in the list nor a key"
            fields.complain("depends_on", message, "Name tasks by their places, from 0, or by their keys.")


def _enriched(fields: Fields, spec: ActionSpec) -> ActionSpec:
    """Return an action with what is to be accepted and verified in its words, or in those of its contract."""
    intent = fields.text("verification_intent", complaint=any_text)
    if spec.contract is not None:
        spec = replace(spec, contract=_meant(spec.contract, intent))
        intent = ""
    return replace(spec, description="\n\n".join(_description(spec, _acceptance(fields), intent)))


def _acceptance(fields: Fields) -> tuple[str, ...]:
    """Return the criteria; a single text stands for a list of one."""
    if fields.lists("acceptance"):
        return fields.texts("acceptance", any_text)
    criterion = fields.text("acceptance", complaint=any_text)
    return (criterion,) if criterion else ()


def _meant(contract: Contract, intent: str) -> Contract:
    return replace(contract, intent="\n".join(filter(None, dict.fromkeys((contract.intent, intent)))))


def _description(spec: ActionSpec, acceptance: tuple[str, ...], intent: str) -> Iterator[str]:
    yield spec.description
    if acceptance:
        yield "\n".join(["Accepted when:", *(f"- {criterion}" for criterion in acceptance)])
    if intent:
        yield f"To be verified: {intent}"
