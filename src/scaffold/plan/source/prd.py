"""Product requirements (`prd.json`): stories with dependencies, read with a position for every problem."""

import re
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.source.json_tasks import JsonText, criteria, first_key, mappings, named, paragraphs, priority, prose
from scaffold.plan.source.task import SourceTask, TaskDocument
from scaffold.plan.text.fields import FieldReader, FindingCollector
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.parse_tree import ListNode, MappingNode, PositionedNode, ScalarNode, invalid_plan, parse_json

STORY_LIST_KEYS = ("userStories", "user_stories", "stories")
"""Accepted keys of the story list; the first one present is used."""
FEATURE_LIST_KEY = "features"
"""The key of a list of stories whose entries say what passes, or their status; so may a list that is the whole file."""
TASK_LIST_KEY = "tasks"
"""The key of a list of stories whose entries say what passes, without a status, unlike task-master's."""
PASSES_KEYS = ("passes", "passed", "done", "completed", "complete")
CRITERIA_KEYS = ("acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria", "steps")
DEPENDENCY_KEYS = ("depends_on", "dependsOn", "dependencies", "deps", "blockedBy", "blocked_by")
TITLE_KEYS = ("title", "name", "description")
DONE_STATUSES = frozenset({"done", "completed", "complete"})
HELD_STATUSES = frozenset({"blocked", "cancelled", "canceled", "deferred", "on-hold", "skipped"})
"""Statuses of stories that must not be started now; any other word does not hold a story back."""
HELD_FLAGS = ("skip", "skipped", "blocked")
MAX_TITLE_CHARS = 100
MAX_KEY_WORDS = 4


def story_list_key(root: PositionedNode) -> str | None:
    """Return the key of the list of stories, by its structure; None if the document has none.

    A list that is the whole document counts as one with FEATURE_LIST_KEY.
    """
    root = _as_mapping(root)
    entries = root.entries if isinstance(root, MappingNode) else ()
    lists = {
        key.written: value.items
        for key, value in entries
        if isinstance(key, ScalarNode) and isinstance(value, ListNode)
    }
    if key := next((key for key in STORY_LIST_KEYS if key in lists), None):
        return key
    features, tasks = (lists.get(key, ()) for key in (FEATURE_LIST_KEY, TASK_LIST_KEY))
    # By structure and not by name alone: other tools use the same keys.
    stated = [dict(_scalar_entries(item)) for item in features]
    have_status = bool(stated) and all(
        {"id", "status"} <= values.keys() and not values.keys().isdisjoint(TITLE_KEYS[:2]) for values in stated
    )
    if _say_what_passes(features) or have_status:
        return FEATURE_LIST_KEY
    # Entries with a status are task-master's.
    has_status = any("status" in dict(_scalar_entries(item)) for item in tasks)
    return TASK_LIST_KEY if _say_what_passes(tasks) and not has_status else None


def read_prd(text: str, *, name: str) -> TaskDocument:
    """Return the stories in `text`; `name` is the file name for messages. Their dependencies are not checked.

    Raises PlanInvalid with all problems of the text and their positions.
    """
    found: list[Finding] = []
    root = parse_json(text, name=name)
    document = FieldReader(FindingCollector(found), _as_mapping(root), "prd")
    known = (FEATURE_LIST_KEY,) if isinstance(root, ListNode) else STORY_LIST_KEYS
    key = story_list_key(root) or first_key(document, known)
    document.check(STORY_LIST_KEYS, required=(key,), closed=False)
    document.never_empty(key)
    source = JsonText(text.removeprefix("\ufeff"))
    nameless = key not in STORY_LIST_KEYS
    stories = [_read_story(fields, node, source, nameless=nameless) for fields, node in mappings(document.tables(key))]
    if found:
        raise invalid_plan(name, tuple(found))
    return TaskDocument(format="prd", tasks=tuple(stories))


def by_priority(stories: Sequence[SourceTask]) -> tuple[SourceTask, ...]:
    """Return the stories with the lowest priority first, those without one last, otherwise as they were written."""
    return tuple(sorted(stories, key=lambda each: (each.priority is None, each.priority or 0.0)))


def _as_mapping(root: PositionedNode) -> PositionedNode:
    return named(FEATURE_LIST_KEY, root) if isinstance(root, ListNode) else root


def _say_what_passes(items: Sequence[PositionedNode]) -> bool:
    """Return whether all entries of a list are named, and some say whether they pass."""
    # One flag is enough: the others may not be decided yet.
    stated = [dict(_scalar_entries(item)) for item in items]
    flagged = (isinstance(values.get(key), bool) for values in stated for key in PASSES_KEYS)
    return any(flagged) and not any(values.keys().isdisjoint(TITLE_KEYS) for values in stated)


def _scalar_entries(node: PositionedNode) -> Iterator[tuple[str, object]]:
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(key, ScalarNode) and isinstance(value, ScalarNode):
            yield key.written, value.value


def _read_story(fields: FieldReader, entry: MappingNode, source: JsonText, *, nameless: bool) -> SourceTask:
    """Return a story; in a list that is `nameless`, its description may stand for its id and its title."""
    title_key = first_key(fields, TITLE_KEYS if nameless else TITLE_KEYS[:2])
    derived = nameless and not fields.has("id")
    if derived:
        text = fields.text(title_key)
        # Words for people; the hash keeps it the same wherever the story stands, and apart from others.
        words = re.findall("[a-z0-9]+", text.lower())[:MAX_KEY_WORDS] or ["story"]
        story_id = "-".join((*words, sha256(" ".join(text.split()).encode(errors="replace")).hexdigest()[:6]))
    else:
        story_id = fields.identifier("id", complaint=bad_key)
    fields.notes = fields.notes.about(action=story_id)
    fields.check(("id", "title"), required=(title_key,) if derived else ("id", title_key), closed=False)
    title, description = " ".join(fields.text(title_key).split()), prose(fields, "description")
    if title_key == "description":
        is_short = len(title) <= MAX_TITLE_CHARS
        description = "" if is_short else description
        title = title if is_short else f"{title[: MAX_TITLE_CHARS - 1].rstrip()}…"
    passes, criteria_key, needs = (first_key(fields, keys) for keys in (PASSES_KEYS, CRITERIA_KEYS, DEPENDENCY_KEYS))
    mark, done, marks = _completion_state(fields, passes)
    read = {"id", title_key, "description", criteria_key, "priority", "notes", needs, mark, "status"}
    return SourceTask(
        id=ActionKey(story_id),
        title=title,
        description=description,
        acceptance=criteria(fields, criteria_key),
        priority=priority(fields),
        done=done,
        held="" if done else _why_held(fields),
        notes=paragraphs(prose(fields, "notes"), "\n".join(_other_texts(entry, read))),
        depends_on=tuple(map(ActionKey, fields.identifiers(needs))),
        position=entry.mark,
        done_edits=() if done else source.edits(entry, mark, marks[0]),
        open_edits=source.edits(entry, mark, marks[1]) if done else (),
    )


def _completion_state(fields: FieldReader, passes: str) -> tuple[str, bool, tuple[str, str]]:
    """Return the key that says whether the story is done, whether it is, and what is written if it is and if not."""
    # `passes` counts more than a status, as Ralph's lists have it.
    if fields.has(passes) or not fields.has("status"):
        return passes, fields.flag(passes, default=False), ("true", "false")
    return "status", _status_word(fields) in DONE_STATUSES, ('"done"', '"pending"')


def _status_word(fields: FieldReader) -> str:
    return fields.text("status").strip().lower().replace("_", "-")


def _why_held(fields: FieldReader) -> str:
    flag = next((key for key in HELD_FLAGS if fields.has(key) and fields.flag(key, default=False)), None)
    if flag is not None:
        return f"is marked as `{flag}`"
    return f"has the status `{status}`" if (status := _status_word(fields)) in HELD_STATUSES else ""


def _other_texts(entry: MappingNode, read: Collection[str]) -> Iterator[str]:
    # Agents get the whole story, including parts that we have no field for.
    for key, value in entry.entries:
        items = value.items if isinstance(value, ListNode) else (value,)
        texts = [each.value for each in items if isinstance(each, ScalarNode) and isinstance(each.value, str)]
        if isinstance(key, ScalarNode) and key.written not in read and len(texts) == len(items) and any(texts):
            yield f"{key.written}: {'; '.join(text.strip() for text in texts)}"
