"""Product requirements (`prd.json`): stories with dependencies, read with a position for every problem."""

from collections.abc import Collection, Sequence

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.source.json_edits import JsonText
from scaffold.plan.source.json_tasks import criteria, first_key, mappings, one_line, priority
from scaffold.plan.source.task import SourceTask, TaskDocument
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.positioned import MappingNode, invalid_plan, parse_json

STORY_LIST_KEYS = ("userStories", "user_stories", "stories")
"""Accepted keys of the story list; the first one present is used."""

PASSES_KEYS = ("passes", "passed", "done", "completed", "complete")
CRITERIA_KEYS = ("acceptanceCriteria", "acceptance_criteria")
DEPENDENCY_KEYS = ("depends_on", "dependsOn", "dependencies")


def read_prd(text: str, *, name: str) -> TaskDocument:
    """Return the stories in `text`; `name` is the file name for messages. Their dependencies are not checked.

    Raises PlanInvalid with all problems of the text and their positions.
    """
    found: list[Finding] = []
    document = FieldReader(FindingCollector(found), parse_json(text, name=name), "prd")
    key = first_key(document, STORY_LIST_KEYS)
    document.check(STORY_LIST_KEYS, required=(key,), closed=False)
    document.never_empty(key)
    source = JsonText(text.removeprefix("\ufeff"))
    stories = [_story(fields, node, source) for fields, node in mappings(document.tables(key))]
    if found:
        raise invalid_plan(name, tuple(found))
    return TaskDocument(format="prd", tasks=tuple(stories))


def assignable(
    stories: Sequence[SourceTask], *, claimed: Collection[ActionKey] = (), completed: Collection[ActionKey] = ()
) -> tuple[SourceTask, ...]:
    """Return the stories that can start now, by priority (lowest first), then in the order they were written.

    These are neither completed nor `claimed`, and all their dependencies are completed. Stories that are marked as done
    and those in `completed` count as completed.
    """
    done = {story.id for story in stories if story.done}.union(completed)
    candidates = (story for story in stories if story.id not in done and story.id not in claimed)
    return by_priority([story for story in candidates if done.issuperset(story.depends_on)])


def by_priority(stories: Sequence[SourceTask]) -> tuple[SourceTask, ...]:
    """Return the stories with the lowest priority first, those without one last, otherwise as they were written."""
    return tuple(sorted(stories, key=_rank))


def _rank(story: SourceTask) -> tuple[bool, float]:
    return story.priority is None, story.priority or 0.0


def _story(fields: FieldReader, entry: MappingNode, source: JsonText) -> SourceTask:
    story_id = fields.identifier("id", complaint=bad_key)
    fields.notes = fields.notes.about(action=story_id)
    fields.check(("id", "title"), required=("id", "title"), closed=False)
    passes = first_key(fields, PASSES_KEYS)
    done = fields.flag(passes, default=False)
    return SourceTask(
        id=ActionKey(story_id),
        title=one_line(fields.text("title")),
        description=fields.text("description"),
        acceptance=criteria(fields, first_key(fields, CRITERIA_KEYS)),
        priority=priority(fields),
        done=done,
        notes=fields.text("notes"),
        depends_on=tuple(map(ActionKey, fields.identifiers(first_key(fields, DEPENDENCY_KEYS)))),
        position=entry.mark,
        done_edits=() if done else source.edits(entry, passes, "true"),
        open_edits=source.edits(entry, passes, "false") if done else (),
    )
