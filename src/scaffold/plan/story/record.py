"""Records of a story and its steps, with the fields and names of `workflow_state.json`."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NewType

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from scaffold.core.errors import UsageError
from scaffold.core.ids import ActionKey
from scaffold.core.model import Usage
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW, STEP_TYPES, StepType

StepId = NewType("StepId", str)
"""`step-NNN`, unique within its story; a later step has a larger number, wherever it stands."""
StepStatus = Literal["pending", "in_progress", "completed", "skipped", "failed", "cancelled"]
StoryStatus = Literal["unclaimed", "in_progress", "completed", "failed", "blocked"]

HistoryAction = Literal[
    "step_started",
    "step_completed",
    "step_failed",
    "step_cancelled",
    "step_skipped",
    "workflow_edit",
    "story_claimed",
    "story_completed",
    "story_failed",
]

Time = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0)]
STEP_ID = re.compile(r"step-([0-9]{3,9})")


class StepRecord(Struct, frozen=True, kw_only=True):
    """A step of a story: one execution of an agent, or several if it is restarted."""

    id: StepId
    type: StepType
    status: StepStatus = "pending"
    description: str
    started_at: Time | None = None
    completed_at: Time | None = None
    """When it ended, however it did."""
    git_sha_at_start: str | None = None
    notes: str | None = None
    """The summary of its agent's answer, which later steps read."""
    error: str | None = None
    skip_reason: str | None = None
    restart_count: Count = 0
    cost_usd: float | None = None
    """Of all its executions, as are the tokens; None before the first, and if a price is unknown."""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    log_file: str | None = None


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """Something that happened to a story or to one of its steps."""

    timestamp: Time
    action: HistoryAction
    agent_id: int | None
    step_id: StepId | None = None
    details: Mapping[str, Any] = {}


class StoryRecord(Struct, frozen=True, kw_only=True):
    """A story with its steps, in the order in which they are worked."""

    story_id: ActionKey
    title: str
    status: StoryStatus = "unclaimed"
    agent_id: int | None = None
    claimed_at: Time | None = None
    completed_at: Time | None = None
    depends_on: tuple[ActionKey, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    history: tuple[HistoryEntry, ...] = ()

    @property
    def current(self) -> StepRecord | None:
        """The step that is in progress; None if none is."""
        return next((step for step in self.steps if step.status == "in_progress"), None)

    @property
    def pending(self) -> tuple[StepRecord, ...]:
        """The steps that have not started, in order."""
        return tuple(step for step in self.steps if step.status == "pending")

    def restart_reasons(self, step_id: StepId) -> tuple[str, ...]:
        """Return why the step's agents asked to begin again, each time."""
        asked = (entry.details for entry in self.history if entry.details.get("operation") == "restart")
        return tuple(str(each.get("reason")) for each in asked if each.get("target_step_id") == step_id)

    def with_step(self, changed: StepRecord) -> "StoryRecord":
        """Return the story with this step in place of the one with the same id."""
        return replace(self, steps=tuple(changed if each.id == changed.id else each for each in self.steps))

    def with_history(self, *entries: HistoryEntry) -> "StoryRecord":
        """Return the story with more entries at the end of its history."""
        return replace(self, history=(*self.history, *entries))

    def step(self, step_id: str) -> StepRecord:
        """Return the step with this id; UsageError if there is none."""
        found = self.find(step_id)
        if found is None:
            ids = quoted_list([step.id for step in self.steps]) or "none yet"
            raise UsageError(f"story `{self.story_id}` has no step {quoted(step_id)}", f"Name one of its steps: {ids}.")
        return found

    def find(self, step_id: str) -> StepRecord | None:
        """Return the step with this id; None if there is none."""
        return next((step for step in self.steps if step.id == step_id), None)


StepsBeforeAfter = tuple[Sequence[StepRecord], Sequence[StepRecord]]


def default_workflow() -> tuple[StepRecord, ...]:
    """Return the steps of a story that is claimed for the first time: step-001 to step-010."""
    return tuple(
        StepRecord(id=_step_id(number), type=each, description=STEP_TYPES[each].description)
        for number, each in enumerate(DEFAULT_WORKFLOW, 1)
    )


def reset(step: StepRecord) -> StepRecord:
    """Return the step as one that has not started; its costs and its number of restarts stay."""
    # The execution's results are dropped; its cost and its number of restarts stay.
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


def add_usage(step: StepRecord, usage: Usage) -> StepRecord:
    """Return the step with the usage of one more execution."""
    before = Usage(
        input_tokens=step.input_tokens or 0,
        output_tokens=step.output_tokens or 0,
        # An unknown price stays unknown; a step without tokens has not cost anything yet.
        cost_usd=0.0 if step.input_tokens is None else step.cost_usd,
    )
    total = before + usage
    return replace(step, cost_usd=total.cost_usd, input_tokens=total.input_tokens, output_tokens=total.output_tokens)


def next_ids(steps: Sequence[StepRecord], count: int) -> tuple[StepId, ...]:
    """Return `count` new ids of steps: numbers above all in use, so that no id is ever used again."""
    # A step only ever leaves the list for new ones with larger numbers: the largest one in use is the last one given.
    last = max((int(found[1]) for step in steps if (found := STEP_ID.fullmatch(step.id))), default=0)
    return tuple(_step_id(number) for number in range(last + 1, last + 1 + count))


def _step_id(number: int) -> StepId:
    return StepId(f"step-{number:03d}")


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
    old, new = (
        [{"id": each.id, "type": each.type, "status": each.status, "description": each.description} for each in side]
        for side in steps
    )
    # An entry shows what changed, and not the whole workflow twice.
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    details = {"operation": operation, "reason": reason, **more, "before": old, "after": new}
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
