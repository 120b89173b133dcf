"""Apply the edits of a step's agent to its story: all of a file or none, once, and recorded."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import IllegalTransition, PlanInvalid
from scaffold.core.ids import AttemptId
from scaffold.core.model import Usage
from scaffold.plan.message_text import MAX_LISTED, quoted
from scaffold.plan.story.guardrails import (
    GUARDRAILS,
    MAX_STEPS,
    AskedEdit,
    EditRefusal,
    Guardrail,
    added_steps,
    at_most_3_restarts,
)
from scaffold.plan.story.record import (
    HistoryEntry,
    StepId,
    StepRecord,
    StoryRecord,
    add_usage,
    edit_entry,
    next_ids,
    reset,
    step_entry,
)
from scaffold.plan.story.step_edit import (
    AddAfter,
    EditDescription,
    NewStep,
    Operation,
    Reorder,
    Restart,
    Skip,
    Split,
    StepEdit,
    problems_in,
    read_edits,
)
from scaffold.plan.story.step_type import STEP_TYPES


class EditRequest(Struct, frozen=True, kw_only=True):
    """Edits that the agent of a step has asked for, in one execution of it."""

    step_id: StepId
    attempt: AttemptId
    name: str
    """The file that they are in, for messages."""
    at: datetime
    usage: Usage
    """Of the execution; it counts if the edits end it, as a restart does."""


class EditsApplied(Struct, frozen=True):
    """All edits are in `story`.

    Its current step is to be completed, unless it is pending again: `resets_worktree` says whether what it changed is
    discarded (a restart), or stays (a final review to which steps were added).
    """

    story: StoryRecord
    resets_worktree: bool


class EditsKnown(Struct, frozen=True):
    """The same edits of the same execution were applied before: nothing is left to do."""


class EditsRejected(Struct, frozen=True):
    """None of the edits is applied; the story goes on. `feedback` is for the story's scratch file."""

    feedback: str


class RestartsExhausted(Struct, frozen=True):
    """None of the edits is applied: the step was restarted too often, and fails with `error`, as does its story."""

    error: str
    feedback: str


EditOutcome = EditsApplied | EditsKnown | EditsRejected | RestartsExhausted


class _Refused(Exception):
    def __init__(self, refusal: EditRefusal, rule: Guardrail, edit: StepEdit) -> None:
        super().__init__(refusal.what)
        self.refusal = refusal
        self.rule = rule
        self.edit = edit


def edit_hash(story_id: str, request: EditRequest, content: bytes) -> str:
    """Return the identity of edits: equal for the same content from the same execution of a step, and only then."""
    # Each part with its length, so that no two lists of parts give the same bytes.
    parts = (story_id.encode(), request.step_id.encode(), request.attempt.encode(), content)
    return hashlib.sha256(b"".join(b"%d:" % len(part) + part for part in parts)).hexdigest()


def apply_file(story: StoryRecord, request: EditRequest, content: bytes) -> EditOutcome:
    """Return the outcome of the edits in a file of the step's agent; see `step_edit.py` for their form."""
    identity = edit_hash(story.story_id, request, content)
    # A killed owner applies the same file again.
    if any(entry.details.get("edit_hash") == identity for entry in story.history):
        return EditsKnown()
    try:
        edits = read_edits(content, name=request.name)
    except PlanInvalid as error:
        return EditsRejected(_rejection_feedback(request, problems_in(error), identity))
    return apply_edits(story, request, edits, identity)


def apply_edits(story: StoryRecord, request: EditRequest, edits: Iterable[StepEdit], identity: str) -> EditOutcome:
    """Return the outcome of edits that are already read; each is judged on the workflow that those before it leave.

    IllegalTransition if the step that asks is not in progress; UsageError if the story does not have it.
    """
    asking, edited = story.step(request.step_id), story
    if asking.status != "in_progress":
        what = f"step `{asking.id}` is {asking.status}; only a step that is in_progress can edit the workflow"
        raise IllegalTransition(what, "Apply its edits before it is completed, and discard them if it fails.")
    try:
        for edit in edits:
            edited = _apply_edit(edited, asking, edit, request, identity)
    except _Refused as refused:
        # The feedback names the place in the file, as its agent wrote it.
        mark, refusal = refused.edit.mark, refused.refusal
        asked_for = f"{refused.edit.name} (reason: {quoted(refused.edit.reason)})"
        problem = f"{mark.line}:{mark.column}: {asked_for}: {refusal.what}. {refusal.fix}"
        feedback = _rejection_feedback(request, (problem,), identity)
        # Asking again would be refused again: the step cannot go on without a restart.
        if refused.rule is at_most_3_restarts:
            return RestartsExhausted(f"{refusal.what} (it asked because: {refused.edit.reason})", feedback)
        return EditsRejected(feedback)
    restarted = edited.step(asking.id).restart_count > asking.restart_count
    return EditsApplied(edited, resets_worktree=restarted)


def foreign_files(found: Iterable[str], own: str) -> tuple[EditRefusal, ...]:
    """Return a refusal for each edit file that is not the story's own, `found` in its agent's folder for edits."""
    # Kept, as it may be the only trace of what an agent meant.
    fix = f"An agent edits its own story only, in `{own}`. The file is kept and not read."
    return tuple(EditRefusal(f"the edit file `{name}` is for another story", fix) for name in found if name != own)


def with_rebase_step(story: StoryRecord, *, conflict: str, at: datetime) -> StoryRecord | None:
    """Return the story with a `rebase_resolve` step before its final review, which is pending again.

    `conflict` names what conflicts. None if the story has MAX_STEPS steps: it fails instead. IllegalTransition unless
    the story is in progress, and none of its steps is.
    """
    if story.status != "in_progress" or story.current is not None or not story.steps:
        what = f"story `{story.story_id}` is {story.status}, and a step for conflicts cannot be inserted into it"
        raise IllegalTransition(what, "Insert it into a story in progress, between two of its steps.")
    if len(story.steps) >= MAX_STEPS:
        # Each conflict adds a step, so this bounds the rounds.
        return None
    (new_id,), kind = next_ids(story.steps, 1), STEP_TYPES["rebase_resolve"]
    added = StepRecord(id=new_id, type="rebase_resolve", description=f"{kind.description}: {conflict}")
    # The review has to see the merged work.
    steps = (*story.steps[:-1], added, reset(story.steps[-1]))
    entry = edit_entry(story, None, "add_after", f"conflicts with what landed: {conflict}", (story.steps, steps), at)
    return replace(story, steps=steps).with_history(entry)


def _rejection_feedback(request: EditRequest, problems: tuple[str, ...], identity: str) -> str:
    # The same for the same edits, so that it is written once even if its owner was killed in between.
    head = f"## The workflow edits of {request.step_id} were rejected ({identity[:8]})"
    more = [f"- and {len(problems) - MAX_LISTED} more problems"] if len(problems) > MAX_LISTED else []
    lines = [f"- {request.name}:{each}" for each in problems[:MAX_LISTED]]
    return "\n".join([head, "None of them was applied:", *lines, *more])


def _apply_edit(
    story: StoryRecord, asking: StepRecord, edit: StepEdit, request: EditRequest, identity: str
) -> StoryRecord:
    """Return the story with one edit and its entry in the history; _Refused if a guardrail refuses it."""
    asked = AskedEdit(story, asking, edit)
    for rule in GUARDRAILS:
        if (refusal := rule(asked)) is not None:
            raise _Refused(refusal, rule, edit)
    edited = _edit_steps(story, edit, request)
    current = edited.step(asking.id)
    # Its agent found something to do: the final review runs again after the steps that do it.
    if asked.added and current.type == "final_review" and current.status == "in_progress":
        edited = edited.with_step(reset(add_usage(current, request.usage)))
    # Ids are those that the new steps get, before the edit has used them up.
    details = _edit_details(edit.operation, story) | {"edit_hash": identity}
    entries: tuple[HistoryEntry, ...] = (
        edit_entry(story, asking.id, edit.name, edit.reason, (story.steps, edited.steps), request.at, **details),
    )
    if isinstance(edit.operation, Skip):
        target = StepId(edit.operation.target)
        entries += (step_entry(story, target, "step_skipped", request.at, reason=edit.reason),)
    return edited.with_history(*entries)


def _edit_steps(story: StoryRecord, edit: StepEdit, request: EditRequest) -> StoryRecord:
    operation = edit.operation
    match operation:
        case AddAfter(target=target, new_steps=new):
            return _with_steps_at(story, target, new, keep=True)
        case Split(target=target, replacement_steps=new):
            return _with_steps_at(story, target, new, keep=False)
        case Reorder(new_order=order):
            # Only pending steps move; the others keep their places.
            following = iter(order)
            steps = tuple(story.step(next(following)) if step.status == "pending" else step for step in story.steps)
            return replace(story, steps=steps)
        case Skip(target=target):
            skipped = replace(story.step(target), status="skipped", completed_at=request.at, skip_reason=edit.reason)
            return story.with_step(skipped)
        case EditDescription(target=target, new_description=text):
            return story.with_step(replace(story.step(target), description=text))
        case Restart(target=target, new_description=text):
            # The usage counts, although what it paid for is discarded.
            step = reset(add_usage(story.step(target), request.usage))
            return story.with_step(replace(step, description=text, restart_count=step.restart_count + 1))
        case _:
            assert_never(operation)


def _with_steps_at(story: StoryRecord, target: str, new: tuple[NewStep, ...], *, keep: bool) -> StoryRecord:
    added = tuple(
        StepRecord(id=step_id, type=step.type, description=step.description)
        for step_id, step in zip(next_ids(story.steps, len(new)), new, strict=True)
    )
    index = [str(step.id) for step in story.steps].index(target)
    return replace(story, steps=(*story.steps[: index + keep], *added, *story.steps[index + 1 :]))


def _edit_details(operation: Operation, story: StoryRecord) -> dict[str, Any]:
    """Return the history's details of an operation, besides its reason and its effect."""
    if isinstance(operation, Reorder):
        return {"new_order": list(operation.new_order)}
    details: dict[str, Any] = {"target_step_id": operation.target}
    if added := added_steps(operation):
        key = "new_steps" if isinstance(operation, AddAfter) else "replacement_steps"
        ids = next_ids(story.steps, len(added))
        details[key] = [
            {"id": step_id, "type": step.type, "description": step.description}
            for step_id, step in zip(ids, added, strict=True)
        ]
    if isinstance(operation, EditDescription | Restart):
        details["new_description"] = operation.new_description
    return details
