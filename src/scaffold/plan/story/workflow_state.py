"""`workflow_state.json`: the records of all stories, written and read with the fields that we do not know."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.message_text import quoted
from scaffold.plan.story.record import STEP_ID, HistoryEntry, StepRecord, StoryRecord, Time
from scaffold.plan.text.file_format import bad_key
from scaffold.plan.text.parse_tree import invalid_plan, parse_positioned

VERSION = 1
Document = Mapping[str, Any]


class WorkflowState(Struct, frozen=True, kw_only=True):
    """The stories of a PRD with their steps."""

    version: int
    created_at: Time
    prd_file: str
    stories: Mapping[ActionKey, StoryRecord]


class StoredState(Struct, frozen=True):
    """A state, and the document it was read from, unknown fields included."""

    state: WorkflowState
    given: Document


_FIELDS = frozenset(WorkflowState.__struct_fields__)
_STORY_FIELDS = frozenset(StoryRecord.__struct_fields__)
_STEP_FIELDS = frozenset(StepRecord.__struct_fields__)
_ENTRY_FIELDS = frozenset(HistoryEntry.__struct_fields__)


def project(stories: Sequence[StoryRecord], *, created_at: datetime, prd_file: str) -> WorkflowState:
    """Return the state of these stories, in their order."""
    by_id = {story.story_id: story for story in stories}
    return WorkflowState(version=VERSION, created_at=created_at, prd_file=prd_file, stories=by_id)


def encode_state(state: WorkflowState, given: Document | None = None) -> bytes:
    """Return the state as JSON text, with the unknown fields of the document that is there already.

    Unknown fields follow the id of their step or the place of their history entry, and are removed with it.
    """
    document = msgspec.to_builtins(state)
    old = given or {}
    # Other programs write the file too, so its types are checked.
    old_stories = _as_mapping(old.get("stories"))
    stories = {
        key: _merge_story(story, _as_mapping(old_stories.get(key))) for key, story in document["stories"].items()
    }
    whole = _with_unknown(document | {"stories": stories}, old, _FIELDS)
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def read_state(text: str, *, name: str) -> StoredState:
    """Return the state in `text`; `name`, which ends in `.json`, is the file name for messages.

    Raises PlanInvalid: with the position of a syntax error, otherwise with the path of the value that is wrong.
    """
    # Only for the position of a syntax error; the values are read below.
    parse_positioned(text, name=name)
    try:
        given = msgspec.json.decode(text.encode())
        state = msgspec.convert(given, WorkflowState)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        fix = "Delete the file: it is written again from the database."
        raise PlanInvalid(f"{name} is not a workflow state: {error}", fix) from error
    if found := tuple(_find_problems(state)):
        raise invalid_plan(name, found)
    return StoredState(state, given)


def _merge_story(story: dict[str, Any], given: Document) -> Document:
    steps = {each.get("id"): each for each in map(_as_mapping, _as_list(given.get("steps")))}
    entries = [*map(_as_mapping, _as_list(given.get("history")))]
    # New entries have no counterpart in the file.
    entries += [{}] * (len(story["history"]) - len(entries))
    own = {
        "steps": [_with_unknown(step, steps.get(step["id"], {}), _STEP_FIELDS) for step in story["steps"]],
        "history": [
            _with_unknown(entry, old, _ENTRY_FIELDS) for entry, old in zip(story["history"], entries, strict=False)
        ],
    }
    return _with_unknown(story | own, given, _STORY_FIELDS)


def _with_unknown(known: Document, given: Document, fields: frozenset[str]) -> Document:
    return {**known, **{key: value for key, value in given.items() if key not in fields}}


def _as_mapping(value: object) -> Document:
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _find_problems(state: WorkflowState) -> Iterator[Finding]:
    if state.version != VERSION:
        fix = "Use the version of scaffold that wrote it, or delete the file: it is written again from the database."
        yield _problem_finding(f"version {state.version} is not supported", fix)
    for key, story in state.stories.items():
        # The keys of the file are checked like a plan's: they become parts of paths.
        if wrong := bad_key(key):
            yield _problem_finding(f"the story id {quoted(key)} {wrong}", "Give the story another id.")
        if story.story_id != key:
            yield _problem_finding(
                f"the story at {quoted(key)} has the id {quoted(story.story_id)}", "Make both the same."
            )
        for step_id, count in Counter(step.id for step in story.steps).items():
            if count > 1:
                yield _problem_finding(f"{quoted(key)} has two steps {quoted(step_id)}", "Give each step its own id.")
            if STEP_ID.fullmatch(step_id) is None:
                yield _problem_finding(
                    f"{quoted(key)} has a step {quoted(step_id)}", "Step ids are `step-001`, `step-002`."
                )


def _problem_finding(message: str, fix: str) -> Finding:
    return Finding(code="bad-value", severity="error", message=message, fix=fix, line=1, column=1)
