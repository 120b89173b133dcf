"""What a step's agent asks to change in the steps of its story: by a tool, or by a file in its shared folder."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.model import Attempt
from scaffold.core.printable_text import utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.contained_path import MISSING, ContainedPath
from scaffold.plan.story.apply_edit import EditsRejected, RestartsExhausted, foreign_files
from scaffold.plan.story.step_edit import MAX_EDIT_BYTES
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.run.attempts.assignment import Assignment, read_assignment
from scaffold.run.context import RunContext, safe_file_name
from scaffold.run.shared_notes import (
    EDITS,
    UnusableNotes,
    add_notes,
    edit_file_name,
    keep_edits,
    keep_unused_edits,
    keep_unused_file,
    notes_of_story,
)
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer
from scaffold.views.story_record import judge_edits
from scaffold.worker.activity_clock import attempt_activity
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.shared_folder import SharedFolder, left_shared_folder, merge_shared_folder

NAME = "edit_workflow"
STEP_FAILS = (
    "Your step fails with this when it ends, as by a file: call the tool again without it if that is not meant."
)
MAX_FOREIGN = 20
"""Files for other stories that are looked at and kept each time; the others stay where they are."""


class EditFolder(Struct, frozen=True, kw_only=True):
    """The folder in which a step's agent asks for edits of its story; its commands may replace it by a link."""

    shared: SharedFolder
    story: ActionKey

    @property
    def own(self) -> ContainedPath:
        """The file of the agent's own story."""
        return self.shared.path / EDITS / edit_file_name(self.story)


class AskedEdits:
    """The edits that an agent has asked for by the tool since they were last taken; each attempt has its own."""

    def __init__(self) -> None:
        self._text: str | None = None

    def ask(self, text: str) -> None:
        """Ask for these edits in place of earlier ones."""
        self._text = text

    def take(self) -> str | None:
        """Return the edits and forget them; None if there are none."""
        text, self._text = self._text, None
        return text


class _FolderContent(Struct, frozen=True, kw_only=True):
    """What was in the folder; the files are removed from it."""

    own: bytes | str | None = None
    """The content of the own file, or why it is not read; None if there is none."""
    foreign: tuple[tuple[str, bytes | str], ...] = ()
    """The same of other files, by names that are safe."""
    problem: str = ""
    """Why the folder is not used."""


def edit_folder(task: Assignment, shared: SharedFolder | None) -> EditFolder | None:
    """Return the edit folder, which may not exist; None unless the attempt works on a step of a story."""
    story = _story_of(task)
    return None if shared is None or story is None else EditFolder(shared=shared, story=story)


async def collect_edits(shared: SharedFolder | None, asked: AskedEdits, records: AttemptRecords) -> str | None:
    """Return the text of the edits that the agent has asked for since the last call; None without any.

    Those of the tool come before a file. A file that is not used is kept, and the story's notes say why.
    """
    folder = edit_folder(records.task, shared)
    if folder is None:
        return None
    found, own, clean = _take_files(folder), edit_file_name(folder.story), records.redactor.clean
    text, why = asked.take(), found.problem
    if found.own is not None:
        if text is None:
            text, why = _text_of(found.own)
        else:
            why = "the tool `edit_workflow` was called, which counts"
    refused = [f"{each.what}. {each.fix}" for each in foreign_files([name for name, _ in found.foreign], own)]
    if why:
        refused.append(f"the edit file `{own}` is not used: {why}.")
    await _note_refusals(records, folder.story, refused)
    unused = [*found.foreign, *([(own, found.own)] if why and found.own is not None else [])]
    for name, content in unused:
        if isinstance(content, bytes):
            kept = clean(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            keep_unused_file(records.run_context, records.task.attempt.id, clean(name), kept)
    if text is None:
        return None
    text = clean(text)
    keep_edits(records.run_context, folder.story, text)
    return text


async def collect_left_edits(shared: SharedFolder | None, asked: AskedEdits, records: AttemptRecords) -> None:
    """Store the edits that the agent asked for in a turn that did not end."""
    text = await collect_edits(shared, asked, records)
    if text is not None:
        records.asked(text)


async def save_left_folder(context: RunContext, attempt: Attempt) -> None:
    """Store what a killed worker's agent wrote into its shared folder: its notes, and the edits that it asks for.

    Its conversation goes on in the next attempt, without the calls that wrote them. Safe to repeat.
    """
    task = read_assignment(context.store, attempt.id, status="claimed")
    shared = left_shared_folder(context, task, _story_of(task))
    if shared is None:
        return
    await merge_shared_folder(context, task, shared)
    activity = attempt_activity(context.clock, task)
    await collect_left_edits(shared, AskedEdits(), AttemptRecords(run_context=context, task=task, activity=activity))


def keep_edits_of_failed(context: RunContext, task: Assignment, attempt: Attempt) -> None:
    """Keep the edits of an attempt that has failed, which are not applied, with those that were refused."""
    story = _story_of(task)
    if story is not None and attempt.edits is not None:
        keep_unused_edits(context, attempt.id, story, attempt.edits)


def _story_of(task: Assignment) -> ActionKey | None:
    return task.parent.key if task.parent is not None and task.parent.method == "story" else None


def _take_files(folder: EditFolder) -> _FolderContent:
    own, place = edit_file_name(folder.story), folder.own.parent
    try:
        with place.opened() as opened, os.scandir(opened) as entries:
            found = (each.name for each in entries if each.name.endswith(".json") and each.name != own)
            names = [own, *sorted(islice(found, MAX_FOREIGN))]
    except FileNotFoundError:
        return _FolderContent()
    except OSError as error:
        return _FolderContent(problem=f"its folder cannot be opened ({error.strerror})")
    read = {name: (place / name).read(MAX_EDIT_BYTES) for name in names}
    content = {name: each for name, each in read.items() if each != MISSING}
    for name in content:
        with contextlib.suppress(OSError):
            (place / name).delete()
    # A foreign name may be no text.
    stems = {name: utf8_safe(name.removesuffix(".json")) for name in content if name != own}
    foreign = tuple((f"{safe_file_name(stem)}.json", content[name]) for name, stem in stems.items())
    return _FolderContent(own=content.get(own), foreign=foreign)


def _text_of(content: bytes | str) -> tuple[str | None, str]:
    if isinstance(content, str):
        return None, content
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"
    return (None, "it contains NUL") if "\0" in text else (text, "")


async def _note_refusals(records: AttemptRecords, story: ActionKey, refused: Sequence[str]) -> None:
    if not refused:
        return
    key = records.task.action.key
    written = await add_notes(
        records.run_context, notes_of_story(story), "\n".join(f"- {key}: {each}" for each in refused)
    )
    if isinstance(written, UnusableNotes):
        text = (
            f"{key} wrote edits that are not used, and its story's notes do not say why ({written.why}): {refused[0]}"
        )
        records.warn(text)


def repeats_step(records: AttemptRecords, edits: str) -> bool:
    """Return whether the edits that the agent asks for let its own step be executed again."""
    task, now = records.task, records.run_context.clock.now()
    if task.parent is None:
        return False
    return judge_edits(records.store, task.parent, task.action, task.attempt, edits, now).repeats_step


def edit_workflow(shared: SharedFolder | None, asked: AskedEdits, records: AttemptRecords) -> Tool | None:
    """Return the tool; None if the attempt is at no step that may edit its story."""
    task, role = records.task, records.task.action.role
    story = task.parent
    if (
        edit_folder(task, shared) is None
        or story is None
        or not any(each == role and STEP_TYPES[each].may_edit for each in STEP_TYPES)
    ):
        return None

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        text = msgspec.json.encode(records.redactor.clean_all(args["operations"])).decode()
        now = records.run_context.clock.now()
        # Judged now, so that the agent can correct itself; what counts is the same at the end of the step.
        outcome = judge_edits(records.store, story, task.action, task.attempt, text, now).outcome
        if isinstance(outcome, EditsRejected):
            return failed_answer(outcome.feedback)
        asked.ask(text)
        records.asked(text)  # a worker that is killed before its turn ends asks for them, too
        if isinstance(outcome, RestartsExhausted):
            return failed_answer(f"{outcome.feedback}\n{STEP_FAILS}")
        return ToolOutput("These edits, in place of any earlier ones, are applied when your step ends.")

    return Tool(
        name=NAME,
        description=(
            "Edit the steps of your story that are pending; your prompt lists the operations. All are applied when "
            "your step ends, or none. A second call replaces the first."
        ),
        schema=object_schema({"operations": {"type": "array", "items": {"type": "object"}}}),
        category="memory",
        run=run,
    )
