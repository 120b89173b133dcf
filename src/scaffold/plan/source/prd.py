"""Product requirements (`prd.json`): stories with dependencies, read with a position for every problem."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.source.dag import TaskSpec, dag_findings
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.positioned import (
    ListNode,
    PositionedNode,
    ScalarNode,
    TextPosition,
    invalid_plan,
    parse_positioned,
)

STORY_LIST_KEYS = ("userStories", "stories")
"""Accepted keys of the story list; the first one present is used."""

_STORY = ("id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes", "depends_on")


class Story(Struct, frozen=True, kw_only=True):
    """A user story."""

    id: ActionKey
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: float | None = None
    """Lower comes first; None comes last."""
    passes: bool = False
    """Whether the story is done."""
    notes: str = ""
    depends_on: tuple[ActionKey, ...] = ()
    given: Mapping[str, Any]
    """The entry as written, unknown fields included."""


class Prd(Struct, frozen=True, kw_only=True):
    """A list of stories, in the order they were written."""

    stories: tuple[Story, ...]
    given: Mapping[str, Any]
    """The document as written, unknown fields included."""


def read_prd(text: str, *, name: str) -> Prd:
    """Return the PRD in `text`; `name` is the file name for messages.

    Raises PlanInvalid with all problems and their positions: those of the text, or if there are none, those of the
    dependencies (`unknown-dependency`, `self-dependency`, `cycle`).
    """
    found: list[Finding] = []
    node = parse_positioned(text, name=name)
    document = FieldReader(FindingCollector(found), node, "prd")
    key = next((key for key in STORY_LIST_KEYS if document.has(key)), STORY_LIST_KEYS[0])
    document.check(STORY_LIST_KEYS, required=(key,), closed=False)
    document.never_empty(key)
    entries = tuple(zip(document.tables(key), document.items(key), strict=True))
    stories = tuple(_story(fields, item) for fields, item in entries)
    if not found:
        found += _dependency_errors(
            stories, {story.id: item.mark for story, (_, item) in zip(stories, entries, strict=True)}
        )
    if found:
        raise invalid_plan(name, tuple(found))
    return Prd(stories=stories, given=_plain(node))


def assignable(
    stories: Sequence[Story], *, claimed: Collection[ActionKey] = (), completed: Collection[ActionKey] = ()
) -> tuple[Story, ...]:
    """Return the stories that can start now, by priority (lowest first), then in the order they were written.

    These are neither completed nor `claimed`, and all their dependencies are completed. Stories with `passes` and those
    in `completed` count as completed.
    """
    done = {story.id for story in stories if story.passes}.union(completed)
    candidates = (story for story in stories if story.id not in done and story.id not in claimed)
    return by_priority([story for story in candidates if done.issuperset(story.depends_on)])


def by_priority(stories: Sequence[Story]) -> tuple[Story, ...]:
    """Return the stories with the lowest priority first, those without one last, otherwise as they were written."""
    return tuple(sorted(stories, key=_rank))


def _rank(story: Story) -> tuple[bool, float]:
    return story.priority is None, story.priority or 0.0


def _story(fields: FieldReader, entry: PositionedNode) -> Story:
    story_id = fields.text("id", complaint=bad_key)
    fields.notes = fields.notes.about(action=story_id)
    fields.check(_STORY, required=("id", "title"), closed=False)
    return Story(
        id=ActionKey(story_id),
        title=fields.text("title"),
        description=fields.text("description"),
        acceptance_criteria=fields.texts("acceptanceCriteria"),
        priority=_priority(fields),
        passes=fields.flag("passes", default=False),
        notes=fields.text("notes"),
        depends_on=tuple(map(ActionKey, fields.texts("depends_on"))),
        given=_plain(entry),
    )


def _priority(fields: FieldReader) -> float | None:
    priority = fields.number("priority")
    if priority is not None and not isfinite(priority):
        fields.complain("priority", "is not a finite number", "Write a number; the lowest comes first.")
    return priority


def _dependency_errors(stories: Sequence[Story], positions: Mapping[ActionKey, TextPosition]) -> Iterator[Finding]:
    """Yield the errors in ids and dependencies, each at the position of its story."""
    tasks = [TaskSpec(key=story.id, description=story.title, depends_on=story.depends_on) for story in stories]
    for finding in dag_findings(tasks):
        mark = positions[ActionKey(finding.action or "")]
        yield replace(finding, line=mark.line, column=mark.column)


def _plain(node: PositionedNode) -> Any:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [_plain(item) for item in node.items]
    return {_plain(key): _plain(value) for key, value in node.entries}
