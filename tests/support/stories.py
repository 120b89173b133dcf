"""Stories for tests: records in a given place of their workflow, and edits of them."""

import json
from datetime import datetime, timedelta, timezone

from scaffold.core.model import Usage
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.actions import new_record
from scaffold.plan.story.apply_edit import EditRequest, apply_file
from scaffold.plan.story.record import StoryRecord
from scaffold.plan.story.transitions import ClaimStory, CompleteStep, StartStep, change_step, story_after

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)  # noqa: UP017 # the same on all supported versions
USAGE = Usage(input_tokens=1000, output_tokens=100, cost_usd=0.5, requests=1)
COMMIT = "a" * 40


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def story(story_id: str = "US-001", **fields) -> SourceTask:
    return SourceTask(**({"id": story_id, "title": f"Story {story_id}"} | fields))


def claimed(story_id: str = "US-001", **fields) -> StoryRecord:
    """Return the record of a story that agent 7 has just claimed."""
    return story_after(new_record(story(story_id, **fields)), ClaimStory(at=NOON, agent_id=7))


def start(record: StoryRecord, step_id: str) -> StoryRecord:
    return change_step(record, step_id, StartStep(at=at(1), commit=COMMIT, log_file=f"logs/{step_id}.jsonl"))


def complete(record: StoryRecord, step_id: str, notes: str = "done") -> StoryRecord:
    return change_step(record, step_id, CompleteStep(at=at(2), notes=notes, usage=USAGE))


def working_on(step_id: str, record: StoryRecord | None = None) -> StoryRecord:
    """Return a story whose steps before `step_id` are completed, and which works on this one."""
    record = record or claimed()
    while (following := record.next_step) is not None:
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
