"""A story of the plan as a record, read from the store: its steps, their outcomes, and edits that a step asks for."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.ports import NO_USAGE
from scaffold.core.states import ORPHANED_BY_CRASH, AttemptOutcome, Cancelled, Completed, Running, Skipped, reason_of
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.story.actions import ENDED_FROM_OUTSIDE, step_status, story_status
from scaffold.plan.story.apply_edit import EditOutcome, EditRequest, EditsApplied, EditsRejected, apply_file
from scaffold.plan.story.record import HistoryAction, HistoryEntry, StepId, StepRecord, StoryRecord, reset, story_entry
from scaffold.plan.story.step_type import step_type
from scaffold.plan.story.summary import find_summary, last_words
from scaffold.run.shared_notes import EDITS
from scaffold.store.database import Store

RESTARTS: frozenset[AttemptOutcome | None] = frozenset({"restarted", "lost"})
"""Outcomes after which a step begins again, at its first commit."""
ENDINGS: Mapping[AttemptOutcome | None, HistoryAction] = {
    "recorded": "step_completed",
    "landed": "step_completed",
    "timeout": "step_cancelled",
    "cancelled": "step_cancelled",
    **dict.fromkeys(("contract_failed", "gate_failed", "executor_failed", "conflict", "lost"), "step_failed"),
}
"""The history's words for the end of an attempt; other outcomes have no entry."""
DONE_PREFIX = done_assertion("")
ORPHANED = "orchestrator restart — agent not found"
"""The error of a step whose process ended without a recorded result."""


def story_record(store: Store, story: Action) -> StoryRecord:
    """Return the record of a story, which is a compound with the method `story`."""
    attempts = {each: store.attempts.for_action(each.id) for each in store.actions.children(story.id)}
    steps = tuple(_step_record(action, tried) for action, tried in attempts.items())
    begun = [each.started_at for tried in attempts.values() for each in tried if each.started_at is not None]
    ended = [step.completed_at for step in steps if step.completed_at is not None]
    record = StoryRecord(
        story_id=story.key,
        title=story.title,
        status=story_status(story.state) if begun or not isinstance(story.state, Running) else "unclaimed",
        claimed_at=min(begun, default=None),
        completed_at=max(ended, default=None) if isinstance(story.state, Completed) else None,
        depends_on=tuple(type(story.key)(need.removeprefix(DONE_PREFIX)) for need in story.preconditions),
        steps=steps,
    )
    executed = [entry for action, tried in attempts.items() for entry in _attempt_entries(action, tried)]
    edits = store.story_histories.for_story(story.id)
    # In this order where they happened at the same time.
    claimed = [story_entry(record, "story_claimed", record.claimed_at)] if record.claimed_at else []
    completed = [story_entry(record, "story_completed", record.completed_at)] if record.completed_at else []
    happened = [*claimed, *executed, *edits, *completed, *_failure_entries(story, record, executed)]
    return structs.replace(record, history=tuple(sorted(happened, key=lambda entry: entry.timestamp)))


def has_stories(store: Store, run: Run) -> bool:
    """Return whether the run's plan has a story."""
    return any(map(_is_story, store.actions.for_run(run.id)))


def all_stories(store: Store, run: Run, folder: Path) -> tuple[StoryRecord, ...]:
    """Return the records of all stories of a run, in plan order, with numbers for those that were claimed.

    Paths of log files are relative to `folder`, where they are in it.
    """
    records = [story_record(store, each) for each in store.actions.for_run(run.id) if _is_story(each)]
    claimed = sorted((each for each in records if each.claimed_at), key=lambda each: str(each.claimed_at))
    numbers = {each.story_id: number for number, each in enumerate(claimed, 1)}
    stories: list[StoryRecord] = []
    for record in records:
        number = numbers.get(record.story_id)
        logs = [Path(step.log_file) if step.log_file else None for step in record.steps]
        shown = [str(log.relative_to(folder) if log.is_relative_to(folder) else log) if log else None for log in logs]
        steps = (structs.replace(step, log_file=log) for step, log in zip(record.steps, shown, strict=True))
        history = (structs.replace(entry, agent_id=number) for entry in record.history)
        stories.append(structs.replace(record, agent_id=number, steps=tuple(steps), history=tuple(history)))
    return tuple(stories)


def step_id(step: Action) -> StepId:
    """Return the id of a step within its story, e.g. `step-005`."""
    return StepId(step.key.rpartition("/")[2])


def _is_story(action: Action) -> bool:
    return action.method == "story" and action.kind == "compound"


def _failure_entries(story: Action, record: StoryRecord, executed: Sequence[HistoryEntry]) -> Iterator[HistoryEntry]:
    # The failure is the last that happened, with the first step that failed.
    if record.status == "failed":
        step = next((each for each in record.steps if each.status in {"failed", "cancelled"}), None)
        why = f"{step.id}: {step.error or step.status}" if step else reason_of(story.state) or ""
        at = max((story.updated_at, *(entry.timestamp for entry in executed)))
        yield story_entry(record, "story_failed", at, error=why)


def _attempt_entries(step: Action, attempts: Sequence[Attempt]) -> Iterator[HistoryEntry]:
    for attempt in attempts:
        if attempt.started_at is not None:
            yield _step_entry(step, "step_started", attempt.started_at)
        if attempt.ended_at is not None and attempt.outcome in ENDINGS:
            error = {"error": _attempt_error(attempt)} if attempt.error else {}
            yield _step_entry(step, ENDINGS[attempt.outcome], attempt.ended_at, **error)
    # A step that waited when the user stopped it has no attempt that says so.
    if isinstance(step.state, Cancelled) and (not attempts or attempts[-1].outcome not in ENDED_FROM_OUTSIDE):
        yield _step_entry(step, "step_cancelled", step.updated_at)


def _attempt_error(attempt: Attempt) -> str:
    error = attempt.error or ""
    return ORPHANED if error == ORPHANED_BY_CRASH else error


def _step_entry(step: Action, action: HistoryAction, at: datetime, **details: str) -> HistoryEntry:
    return HistoryEntry(timestamp=at, action=action, agent_id=None, step_id=step_id(step), details=details)


def _step_record(action: Action, attempts: Sequence[Attempt]) -> StepRecord:
    last = attempts[-1] if attempts else None
    usage = sum((each.usage for each in attempts), NO_USAGE)
    begun = [each.started_at for each in attempts if each.started_at is not None]
    record = StepRecord(
        id=step_id(action),
        type=step_type(action.role),
        status=step_status(action.state, last.outcome if last else None),
        description=action.description,
        started_at=begun[-1] if begun else None,
        completed_at=last.ended_at if last else None,
        git_sha_at_start=last.start if last else None,
        notes=None if action.result is None else (find_summary(action.result) or last_words(action.result)).notes,
        error=_attempt_error(last) if last and last.error else None,
        skip_reason=reason_of(action.state) if isinstance(action.state, Skipped) else None,
        restart_count=sum(each.outcome in RESTARTS for each in attempts),
        cost_usd=usage.cost_usd if begun else None,
        input_tokens=usage.input_tokens if begun else None,
        output_tokens=usage.output_tokens if begun else None,
        log_file=last.log_file if last else None,
    )
    return reset(record) if record.status == "pending" else record


class JudgedEdits(Struct, frozen=True, kw_only=True):
    """A story before the edits of one of its steps, and their outcome."""

    step: Action
    before: StoryRecord
    outcome: EditOutcome

    @property
    def repeats_step(self) -> bool:
        """Whether the step itself is to be executed again: it began again, or added steps before itself."""
        applied = self.outcome.story if isinstance(self.outcome, EditsApplied) else None
        return applied is not None and applied.step(step_id(self.step)).status == "pending"


def judge_edits(store: Store, story: Action, step: Action, attempt: Attempt, text: str, at: datetime) -> JudgedEdits:
    """Return the outcome of the edits that an attempt at `step` of `story` asks for; nothing is stored."""
    request = EditRequest(
        step_id=step_id(step), attempt=attempt.id, name=f"{EDITS}/{story.key}.json", at=at, usage=attempt.usage
    )
    before = story_record(store, story)
    try:
        outcome = apply_file(before, request, text.encode())
    except (IllegalTransition, UsageError) as error:  # whatever an agent asks for, it ends no run
        outcome = EditsRejected(f"## The workflow edits of {request.step_id} were rejected\n- {error.in_full}")
    return JudgedEdits(step=step, before=before, outcome=outcome)
