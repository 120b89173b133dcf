"""Product requirements (`prd.json`): stories that depend on each other, read with every problem at its place."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import Key
from scaffold.core.plan import Finding
from scaffold.plan.dag import Task, dag_findings
from scaffold.plan.fields import Fields, Notes
from scaffold.plan.located import Listing, Located, Mark, Scalar, invalid, read_located
from scaffold.plan.planfile import bad_key

LISTS = ("userStories", "stories")
"""Where the stories stand: under the first of these keys that is given."""

_STORY = ("id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes", "depends_on")


class Story(Struct, frozen=True, kw_only=True):
    """Something a user wants."""

    id: Key
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: float | None = None
    """The lowest comes first; None comes last."""
    passes: bool = False
    """Whether it is completed."""
    notes: str = ""
    depends_on: tuple[Key, ...] = ()
    given: Mapping[str, Any]
    """The whole entry as it was written, unknown fields included."""


class Prd(Struct, frozen=True, kw_only=True):
    """A document of stories, in the order they were written."""

    stories: tuple[Story, ...]
    given: Mapping[str, Any]
    """The whole document as it was written, unknown fields included."""


def read_prd(text: str, *, name: str) -> Prd:
    """Return the document that `text` holds; `name` is the file's, for messages.

    Raises PlanInvalid with all problems at their places: those of the text first; where there are none, those of the
    dependencies: `unknown-dependency`, `self-dependency`, and `cycle`, which is named.
    """
    found: list[Finding] = []
    node = read_located(text, name=name)
    document = Fields(Notes(found), node, "prd")
    key = next((key for key in LISTS if document.has(key)), LISTS[0])
    document.check(LISTS, required=(key,), closed=False)
    document.never_empty(key)
    entries = tuple(zip(document.tables(key), document.items(key), strict=True))
    stories = tuple(_story(fields, item) for fields, item in entries)
    if not found:
        found += _unsound(stories, {story.id: item.mark for story, (_, item) in zip(stories, entries, strict=True)})
    if found:
        raise invalid(name, tuple(found))
    return Prd(stories=stories, given=_plain(node))


def assignable(
    stories: Sequence[Story], *, claimed: Collection[Key] = (), completed: Collection[Key] = ()
) -> tuple[Story, ...]:
    """Return the stories that may be started now, the lowest priority first, then in the order they were written.

    Those are the ones neither completed nor `claimed` whose dependencies are all completed. A story that passes counts
    as completed, and so do those named in `completed`.
    """
    over = {story.id for story in stories if story.passes}.union(completed)
    able = (story for story in stories if story.id not in over and story.id not in claimed)
    return tuple(sorted((story for story in able if over.issuperset(story.depends_on)), key=_rank))


def _rank(story: Story) -> tuple[bool, float]:
    return story.priority is None, story.priority or 0.0


def _story(fields: Fields, entry: Located) -> Story:
    story_id = fields.text("id", complaint=bad_key)
    fields.notes = fields.notes.about(action=story_id)
    fields.check(_STORY, required=("id", "title"), closed=False)
    return Story(
        id=Key(story_id),
        title=fields.text("title"),
        description=fields.text("description"),
        acceptance_criteria=fields.texts("acceptanceCriteria"),
        priority=_priority(fields),
        passes=fields.flag("passes", default=False),
        notes=fields.text("notes"),
        depends_on=tuple(map(Key, fields.texts("depends_on"))),
        given=_plain(entry),
    )


def _priority(fields: Fields) -> float | None:
    priority = fields.number("priority")
    if priority is not None and not isfinite(priority):
        fields.complain("priority", "is no finite number", "Write a number; the lowest comes first.")
    return priority


def _unsound(stories: Sequence[Story], places: Mapping[Key, Mark]) -> Iterator[Finding]:
    """Yield what is wrong with ids and dependencies, each at the place of its story."""
    tasks = [Task(key=story.id, description=story.title, depends_on=story.depends_on) for story in stories]
    for finding in dag_findings(tasks):
        mark = places[Key(finding.action or "")]
        yield replace(finding, line=mark.line, column=mark.column)


def _plain(node: Located) -> Any:
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Listing):
        return [_plain(item) for item in node.items]
    return {_plain(key): _plain(value) for key, value in node.entries}
