"""The rules for edits of a workflow. Each returns why an edit is refused, and what to do instead; None if it is not.

Three of the eleven are how `apply_edit.py` works: all edits are recorded, all or none of a file are applied, and the
reason of a refusal reaches the next step.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.story.record import StepRecord, StoryRecord, next_ids
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
)
from scaffold.plan.story.step_type import MANDATORY, NOT_REQUESTED, STEP_TYPES

MAX_STEPS = 30
"""Of every status, in one story."""
MAX_RESTARTS = 3
"""Of one step. Another request for a restart fails the step, and its story with it."""


class EditRefusal(Struct, frozen=True):
    """Why an edit is refused, and what to do instead."""

    what: str
    fix: str


class AskedEdit(Struct, frozen=True):
    """An edit with its context: the story at that time, and the step whose agent asks."""

    story: StoryRecord
    asking: StepRecord
    edit: StepEdit

    @property
    def target(self) -> StepRecord | None:
        """The step that the edit is about; None if it names none, or one that does not exist."""
        operation = self.edit.operation
        return None if isinstance(operation, Reorder) else self.story.find(operation.target)

    @property
    def added(self) -> tuple[NewStep, ...]:
        """The steps that the edit adds."""
        return added_steps(self.edit.operation)


Guardrail = Callable[[AskedEdit], EditRefusal | None]


def added_steps(operation: Operation) -> tuple[NewStep, ...]:
    """Return the steps that the operation adds."""
    match operation:
        case AddAfter(new_steps=steps) | Split(replacement_steps=steps):
            return steps
        case Skip() | Reorder() | EditDescription() | Restart():
            return ()
        case _:
            assert_never(operation)


def editing_is_permitted(asked: AskedEdit) -> EditRefusal | None:
    """Refuse every edit from a step whose type does not permit them."""
    if STEP_TYPES[asked.asking.type].may_edit:
        return None
    allowed = quoted_list([each for each, definition in STEP_TYPES.items() if definition.may_edit])
    fix = f"Write what you found into your summary; a later step can edit the workflow ({allowed})."
    return EditRefusal(f"a step of type `{asked.asking.type}` may not edit the workflow", fix)


def only_own_story(asked: AskedEdit) -> EditRefusal | None:
    """Refuse an edit that names another story."""
    if asked.edit.story in {None, asked.story.story_id}:
        return None
    what = f"it is about the story {quoted(str(asked.edit.story))}, and you work on `{asked.story.story_id}`"
    return EditRefusal(what, "Edit your own story only; write what others should know into `scratch.md`.")


def target_exists(asked: AskedEdit) -> EditRefusal | None:
    """Refuse an edit about a step that the story does not have."""
    operation = asked.edit.operation
    # Reorder names all pending steps, which its own rule checks.
    if isinstance(operation, Reorder) or asked.target is not None:
        return None
    ids = [step.id for step in asked.story.steps]
    return EditRefusal(
        f"there is no step {quoted(operation.target)}",
        f"{SpellingHints(ids).hint(operation.target)}The steps are {ids[0]} to {ids[-1]}, in their order."
        if ids
        else "The story has no steps.",
    )


def mandatory_steps_stay(asked: AskedEdit) -> EditRefusal | None:
    """Refuse to skip or replace a step of a mandatory type."""
    target = asked.target
    if target is None or target.type not in MANDATORY:
        return None
    match asked.edit.operation:
        case Skip():
            return EditRefusal(f"`{target.id}` is of type `{target.type}`, which cannot be skipped", "Leave it in.")
        # A replacement of the same type keeps the workflow complete.
        case Split(replacement_steps=steps) if target.type not in {step.type for step in steps}:
            return EditRefusal(
                f"`{target.id}` is of type `{target.type}`, and none of its replacements is",
                "Leave it in, and add other steps before it with `add_after`.",
            )
        case _:
            return None


def only_pending_steps_change(asked: AskedEdit) -> EditRefusal | None:
    """Refuse to change a step that has begun; only the current one can be restarted, by its own agent."""
    target, operation = asked.target, asked.edit.operation
    if target is None or not isinstance(operation, Restart | Split | Skip | EditDescription):
        return None
    own = target.id == asked.asking.id
    if isinstance(operation, Restart):
        if own and target.status == "in_progress":
            return None
        if own:
            return EditRefusal(f"`{target.id}` is pending again by an edit before this one", "Restart it once only.")
        fix = f"Restart your own step `{asked.asking.id}`, or use `edit_description` for a pending one."
        return EditRefusal(f"`{target.id}` is {target.status} and not the step you work on", fix)
    if not own and target.status == "pending":
        return None
    # Its own step may be pending again by a restart before this edit.
    use = "Use `restart` for your own step" if own else "Add a new step instead"
    return EditRefusal(f"`{target.id}` is {target.status}; only pending steps can be changed", f"{use}.")


def final_review_stays_last(asked: AskedEdit) -> EditRefusal | None:
    """Refuse steps after the final review, and another one; a running one gets new steps before itself."""
    last = asked.target
    if last is not None and last.type == "final_review" and isinstance(asked.edit.operation, AddAfter):
        # The step before it is named, because that is where the agent has to add.
        before = asked.story.steps[-2:-1]
        where = f"`{before[0].id}`, the step before it" if before else "a step before it"
        return EditRefusal(f"nothing comes after the final review `{last.id}`", f"Add the steps after {where}.")
    wrong = next((step.type for step in asked.added if step.type in NOT_REQUESTED), None)
    if wrong is None:
        return None
    fix = (
        "Add `review` steps for more reviews." if wrong == "final_review" else "Conflicts get their step by themselves."
    )
    return EditRefusal(f"a step of type `{wrong}` cannot be added", fix)


def ids_are_given_by_us(asked: AskedEdit) -> EditRefusal | None:
    """Refuse new steps with other ids than the next ones."""
    given = zip(asked.added, next_ids(asked.story.steps, len(asked.added)), strict=True)
    # Ids that an agent guesses would collide with another edit's.
    wrong = next(((step.id, own) for step, own in given if step.id not in {None, own}), None)
    if wrong is None:
        return None
    what = f"the new step {quoted(str(wrong[0]))} would get the id `{wrong[1]}`"
    return EditRefusal(what, "Leave `id` out of new steps: they get the next numbers.")


def at_most_30_steps(asked: AskedEdit) -> EditRefusal | None:
    """Refuse more than MAX_STEPS steps of every status."""
    replaced = isinstance(asked.edit.operation, Split)
    steps = len(asked.story.steps) - replaced + len(asked.added)
    if not asked.added or steps <= MAX_STEPS:
        return None
    # Replaced steps make room, as they leave the list.
    left = max(0, MAX_STEPS - len(asked.story.steps) + replaced)
    what = f"the workflow would have {steps} steps; the limit is {MAX_STEPS}, completed and skipped ones included"
    return EditRefusal(
        what, f"Add at most {count_of(left, 'step')} here, or put the work into pending steps' descriptions."
    )


def at_most_3_restarts(asked: AskedEdit) -> EditRefusal | None:
    """Refuse a further restart of a step that was restarted MAX_RESTARTS times."""
    target = asked.target
    # Those that were asked for: a step also begins again if its process was lost.
    if (
        not isinstance(asked.edit.operation, Restart)
        or target is None
        or len(asked.story.restart_reasons(target.id)) < MAX_RESTARTS
    ):
        return None
    what = f"`{target.id}` was restarted {MAX_RESTARTS} times already; it fails now, and its story with it"
    return EditRefusal(what, "Describe in your answer what stands in the way; a user can retry the story.")


def order_is_complete(asked: AskedEdit) -> EditRefusal | None:
    """Refuse an order that is not one of all pending steps, or in which the final review is not the last."""
    if not isinstance(asked.edit.operation, Reorder):
        return None
    order, pending = asked.edit.operation.new_order, {str(step.id): step for step in asked.story.pending}
    unknown = [each for each in order if each not in pending]
    # Both directions: a forgotten step would otherwise lose its place.
    missing = [each for each in pending if each not in order]
    if unknown or missing:
        not_pending = f"{quoted(unknown[0])} is not pending" if unknown else f"`{missing[0]}` is missing"
        fix = f"Name each of these once: {', '.join(pending) or 'no step is pending'}."
        return EditRefusal(f"the order must have all pending steps and no others, and {not_pending}", fix)
    misplaced = next((each for each in order[:-1] if pending[each].type == "final_review"), None)
    if misplaced is None:
        return None
    return EditRefusal(f"the final review `{misplaced}` must be the last step", f"Put `{misplaced}` at the end.")


GUARDRAILS: tuple[Guardrail, ...] = (
    editing_is_permitted,
    only_own_story,
    target_exists,
    mandatory_steps_stay,
    only_pending_steps_change,
    final_review_stays_last,
    ids_are_given_by_us,
    at_most_30_steps,
    at_most_3_restarts,
    order_is_complete,
)
"""In the order in which an edit is judged; the first refusal counts."""
