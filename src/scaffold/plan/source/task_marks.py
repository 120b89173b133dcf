"""The marks of tasks in several versions of one list: which differ, and what else does."""

from collections import Counter
from collections.abc import Iterable

from scaffold.core.ids import ActionKey
from scaffold.core.run_settings import TaskFormat
from scaffold.plan.source.formats import marked_tasks, with_done
from scaffold.plan.source.task import SourceTask, TaskTree, TextEdit, edited


def done_ids(task_format: TaskFormat, text: str, *, name: str) -> frozenset[ActionKey]:
    """Return the tasks that are marked as done, without those that are written more than once.

    Raises PlanInvalid if the text cannot be read.
    """
    return frozenset(key for key, task in _once(task_format, text, name).items() if task.done)


def with_open(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, like: str, name: str) -> str:
    """Return the text with the tasks `ids` marked as open, and with them what they are a part of.

    Each gets the mark that it has in `like`, another version of the list, if it is open there. Nothing else changes.
    Raises PlanInvalid if one of the texts cannot be read.
    """
    tasks = _once(task_format, text, name)
    tree = TaskTree(tasks.values())
    named = [tasks[key] for key in ids if key in tasks]
    wanted = {each.id for task in named for each in (task, *tree.ancestors(task))}
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


def same_but_for_marks(task_format: TaskFormat, one: str, other: str, *, name: str) -> bool:
    """Return whether two versions of a list differ in nothing but which tasks are marked as done.

    Raises PlanInvalid if one of them cannot be read.
    """
    done = done_ids(task_format, one, name=name) | done_ids(task_format, other, name=name)
    first, second = (with_done(task_format, each, done, name=name).text for each in (one, other))
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
