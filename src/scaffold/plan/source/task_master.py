"""Task lists of task-master (`tasks.json`): flat, or one list per tag; subtasks are parts of tasks."""

from collections.abc import Mapping

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.message_text import quoted_list
from scaffold.plan.source.json_tasks import JsonText, criteria, first_key, mappings, paragraphs, priority, prose
from scaffold.plan.source.task import SourceTask, TaskDocument
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.parse_tree import MappingNode, PositionedNode, ScalarNode, invalid_plan, parse_json

DEFAULT_TAG = "master"
LIST_KEY = "tasks"
DONE_STATUSES = frozenset({"done", "completed", "complete"})
OPEN_STATUSES = frozenset({"", "pending", "in-progress", "todo", "to-do", "open", "not-started"})
"""Statuses of tasks that task-master proposes as the next one, and what others write for `pending`."""
CRITERIA_KEYS = ("acceptanceCriteria", "acceptance_criteria")


def read_task_master(text: str, *, name: str) -> TaskDocument:
    """Return the tasks in `text`: of the tag `master`, or of the only one. Their dependencies are not checked.

    A subtask has its task's id and its own, such as `3.1`, and depends on other subtasks of its task or else on tasks.
    Raises PlanInvalid with all problems of the text and their positions.
    """
    found: list[Finding] = []
    notes = FindingCollector(found)
    root = parse_json(text, name=name)
    fields = FieldReader(notes, _select_tag(root, notes), LIST_KEY)
    fields.check((LIST_KEY,), required=(LIST_KEY,), closed=False)
    fields.never_empty(LIST_KEY)
    source = JsonText(text.removeprefix("\ufeff"))
    tasks: list[SourceTask] = []
    for each, entry in list(mappings(fields.tables(LIST_KEY))):
        task = _read_task(each, entry, source)
        parts = list(mappings(each.tables("subtasks")))
        siblings = frozenset(_part_id(part, task.id) for part, _ in parts)
        tasks += (task, *(_read_task(part, node, source, parent=task.id, siblings=siblings) for part, node in parts))
    # Warnings are passed on with the tasks.
    if errors := tuple(finding for finding in found if finding.severity == "error"):
        raise invalid_plan(name, errors)
    return TaskDocument(format="task-master", tasks=tuple(tasks), warnings=tuple(found))


def tags(root: PositionedNode) -> Mapping[str, MappingNode]:
    """Return the lists of a tagged document by tag; empty if it is not tagged."""
    return {
        key.written: value
        for key, value in (root.entries if isinstance(root, MappingNode) else ())
        if isinstance(key, ScalarNode) and isinstance(value, MappingNode) and _has_tasks(value)
    }


def _has_tasks(node: MappingNode) -> bool:
    return any(isinstance(key, ScalarNode) and key.written == LIST_KEY for key, _ in node.entries)


def _select_tag(root: PositionedNode, notes: FindingCollector) -> PositionedNode:
    """Return the mapping with the list of tasks; say which tags are not read."""
    named = tags(root)
    # A list at the top is the list, whatever else the file has.
    if (isinstance(root, MappingNode) and _has_tasks(root)) or not named:
        return root
    chosen = DEFAULT_TAG if DEFAULT_TAG in named else next(iter(named))
    others = [tag for tag in named if tag != chosen]
    if others and chosen != DEFAULT_TAG:
        message = f"the file has the tags {quoted_list(list(named))}, but none is called `{DEFAULT_TAG}`"
        notes.add("bad-value", root.mark, message, f"Rename the one to work on to `{DEFAULT_TAG}`, or pass it alone.")
    elif others:
        message = f"only the tag `{chosen}` is read, not {quoted_list(others)}"
        fix = "Pass a file with another tag alone to work on that one."
        notes.add("unread-tag", root.mark, message, fix, severity="warning")
    return named[chosen]


def _part_id(fields: FieldReader, parent: ActionKey) -> ActionKey:
    own = fields.identifier("id", complaint=bad_key)
    # Both ways to write the id of a subtask are found in files.
    return ActionKey(own if own.startswith(f"{parent}.") else f"{parent}.{own}")


def _read_task(
    fields: FieldReader,
    entry: MappingNode,
    source: JsonText,
    *,
    parent: ActionKey | None = None,
    siblings: frozenset[str] = frozenset(),
) -> SourceTask:
    own = fields.identifier("id", complaint=bad_key)
    task_id = ActionKey(own) if parent is None else _part_id(fields, parent)
    fields.notes = fields.notes.about(action=task_id)
    fields.check(("id", "title"), required=("id", "title"), closed=False)
    status = fields.text("status").strip().lower().replace("_", "-")
    done = status in DONE_STATUSES
    return SourceTask(
        id=task_id,
        title=" ".join(fields.text("title").split()),
        description=paragraphs(prose(fields, "description"), prose(fields, "details")),
        acceptance=criteria(fields, first_key(fields, CRITERIA_KEYS)),
        verification_intent=prose(fields, "testStrategy").strip(),
        priority=priority(fields),
        depends_on=tuple(
            # Within a task a bare number means a sibling, elsewhere a task.
            ActionKey(f"{parent}.{key}" if f"{parent}.{key}" in siblings - {task_id} else key)
            for key in fields.identifiers("dependencies")
        ),
        done=done,
        closes_parts=True,
        held="" if done or status in OPEN_STATUSES else f"has the status `{status}`",
        parent=parent,
        position=entry.mark,
        done_edits=() if done else source.edits(entry, "status", '"done"'),
        open_edits=source.edits(entry, "status", '"pending"') if done else (),
    )
