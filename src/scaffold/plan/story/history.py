"""Entries of a story's history."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from scaffold.plan.story.record import HistoryAction, HistoryEntry, StepId, StepRecord, StoryRecord

StepsBeforeAfter = tuple[Sequence[StepRecord], Sequence[StepRecord]]


def story_entry(story: StoryRecord, action: HistoryAction, at: datetime, **details: str) -> HistoryEntry:
    """Return an entry about the story as a whole."""
    return HistoryEntry(timestamp=at, action=action, agent_id=story.agent_id, details=details)


def step_entry(story: StoryRecord, step: StepId, action: HistoryAction, at: datetime, **details: str) -> HistoryEntry:
    """Return an entry about one of its steps."""
    return HistoryEntry(timestamp=at, action=action, agent_id=story.agent_id, step_id=step, details=details)


def edit_entry(
    story: StoryRecord,
    step: StepId | None,
    operation: str,
    reason: str,
    steps: StepsBeforeAfter,
    at: datetime,
    **more: Any,
) -> HistoryEntry:
    """Return an entry about an edit of the workflow, with the steps that it changed, before and after.

    `step` is the one whose agent asked for it; None if it was not an agent. `more` are JSON values.
    """
    before, after = _changed(*steps)
    details = {"operation": operation, "reason": reason, **more, "before": before, "after": after}
    return HistoryEntry(timestamp=at, action="workflow_edit", agent_id=story.agent_id, step_id=step, details=details)


def log_line(story_id: str, entry: HistoryEntry) -> str:
    """Return an entry as a line of the orchestrator's log: a JSON object."""
    line = {
        "ts": entry.timestamp,
        "agent_id": entry.agent_id,
        "story_id": story_id,
        "step_id": entry.step_id,
        "event": entry.action,
    }
    return msgspec.json.encode(line).decode()


def _changed(
    before: Sequence[StepRecord], after: Sequence[StepRecord]
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the part of both lists that differs, without the steps they begin and end with in common."""
    old, new = [_shown(step) for step in before], [_shown(step) for step in after]
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return old, new


def _shown(step: StepRecord) -> dict[str, str]:
    return {"id": step.id, "type": step.type, "status": step.status, "description": step.description}
