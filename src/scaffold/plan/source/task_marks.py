"""The marks of tasks in several versions of one list: which differ, and what else does."""

from collections import Counter
from collections.abc import Iterable

from scaffold.core.ids import ActionKey
from scaffold.core.run_settings import TaskFormat
from scaffold.plan.source.formats import marked_tasks
from scaffold.plan.source.task import SourceTask, TaskTree, TextEdit, edited


def done_ids(task_format: TaskFormat, text: str, *, name: str) -> frozenset[ActionKey]:
    """Return the tasks that are marked as done, without those that are written more than once.

    Raises PlanInvalid if the text cannot be read.
    """
    return frozenset(key for key, task in _once(task_format, text, name).items() if task.done)


def with_marked(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, name: str) -> str:
    """Return the text with the tasks `ids` marked as done, and no others, whatever follows from that.

    Raises PlanInvalid if it cannot be read.
    """
    tasks, wanted = _once(task_format, text, name), frozenset(ids)
    return edited(text, [edit for task in tasks.values() if task.id in wanted for edit in task.done_edits])


def with_open(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, like: str, name: str) -> str:
    """Return the text with the tasks `ids` marked as open, and no others, whatever they are a part of.

    Each gets the mark that it has in `like`, another version of the list, if it is open there. Nothing else changes.
    Raises PlanInvalid if one of the texts cannot be read.
    """
    tasks, wanted = _once(task_format, text, name), frozenset(ids)
    marks = _open_marks(task_format, like, name)
    return edited(
        text,
        [
            TextEdit(edit.start, edit.end, marks.get(task.id, edit.text))
            for task in tasks.values()
            if task.id in wanted
            for edit in task.open_edits
        ],
    )


def containing(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, name: str) -> frozenset[ActionKey]:
    """Return what the tasks `ids` are a part of. Raises PlanInvalid if the text cannot be read."""
    tasks = _once(task_format, text, name)
    tree = TaskTree(tasks.values())
    return frozenset(each.id for key in ids if key in tasks for each in tree.ancestors(tasks[key]))


def same_but_for_marks(task_format: TaskFormat, one: str, other: str, *, name: str) -> bool:
    """Return whether two versions of a list differ in nothing but which tasks are marked as done.

    Raises PlanInvalid if one of them cannot be read.
    """
    done = done_ids(task_format, one, name=name) | done_ids(task_format, other, name=name)
    first, second = (with_marked(task_format, each, done, name=name) for each in (one, other))
    return first == second


def _open_marks(task_format: TaskFormat, text: str, name: str) -> dict[ActionKey, str]:
    """Return how each task is marked that is open; without those that have no mark at all."""
    body = text.removeprefix("\ufeff")
    return {
        key: body[edit.start : edit.end]
        for key, task in _once(task_format, text, name).items()
        for edit in task.done_edits
        if edit.start < edit.end
    }


def _once(task_format: TaskFormat, text: str, name: str) -> dict[ActionKey, SourceTask]:
    tasks = marked_tasks(task_format, text, name=name)
    count = Counter(task.id for task in tasks)
    return {task.id: task for task in tasks if count[task.id] == 1}
