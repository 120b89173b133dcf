"""A story and its steps as actions of the plan, and the statuses of both as the workflow state names them."""

from collections.abc import Iterator
from typing import assert_never

from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec
from scaffold.core.states import (
    ActionState,
    AttemptOutcome,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Landing,
    Pending,
    Running,
    Skipped,
    Verifying,
)
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.record import StepId, StepStatus, StoryRecord, StoryStatus

# The statuses of steps that have begun and were not given up, in the order in which they began.
_EXECUTED: tuple[StepStatus, ...] = ("skipped", "completed", "in_progress")
ENDED_FROM_OUTSIDE: frozenset[AttemptOutcome] = frozenset({"timeout", "cancelled"})
"""Outcomes with which a failed step counts as cancelled."""


def step_key(story: str, step: StepId) -> ActionKey:
    """Return the key of a step's action, e.g. `US-001/step-005`."""
    return ActionKey(f"{story}/{step}")


def new_record(story: SourceTask) -> StoryRecord:
    """Return the record of a story that has not started."""
    return StoryRecord(story_id=story.id, title=story.title, depends_on=story.depends_on)


def story_action(story: SourceTask) -> ActionSpec:
    """Return the story as a compound that needs the stories it depends on, and makes `done:<story>` true."""
    return ActionSpec(
        key=story.id,
        title=" ".join(story.title.split()),
        description=story.description,
        acceptance=story.acceptance,
        notes=story.notes,
        kind="compound",
        method="story",
        preconditions=tuple(map(done_assertion, story.depends_on)),
        effects=(done_assertion(story.id),),
    )


def step_actions(record: StoryRecord) -> Iterator[ActionSpec]:
    """Yield the steps as primitives in the story's worktree, each after the one that it needs.

    Those that have not begun follow each other in their order, and the first of them follows all that have: a step that
    was added after an ended one is the next. One that failed or was cancelled stays where it is among them, so that
    none after it begins. Their role is their type. Skipped steps are left out: nothing waits for them. The last one,
    the final review, lands the work of all: it makes `done:<story>` true.
    """
    before = None
    # Steps that have begun come first, in the order in which they began; the others follow in the workflow's order.
    order = {status: place for place, status in enumerate(_EXECUTED)}
    for step in sorted(record.steps, key=lambda each: order.get(each.status, len(order))):
        if step.status == "skipped":
            continue
        key = step_key(record.story_id, step.id)
        # The last step lands the work of all of them, so it makes the story itself true.
        of = record.story_id if step is record.steps[-1] else key
        yield ActionSpec(
            key=key,
            description=step.description,
            method="story",
            workspace="parent",
            role=step.type,
            parent=record.story_id,
            preconditions=(done_assertion(before),) if before else (),
            effects=(done_assertion(of),),
        )
        before = key


def step_status(state: ActionState, outcome: AttemptOutcome | None = None) -> StepStatus:
    """Return a step's status for the state of its action and the outcome of its last attempt, None without one."""
    match state:
        case Pending() | Blocked():
            return "pending"
        case Running() | Verifying() | Landing():
            return "in_progress"
        case Completed():
            return "completed"
        case Skipped():
            return "skipped"
        case Failed():
            # A step that was stopped from outside has not failed, and a retry continues it.
            return "cancelled" if outcome in ENDED_FROM_OUTSIDE else "failed"
        case Cancelled():
            return "cancelled"
        case _:
            assert_never(state)


def story_status(state: ActionState) -> StoryStatus:
    """Return a story's status for the state of its compound; one that was skipped or cancelled counts as failed."""
    match state:
        case Pending():
            return "unclaimed"
        case Running() | Verifying() | Landing():
            return "in_progress"
        case Completed():
            return "completed"
        case Blocked():
            return "blocked"
        case Failed() | Skipped() | Cancelled():
            return "failed"
        case _:
            assert_never(state)
