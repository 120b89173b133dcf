"""Transitions of steps and stories: total functions from a record and a change to the next record."""

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import IllegalTransition
from scaffold.core.ids import Commit
from scaffold.core.model import Usage
from scaffold.core.states import Transitions
from scaffold.plan.story.history import edit_entry, step_entry, story_entry
from scaffold.plan.story.record import (
    HistoryEntry,
    StepId,
    StepRecord,
    StepStatus,
    StoryRecord,
    StoryStatus,
    default_workflow,
)

MAX_RESTARTS = 3
"""Of one step; one more request, or one more crash, fails it."""
ORPHANED = "orchestrator restart — agent not found"
"""The error of a step whose process ended without a recorded result."""


class StartStep(Struct, frozen=True, kw_only=True):
    """An agent begins; `commit` is where the worktree is reset to if the step fails or is restarted."""

    at: datetime
    commit: Commit
    log_file: str


class CompleteStep(Struct, frozen=True, kw_only=True):
    """The exit criteria are met; `notes` are the summary."""

    at: datetime
    notes: str
    usage: Usage


class FailStep(Struct, frozen=True, kw_only=True):
    """The step failed, and its story with it."""

    at: datetime
    error: str
    usage: Usage


class CancelStep(Struct, frozen=True, kw_only=True):
    """The step was ended from outside, e.g. by its timeout, and its story failed with it."""

    at: datetime
    error: str
    usage: Usage


class SkipStep(Struct, frozen=True, kw_only=True):
    """The step is not needed."""

    at: datetime
    reason: str


class RestartStep(Struct, frozen=True, kw_only=True):
    """The step is executed again with another description; beyond MAX_RESTARTS it fails instead."""

    at: datetime
    reason: str
    description: str
    usage: Usage


class LoseStep(Struct, frozen=True, kw_only=True):
    """The step's process is gone without a result: it is executed again, which counts as a restart."""

    at: datetime


class RetryStep(Struct, frozen=True, kw_only=True):
    """The user wants a failed or cancelled step to be executed again."""


ExecutionChange = StartStep | CompleteStep | FailStep | CancelStep | LoseStep
"""What executing a step brings about; agents ask for skips and restarts in their edits, users for a retry."""
StepChange = ExecutionChange | SkipStep | RestartStep | RetryStep


class ClaimStory(Struct, frozen=True, kw_only=True):
    """An agent starts on the story; it gets the default workflow if it has no steps yet."""

    at: datetime
    agent_id: int


class CompleteStory(Struct, frozen=True, kw_only=True):
    """The story's work has landed."""

    at: datetime


class FailStory(Struct, frozen=True, kw_only=True):
    """The story failed outside of its steps, e.g. because it cannot land."""

    at: datetime
    error: str


class BlockStory(Struct, frozen=True, kw_only=True):
    """A story that it depends on, directly or not, has failed."""


class UnblockStory(Struct, frozen=True, kw_only=True):
    """All stories that it depends on are completed after all."""


class RetryStory(Struct, frozen=True, kw_only=True):
    """The user wants a failed story to go on at the step that failed."""

    at: datetime


StoryChange = ClaimStory | CompleteStory | FailStory | BlockStory | UnblockStory | RetryStory

STEP_TRANSITIONS: Transitions = {
    "pending": frozenset({"in_progress", "failed", "cancelled"}),
    "in_progress": frozenset({"pending"}),
    "completed": frozenset({"in_progress"}),
    "skipped": frozenset({"pending"}),
    "failed": frozenset({"in_progress"}),
    "cancelled": frozenset({"in_progress"}),
}
"""Each status with those it may be reached from: `pending` by a restart, or from a failure by the user's retry."""
STORY_TRANSITIONS: Transitions = {
    "unclaimed": frozenset({"blocked", "failed"}),
    "in_progress": frozenset({"unclaimed"}),
    "completed": frozenset({"in_progress"}),
    "failed": frozenset({"in_progress"}),
    "blocked": frozenset({"unclaimed"}),
}

_STEP: Mapping[type[StepChange], tuple[StepStatus, frozenset[str]]] = {
    StartStep: ("in_progress", STEP_TRANSITIONS["in_progress"]),
    CompleteStep: ("completed", STEP_TRANSITIONS["completed"]),
    FailStep: ("failed", STEP_TRANSITIONS["failed"]),
    CancelStep: ("cancelled", STEP_TRANSITIONS["cancelled"]),
    SkipStep: ("skipped", STEP_TRANSITIONS["skipped"]),
    RestartStep: ("pending", STEP_TRANSITIONS["pending"] & {"in_progress"}),
    LoseStep: ("pending", STEP_TRANSITIONS["pending"] & {"in_progress"}),
    RetryStep: ("pending", STEP_TRANSITIONS["pending"] - {"in_progress"}),
}
_STORY: Mapping[type[StoryChange], tuple[StoryStatus, frozenset[str]]] = {
    ClaimStory: ("in_progress", STORY_TRANSITIONS["in_progress"]),
    CompleteStory: ("completed", STORY_TRANSITIONS["completed"]),
    FailStory: ("failed", STORY_TRANSITIONS["failed"]),
    BlockStory: ("blocked", STORY_TRANSITIONS["blocked"]),
    UnblockStory: ("unclaimed", STORY_TRANSITIONS["unclaimed"] & {"blocked"}),
    RetryStory: ("unclaimed", STORY_TRANSITIONS["unclaimed"] & {"failed"}),
}


def step_after(step: StepRecord, change: StepChange) -> StepRecord:
    """Return the step after the change; IllegalTransition, which names both statuses, if it is not possible."""
    to, sources = _STEP[type(change)]
    _check(f"step `{step.id}`", step.status, to, sources)
    match change:
        case StartStep(at=at, commit=commit, log_file=log):
            changed = replace(step, started_at=at, git_sha_at_start=commit, log_file=log)
        case CompleteStep(at=at, notes=notes, usage=usage):
            changed = replace(spent(step, usage), completed_at=at, notes=notes)
        case FailStep(at=at, error=error, usage=usage) | CancelStep(at=at, error=error, usage=usage):
            changed = replace(spent(step, usage), completed_at=at, error=error)
        case SkipStep(at=at, reason=reason):
            changed = replace(step, completed_at=at, skip_reason=reason)
        case RestartStep(at=at, reason=reason, description=description, usage=usage):
            return _again(replace(spent(step, usage), description=description), at, reason)
        case LoseStep(at=at):
            return _again(step, at, ORPHANED)
        case RetryStep():
            changed = reset(step)
        case _:
            assert_never(change)
    return replace(changed, status=to)


def story_after(story: StoryRecord, change: StoryChange) -> StoryRecord:
    """Return the story after the change, with its history.

    IllegalTransition, which names both statuses, if it is not possible: a story is completed only when all its steps
    are completed or skipped, and fails by itself only while none is in progress.
    """
    to, sources = _STORY[type(change)]
    _check(f"story `{story.story_id}`", story.status, to, sources)
    moved = replace(story, status=to)
    match change:
        case ClaimStory(at=at, agent_id=agent):
            claimed = replace(moved, agent_id=agent, claimed_at=at, steps=story.steps or default_workflow())
            return with_history(claimed, story_entry(claimed, "story_claimed", at))
        case CompleteStory(at=at):
            _check_steps_ended(story)
            return with_history(replace(moved, completed_at=at), story_entry(story, "story_completed", at))
        case FailStory(at=at, error=error):
            _check_idle(story)
            return with_history(moved, story_entry(story, "story_failed", at, error=error))
        case RetryStory(at=at):
            return _retried(moved, at)
        case BlockStory() | UnblockStory():
            return moved
        case _:
            assert_never(change)


def change_step(story: StoryRecord, step_id: StepId, change: ExecutionChange) -> StoryRecord:
    """Return the story after a change of one of its steps, with its history; a failed or cancelled step fails it.

    IllegalTransition if the story is not in progress, if the step cannot change so, or if another one is to start
    first; UsageError if there is no such step.
    """
    step = story.step(step_id)
    if story.status != "in_progress":
        what = (
            f"story `{story.story_id}` is {story.status}; its step `{step_id}` cannot become {_STEP[type(change)][0]}"
        )
        raise IllegalTransition(what, "Claim the story first; if it failed, retry it before that.")
    if isinstance(change, StartStep):
        _check_order(story, step)
    changed = step_after(step, change)
    after = with_history(with_step(story, changed), _entry(story, changed, change))
    if changed.status in {"failed", "cancelled"}:
        return story_after(after, FailStory(at=change.at, error=f"{step_id}: {changed.error}"))
    return after


def with_step(story: StoryRecord, changed: StepRecord) -> StoryRecord:
    """Return the story with this step in place of the one with the same id."""
    return replace(story, steps=tuple(changed if each.id == changed.id else each for each in story.steps))


def reset(step: StepRecord) -> StepRecord:
    """Return the step as one that has not started; what it cost and how often it was restarted stay."""
    return replace(
        step,
        status="pending",
        started_at=None,
        completed_at=None,
        git_sha_at_start=None,
        notes=None,
        error=None,
        log_file=None,
    )


def spent(step: StepRecord, usage: Usage) -> StepRecord:
    """Return the step with the usage of one more execution."""
    before = Usage(
        input_tokens=step.input_tokens or 0,
        output_tokens=step.output_tokens or 0,
        # An unknown price stays unknown; a step without tokens has not cost anything yet.
        cost_usd=0.0 if step.input_tokens is None else step.cost_usd,
    )
    total = before + usage
    return replace(step, cost_usd=total.cost_usd, input_tokens=total.input_tokens, output_tokens=total.output_tokens)


def with_history(story: StoryRecord, *entries: HistoryEntry) -> StoryRecord:
    """Return the story with more entries at the end of its history."""
    return replace(story, history=(*story.history, *entries))


def _check(what: str, status: str, to: str, sources: frozenset[str]) -> None:
    if status not in sources:
        fix = f"It becomes {to} only from {' or '.join(sorted(sources))}."
        raise IllegalTransition(f"{what} is {status} and cannot become {to}", fix)


def _check_order(story: StoryRecord, step: StepRecord) -> None:
    first = story.current or story.next_step
    if step.status == "pending" and first is not None and first.id != step.id:
        what = f"step `{step.id}` is pending and cannot become in_progress: `{first.id}` is {first.status} before it"
        raise IllegalTransition(what, "The steps of a story are executed one after the other, in their order.")


def _check_idle(story: StoryRecord) -> None:
    if story.current is not None:
        what = (
            f"story `{story.story_id}` is {story.status} and cannot become failed: `{story.current.id}` is in_progress"
        )
        raise IllegalTransition(what, "Fail or cancel this step instead; the story fails with it.")


def _check_steps_ended(story: StoryRecord) -> None:
    left = next((step for step in story.steps if step.status not in {"completed", "skipped"}), None)
    if left is not None:
        what = (
            f"story `{story.story_id}` is {story.status} and cannot become completed: step `{left.id}` is {left.status}"
        )
        raise IllegalTransition(what, "Complete or skip all its steps first.")


def _again(step: StepRecord, at: datetime, reason: str) -> StepRecord:
    if step.restart_count >= MAX_RESTARTS:
        error = f"was restarted {MAX_RESTARTS} times already: {reason}"
        return replace(step, status="failed", completed_at=at, error=error)
    return replace(reset(step), restart_count=step.restart_count + 1)


def _entry(story: StoryRecord, after: StepRecord, change: ExecutionChange) -> HistoryEntry:
    match change:
        case StartStep(at=at):
            return step_entry(story, after.id, "step_started", at)
        case CompleteStep(at=at):
            return step_entry(story, after.id, "step_completed", at)
        case CancelStep(at=at, error=error):
            return step_entry(story, after.id, "step_cancelled", at, error=error)
        case FailStep(at=at, error=error):
            return step_entry(story, after.id, "step_failed", at, error=error)
        case LoseStep(at=at):
            return step_entry(story, after.id, "step_failed", at, error=after.error or ORPHANED)
        case _:
            assert_never(change)


def _retried(story: StoryRecord, at: datetime) -> StoryRecord:
    """Return the story, already unclaimed, with its failed and cancelled steps pending again."""
    steps = tuple(
        step_after(step, RetryStep()) if step.status in {"failed", "cancelled"} else step for step in story.steps
    )
    entry = edit_entry(story, None, "retry", "the user retried the story", (story.steps, steps), at)
    return with_history(replace(story, agent_id=None, claimed_at=None, steps=steps), entry)
