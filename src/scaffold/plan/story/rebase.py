"""What becomes of a story whose work conflicts with what landed since it began."""

from datetime import datetime

from msgspec.structs import replace

from scaffold.core.errors import IllegalTransition
from scaffold.core.model import Usage
from scaffold.plan.story.guardrails import MAX_STEPS
from scaffold.plan.story.history import edit_entry
from scaffold.plan.story.record import StepRecord, StoryRecord, next_ids
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.plan.story.transitions import FailStep, FailStory, change_step, reset, spent, story_after, with_history


def with_rebase_step(story: StoryRecord, *, conflict: str, at: datetime, usage: Usage | None = None) -> StoryRecord:
    """Return the story with a `rebase_resolve` step before its final review, which is pending again.

    `conflict` names what conflicts; `usage` is that of a final review whose work did not land, None if it has ended.
    With MAX_STEPS steps already the story fails instead. IllegalTransition unless the story is in progress, and none of
    its steps is but the final review.
    """
    current, final = story.current, story.steps[-1] if story.steps else None
    if story.status != "in_progress" or final is None or current not in {None, final}:
        what = f"story `{story.story_id}` is {story.status}, and a step for conflicts cannot be inserted into it"
        raise IllegalTransition(what, "Insert it into a story in progress, between two of its steps.")
    if len(story.steps) >= MAX_STEPS:
        error = f"its work conflicts with what landed ({conflict}), and it has {MAX_STEPS} steps already"
        if current is None:
            return story_after(story, FailStory(at=at, error=error))
        return change_step(story, current.id, FailStep(at=at, error=error, usage=usage or Usage()))
    (new_id,), kind = next_ids(story.steps, 1), STEP_TYPES["rebase_resolve"]
    added = StepRecord(id=new_id, type="rebase_resolve", description=f"{kind.description}: {conflict}")
    steps = (*story.steps[:-1], added, reset(spent(final, usage) if usage else final))
    reason = f"conflicts with what landed: {conflict}"
    entry = edit_entry(story, None, "add_after", reason, (story.steps, steps), at)
    return with_history(replace(story, steps=steps), entry)
