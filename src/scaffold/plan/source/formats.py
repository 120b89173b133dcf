"""Which format a specification has, and the readers and writers of all task formats."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import assert_never

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.core.run_settings import TaskFormat
from scaffold.plan.source.beads import is_issue, read_beads
from scaffold.plan.source.dag import EMPTY_LIST
from scaffold.plan.source.kiro import is_kiro, numbered_tasks, read_kiro
from scaffold.plan.source.prd import read_prd, story_list_key
from scaffold.plan.source.spec_kit import is_spec_kit, read_spec_kit
from scaffold.plan.source.task import (
    MarkedText,
    SourceTask,
    TaskDocument,
    TaskTree,
    TextEdit,
    checked,
    edited,
    mark_done,
)
from scaffold.plan.source.task_master import LIST_KEY, read_task_master, tags
from scaffold.plan.text.parse_tree import (
    START,
    ListNode,
    MappingNode,
    PositionedNode,
    ScalarNode,
    child_value,
    invalid_plan,
    parse_json,
    parse_json_lines,
)

ISSUE_KEYS = frozenset({"id", "title", "issue_type"})
"""Keys that every issue of beads has; no other format's entries have all of them."""
TASK_KEYS = frozenset({"id", "title"})


def detect_format(text: str, *, name: str) -> TaskFormat | None:
    """Return the format of a text by its structure; None if it has none or could have several.

    Raises PlanInvalid with the position if the name ends in `.json` or `.jsonl` and the text is invalid or `[]`.
    """
    if name.endswith(".jsonl"):
        # An empty file ending in `.jsonl` can only be one format.
        lines = parse_json_lines(text, name=name)
        return "beads" if lines == ListNode(START, ()) else _format_of_lines(lines)
    if name.endswith(".json"):
        root = parse_json(text, name=name)
        if isinstance(root, ListNode) and not root.items:
            fix = "Name at least one task."
            empty = Finding(code="bad-value", severity="error", message=EMPTY_LIST, fix=fix, line=1, column=1)
            raise invalid_plan(name, (empty,))
        return _format_of_json(root)
    if text.removeprefix("\ufeff").lstrip()[:1] in {"{", "["}:
        return _format_of_unnamed_json(text, name)
    # Numbers and ids of spec-kit may both be there; then neither is sure.
    spec_kit, kiro = is_spec_kit(text), is_kiro(text, name=name)
    if spec_kit == kiro:
        return None
    return "spec-kit" if spec_kit else "kiro"


def read_tasks_of(task_format: TaskFormat, text: str, *, name: str, requirements: str = "") -> TaskDocument:
    """Return the tasks of a text, their dependencies checked; `requirements` is what Kiro keeps in its own file.

    Raises PlanInvalid with all problems and their positions.
    """
    return checked(_read_format(task_format, text, name, requirements), name=name)


def with_done(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, name: str) -> MarkedText:
    """Return the text with the tasks `ids` marked as done; nothing else changes, whatever the text has become.

    Raises PlanInvalid if the text cannot be read any more.
    """
    return mark_done(text, marked_tasks(task_format, text, name=name), ids)


@lru_cache(maxsize=4)
def marked_tasks(task_format: TaskFormat, text: str, *, name: str) -> tuple[SourceTask, ...]:
    """Return all tasks of a text with where their marks are, whatever the text has become.

    The latest are kept, as a landing asks for the same texts several times. Raises PlanInvalid if one cannot be read.
    """
    return numbered_tasks(text, name=name) if task_format == "kiro" else _read_format(task_format, text, name, "").tasks


def _read_format(task_format: TaskFormat, text: str, name: str, requirements: str) -> TaskDocument:
    match task_format:
        case "prd":
            return read_prd(text, name=name)
        case "task-master":
            return read_task_master(text, name=name)
        case "beads":
            return read_beads(text, name=name)
        case "spec-kit":
            return read_spec_kit(text, name=name)
        case "kiro":
            return read_kiro(text, name=name, requirements=requirements)
        case never:
            assert_never(never)


def _format_of_unnamed_json(text: str, name: str) -> TaskFormat | None:
    # A text without a file name may be JSON, or JSON line by line.
    for parse, judge in ((parse_json, _format_of_json), (parse_json_lines, _format_of_lines)):
        try:
            return judge(parse(text, name=name))
        except PlanInvalid:
            continue
    return None


def _format_of_lines(root: PositionedNode) -> TaskFormat | None:
    lines = root.items if isinstance(root, ListNode) else ()
    return "beads" if _each_has(ListNode(START, tuple(filter(is_issue, lines))), ISSUE_KEYS) else None


def _format_of_json(root: PositionedNode) -> TaskFormat | None:
    found: list[TaskFormat] = []
    stories = story_list_key(root)
    if stories is not None:
        # Structures overlap: only one that fits alone is taken.
        found.append("prd")
    lists = [child_value(each, LIST_KEY) for each in (root, *tags(root).values()) if stories != LIST_KEY]
    if any(_each_has(each, TASK_KEYS) for each in lists):
        found.append("task-master")
    if _mapping_keys(root) >= ISSUE_KEYS:
        found.append("beads")
    return found[0] if len(found) == 1 else None


def _each_has(node: PositionedNode | None, keys: frozenset[str]) -> bool:
    items: Sequence[PositionedNode] = node.items if isinstance(node, ListNode) else ()
    return bool(items) and all(keys <= _mapping_keys(each) for each in items)


def _mapping_keys(node: PositionedNode) -> frozenset[str]:
    entries = node.entries if isinstance(node, MappingNode) else ()
    return frozenset(key.written for key, _ in entries if isinstance(key, ScalarNode))


def done_ids(task_format: TaskFormat, text: str, *, name: str) -> frozenset[ActionKey]:
    """Return the tasks that are marked as done, without those that are written more than once.

    Raises PlanInvalid if the text cannot be read.
    """
    return frozenset(key for key, task in _unique_tasks(task_format, text, name).items() if task.done)


def with_marked(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, name: str) -> str:
    """Return the text with the tasks `ids` marked as done, and no others, whatever follows from that.

    Raises PlanInvalid if it cannot be read.
    """
    tasks, wanted = _unique_tasks(task_format, text, name), frozenset(ids)
    return edited(text, [edit for task in tasks.values() if task.id in wanted for edit in task.done_edits])


def with_open(task_format: TaskFormat, text: str, ids: Iterable[ActionKey], *, like: str, name: str) -> str:
    """Return the text with the tasks `ids` marked as open, and no others, whatever they are a part of.

    Each gets the mark that it has in `like`, another version of the list, if it is open there. Nothing else changes.
    Raises PlanInvalid if one of the texts cannot be read.
    """
    tasks, wanted = _unique_tasks(task_format, text, name), frozenset(ids)
    body = like.removeprefix("\ufeff")
    marks = {
        key: body[edit.start : edit.end]
        for key, task in _unique_tasks(task_format, like, name).items()
        for edit in task.done_edits
        if edit.start < edit.end
    }
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
    """Return the tasks that contain the tasks `ids`. Raises PlanInvalid if the text cannot be read."""
    tasks = _unique_tasks(task_format, text, name)
    tree = TaskTree(tasks.values())
    return frozenset(each.id for key in ids if key in tasks for each in tree.ancestors(tasks[key]))


def same_but_for_marks(task_format: TaskFormat, one: str, other: str, *, name: str) -> bool:
    """Return whether two versions of a list differ in nothing but which tasks are marked as done.

    Raises PlanInvalid if one of them cannot be read.
    """
    # A task done in either text is marked in both, so that marks cannot differ.
    done = done_ids(task_format, one, name=name) | done_ids(task_format, other, name=name)
    first, second = (with_marked(task_format, each, done, name=name) for each in (one, other))
    return first == second


def _unique_tasks(task_format: TaskFormat, text: str, name: str) -> dict[ActionKey, SourceTask]:
    tasks = marked_tasks(task_format, text, name=name)
    count = Counter(task.id for task in tasks)
    # Which of several is meant cannot be told, so none of them is changed.
    return {task.id: task for task in tasks if count[task.id] == 1}
