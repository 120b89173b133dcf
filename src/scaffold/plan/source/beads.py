"""Exports of beads (`bd export`): one issue a line, with dependencies of type `blocks` and `parent-child`."""

from collections.abc import Mapping, Sequence

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding, TaskType
from scaffold.plan.source.json_tasks import JsonText, criteria, mappings, named, paragraphs, priority
from scaffold.plan.source.task import SourceTask, TaskDocument
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.parse_tree import MappingNode, PositionedNode, ScalarNode, invalid_plan, parse_json_lines

LIST_KEY = "issues"
DELETED = "tombstone"
DONE_STATUSES = frozenset({"closed", "done"})
OPEN_STATUSES = frozenset({"", "open", "in_progress"})
TYPES: Mapping[str, TaskType] = {"bug": "BUGFIX", "feature": "FEATURE"}
"""Types of issues that say what kind of work they are."""
NOT_WORK = frozenset({"message", "molecule", "gate", "event", "milestone", "agent", "rig", "role"})
"""Types of issues that are not work."""
BLOCKING = ("blocks", "waits-for")
ALTERNATIVE = "conditional-blocks"
"""The type of a dependency on the failure of an issue."""
PARENT = "parent-child"


def read_beads(text: str, *, name: str) -> TaskDocument:
    """Return the issues in `text`, without deleted ones and other records. Their dependencies are not checked.

    Raises PlanInvalid with all problems of the text and their positions.
    """
    found: list[Finding] = []
    fields = FieldReader(FindingCollector(found), named(LIST_KEY, parse_json_lines(text, name=name)), "beads")
    fields.never_empty(LIST_KEY)
    source = JsonText(text.removeprefix("\ufeff"))
    # An export has records of other kinds, such as memories.
    issues_only = (each for each in fields.tables(LIST_KEY) if is_issue(each.node))
    listed = [(each, node) for each, node in mappings(issues_only) if each.text("status") != DELETED]
    known = frozenset(each.identifier("id") for each, _ in listed)
    issues = tuple(_read_issue(each, node, source, known) for each, node in listed)
    if found:
        raise invalid_plan(name, tuple(found))
    return TaskDocument(format="beads", tasks=issues)


def is_issue(node: PositionedNode) -> bool:
    """Return whether the line is an issue, and not a record of another type, such as a memory."""
    entries = node.entries if isinstance(node, MappingNode) else ()
    types = [
        value.written
        for key, value in entries
        if isinstance(key, ScalarNode) and key.written == "_type" and isinstance(value, ScalarNode)
    ]
    return types in ([], ["issue"])


def _read_issue(fields: FieldReader, entry: MappingNode, source: JsonText, known: frozenset[str]) -> SourceTask:
    issue_id = ActionKey(fields.identifier("id", complaint=bad_key))
    fields.notes = fields.notes.about(action=issue_id)
    fields.check(("id", "title"), required=("id", "title"), closed=False)
    status = fields.text("status")
    kind = fields.text("issue_type")
    done = status in DONE_STATUSES
    needed: dict[str, list[ActionKey]] = {}
    for table in fields.tables("dependencies"):
        table.check(("depends_on_id", "type"), required=("depends_on_id",), closed=False)
        # A dependency belongs to the issue that it names; without a type it blocks.
        if table.identifier("issue_id") in {"", issue_id}:
            needed.setdefault(table.text("type", BLOCKING[0]), []).append(ActionKey(table.identifier("depends_on_id")))
    # A parent that is not in the export, as it was deleted, groups nothing.
    parents = [key for key in needed.get(PARENT, ()) if key in known]
    return SourceTask(
        id=issue_id,
        title=" ".join(fields.text("title").split()),
        description=paragraphs(fields.text("description"), fields.text("design")),
        acceptance=criteria(fields, "acceptance_criteria"),
        type=TYPES.get(kind),
        notes=fields.text("notes").strip(),
        priority=priority(fields),
        depends_on=tuple(key for each in BLOCKING for key in needed.get(each, ())),
        done=done,
        held="" if done else _why_held(status, kind, needed.get(ALTERNATIVE, ())),
        parent=parents[0] if parents else None,
        position=entry.mark,
        done_edits=() if done else source.edits(entry, "status", '"closed"'),
        open_edits=source.edits(entry, "status", '"open"') if done else (),
    )


def _why_held(status: str, kind: str, failing: Sequence[ActionKey]) -> str:
    """Return why an issue that is not done must not be started, as the end of a sentence; empty if it may be."""
    if status not in OPEN_STATUSES:
        return f"has the status `{status}`"
    if kind in NOT_WORK:
        return f"has the type `{kind}`"
    # Whether it has to be done is known only afterwards.
    return f"is to be done only if `{failing[0]}` fails" if failing else ""
