"""The open tasks of a document, as tasks of a plan."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.plan import full_text, text_fields
from scaffold.plan.source.dag import TaskSpec
from scaffold.plan.source.json_tasks import paragraphs
from scaffold.plan.source.task import SourceTask, TaskDocument, TaskTree


class PlannedTasks(Struct, frozen=True, kw_only=True):
    """The tasks of a document with work of their own: each is planned, done, or left out for a reason."""

    planned: tuple[TaskSpec, ...]
    """By priority, then in the order they were written."""
    done: tuple[ActionKey, ...]
    left_out: Mapping[ActionKey, str]
    """Why each of these is not planned, as the end of a sentence that starts with it."""


def planned_tasks(document: TaskDocument, *, references: Sequence[str] = ()) -> PlannedTasks:
    """Return the open tasks; the document's dependencies must be `checked`. `references` are files to read with it.

    Tasks that are done are not done again. Left out are optional tasks, those that are held, and what waits for these.
    """
    tree = TaskTree(document.tasks)
    work = [task for task in tree.by_id.values() if not tree.required_parts(task)]
    done = tuple(task.id for task in work if tree.done(task))
    # Done tasks stay done, optional or not.
    optional = {task.id for task in work if tree.optional(task)}.difference(done)
    open_tasks = {task.id: task for task in work if task.id not in optional and not tree.done(task)}
    waits: dict[ActionKey, tuple[ActionKey, ...]] = {}
    for task in open_tasks.values():
        # A task with parts is not planned itself: its open parts are waited for.
        needed = (group for key in tree.dependencies(task) if not tree.done(group := tree.by_id[key]))
        parts = (each.id for group in needed for each in tree.work(group) if each.id in open_tasks)
        waits[task.id] = tuple(dict.fromkeys(parts))
    held = _held_tasks(tree, open_tasks, waits)
    ordered = sorted(
        (task for task in open_tasks.values() if task.id not in held),
        key=lambda task: (task.priority is None, task.priority or 0.0),
    )
    # Its author may have left something to do that no part says.
    unmarked = {
        task.id: "is not marked as done, although all its parts are"
        for task in tree.by_id.values()
        if (own := tree.required_parts(task)) and not tree.done(task) and all(map(tree.done, own))
    }
    return PlannedTasks(
        planned=tuple(_task_spec(task, tree, waits[task.id], references) for task in ordered),
        done=done,
        left_out={key: "is optional" for key in tree.by_id if key in optional} | held | unmarked,
    )


def _held_tasks(
    tree: TaskTree, open_tasks: Mapping[ActionKey, SourceTask], waits: Mapping[ActionKey, Sequence[ActionKey]]
) -> dict[ActionKey, str]:
    held: dict[ActionKey, str] = {}
    # In this order, so that what waits for a held task is found held in turn.
    for key in TopologicalSorter(waits).static_order():
        task = open_tasks[key]
        own = next((each.held for each in (task, *tree.ancestors(task)) if each.held), "")
        blocker = next((each for each in waits[key] if each in held), None)
        if own or blocker is not None:
            held[key] = own or f"waits for `{blocker}`, which is left out"
    return held


def _task_spec(task: SourceTask, tree: TaskTree, waits: Sequence[ActionKey], references: Sequence[str]) -> TaskSpec:
    # Who does a part has to know what the whole is for.
    notes = paragraphs(
        task.notes,
        *(f"This is a part of {each.id}: {full_text(each)}" for each in tree.ancestors(task)),
        f"Read first: {', '.join(references)}" if references else "",
    )
    return TaskSpec(**text_fields(task) | {"notes": notes}, key=task.id, depends_on=tuple(waits))
