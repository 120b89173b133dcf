"""What becomes of the edits that a step's agent asks for, on the story as it is stored."""

from datetime import datetime

from msgspec import Struct

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import Action, Attempt
from scaffold.plan.story.apply_edit import EditOutcome, EditRequest, EditsApplied, EditsRejected, apply_file
from scaffold.plan.story.record import StoryRecord
from scaffold.run.shared_notes import EDITS
from scaffold.store.database import Store
from scaffold.views.story_record import step_id, story_record


class JudgedEdits(Struct, frozen=True, kw_only=True):
    """A story before the edits of one of its steps, and what becomes of these."""

    step: Action
    before: StoryRecord
    outcome: EditOutcome

    @property
    def repeats_step(self) -> bool:
        """Whether the step itself is to be executed again: it began again, or added steps before itself."""
        applied = self.outcome.story if isinstance(self.outcome, EditsApplied) else None
        return applied is not None and applied.step(step_id(self.step)).status == "pending"


def judge_edits(store: Store, story: Action, step: Action, attempt: Attempt, text: str, at: datetime) -> JudgedEdits:
    """Return what becomes of edits that an attempt at `step` of `story` asks for; nothing is stored."""
    request = EditRequest(
        step_id=step_id(step), attempt=attempt.id, name=f"{EDITS}/{story.key}.json", at=at, usage=attempt.usage
    )
    before = story_record(store, story)
    try:
        outcome = apply_file(before, request, text.encode())
    except (IllegalTransition, UsageError) as error:  # whatever an agent asks for, it ends no run
        outcome = EditsRejected(f"## The workflow edits of {request.step_id} were rejected\n- {error.in_full}")
    return JudgedEdits(step=step, before=before, outcome=outcome)
