"""Stories for tests: records in a given place of their workflow, and edits of them."""

import json
from datetime import datetime, timedelta, timezone

from msgspec.structs import replace

from scaffold.core.model import Usage
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.actions import new_record
from scaffold.plan.story.apply_edit import EditRequest, apply_file
from scaffold.plan.story.record import (
    StepRecord,
    StoryRecord,
    add_usage,
    default_workflow,
    reset,
    step_entry,
    story_entry,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)  # noqa: UP017 # the same on all supported versions
USAGE = Usage(input_tokens=1000, output_tokens=100, cost_usd=0.5, requests=1)
COMMIT = "a" * 40


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def story(story_id: str = "US-001", **fields) -> SourceTask:
    return SourceTask(**({"id": story_id, "title": f"Story {story_id}"} | fields))


def claimed(story_id: str = "US-001", **fields) -> StoryRecord:
    """Return the record of a story that agent 7 has just claimed."""
    record = replace(
        new_record(story(story_id, **fields)),
        status="in_progress",
        agent_id=7,
        claimed_at=NOON,
        steps=default_workflow(),
    )
    return record.with_history(story_entry(record, "story_claimed", NOON))


def start(record: StoryRecord, step_id: str) -> StoryRecord:
    """Return the story with its next step in progress, as a started attempt shows it."""
    step = replace(
        record.step(step_id),
        status="in_progress",
        started_at=at(1),
        git_sha_at_start=COMMIT,
        log_file=f"logs/{step_id}.jsonl",
    )
    return record.with_step(step).with_history(step_entry(record, step.id, "step_started", at(1)))


def complete(record: StoryRecord, step_id: str, notes: str = "done") -> StoryRecord:
    step = replace(add_usage(record.step(step_id), USAGE), status="completed", completed_at=at(2), notes=notes)
    return record.with_step(step).with_history(step_entry(record, step.id, "step_completed", at(2)))


def lose(record: StoryRecord, step_id: str) -> StoryRecord:
    """Return the story after the process of this step was killed: the step is pending again."""
    step = reset(record.step(step_id))
    again = record.with_step(replace(step, restart_count=step.restart_count + 1))
    return again.with_history(step_entry(record, step.id, "step_failed", at(2)))


def next_step(record: StoryRecord) -> StepRecord | None:
    """Return the first pending step; None while another one is in progress, and without any."""
    return None if record.current else next(iter(record.pending), None)


def working_on(step_id: str, record: StoryRecord | None = None) -> StoryRecord:
    """Return a story whose steps before `step_id` are completed, and which works on this one."""
    record = record or claimed()
    while (following := next_step(record)) is not None:
        record = start(record, following.id)
        if following.id == step_id:
            return record
        record = complete(record, following.id, notes=f"notes of {following.id}")
    raise AssertionError(step_id)


def request(step_id: str, attempt: str = "attempt-1") -> EditRequest:
    return EditRequest(step_id=step_id, attempt=attempt, name="workflow_edits/US-001.json", at=at(3), usage=USAGE)


def apply(record: StoryRecord, step_id: str, *operations, attempt: str = "attempt-1"):
    """Return the outcome of a file with these operations, written by the agent of a step."""
    return apply_file(record, request(step_id, attempt), json.dumps(operations).encode())


def new(kind: str, description: str = "do it", **more) -> dict:
    return {"type": kind, "description": description} | more


def op(operation: str, target: str | None = None, **fields) -> dict:
    """Return an operation as an agent writes it."""
    named = {} if target is None else {"target_step_id": target}
    return {"operation": operation, "reason": "because"} | named | fields


def ids(record: StoryRecord) -> list[str]:
    return [step.id.removeprefix("step-") for step in record.steps]
