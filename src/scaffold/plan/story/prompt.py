"""The prompt of a step: its task, its story, and what earlier steps left for it; bounded in size."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.plan import TaskText
from scaffold.core.printable_text import count_of, printable, truncate_text
from scaffold.plan.story.criteria_review import FORM
from scaffold.plan.story.record import StepRecord, StoryRecord
from scaffold.plan.story.step_type import NOT_REQUESTED, STEP_TYPES, StepDefinition
from scaffold.plan.story.summary import MAX_LINES

TITLE_CHARS = 300
DESCRIPTION_CHARS = 16_000
CRITERIA_CHARS = 16_000
"""Of all acceptance criteria together."""
MAX_CRITERIA = 50
"""More are neither shown nor judged."""
JUDGING_STEPS = frozenset({"review", "final_review"})
"""The types of steps that give a verdict on each criterion."""
NOTES_CHARS = 24_000
"""Of all earlier steps together."""
SCRATCH_CHARS = 16_000
"""Of each of the two files."""
FEEDBACK_CHARS = 6_000
COMMANDS_CHARS = 6_000
STEP_LINE_CHARS = 200
_ADDABLE = ", ".join(each for each in STEP_TYPES if each not in NOT_REQUESTED)

SUMMARY_RULE = f"""# How your answer ends
End your answer with a section that later steps read. They see nothing else of it. A line that says SUMMARY, then 3 to
{MAX_LINES} lines: what you did or found, what you decided and why, what is left open."""


class SharedFiles(Struct, frozen=True, kw_only=True):
    """Paths of the files that a story's agent may write besides the repository, as it can open them."""

    scratch: str
    """Of all stories."""
    story_scratch: str
    edits: str = ""
    """Empty if edits of the workflow cannot be asked for."""


class StepContext(Struct, frozen=True, kw_only=True):
    """The context of a step's prompt besides the story and its workflow."""

    files: SharedFiles
    scratch: str = ""
    """The text of the scratch file of all stories."""
    story_scratch: str = ""
    feedback: Sequence[str] = ()
    """Why edits of the previous step were rejected, if the story's scratch file does not say it."""
    commands: Sequence[str] = ()
    """The repository's commands that matter in this step, e.g. lint and tests, from detection or configuration."""
    failure: str = ""
    """The output of such a command that failed before the agent started; empty if it was not run, or passed."""
    instructions: str | None = None
    """The user's own instructions for steps of this type; None means the built-in ones."""


def step_prompt(story: TaskText, record: StoryRecord, step_id: str, context: StepContext) -> str:
    """Return the prompt of a step of the story that `record` is about; UsageError if it has no such step.

    Each part has a limit of its own. Notes are left out from the oldest on, scratch files lose their beginning,
    everything else its middle; a line in its place says so.
    """
    step = record.step(step_id)
    kind = STEP_TYPES[step.type]
    # The task first and the form of the answer last: what is in between may be long.
    parts = [
        _step_section(step, kind, context.instructions),
        _restart_reasons(record, step),
        _story_section(story, record),
        _notes_section(record, step),
        _scratch_section("# Shared notes of all stories", context.scratch, context.files.scratch),
        _scratch_section("# Notes of this story", context.story_scratch, context.files.story_scratch),
        _clipped_section("# Edits that were rejected", "\n\n".join(context.feedback), FEEDBACK_CHARS),
        _clipped_section(
            "# Commands of this repository", "\n".join(f"- {each}" for each in context.commands), COMMANDS_CHARS
        ),
        _clipped_section("# What they printed", context.failure, COMMANDS_CHARS),
        _files_section(context.files),
        _workflow_section(record, step, context.files) if kind.may_edit and context.files.edits else "",
        _criteria_rule(story, step),
        SUMMARY_RULE,
    ]
    return "\n\n".join(part for part in parts if part)


def _step_section(step: StepRecord, kind: StepDefinition, instructions: str | None) -> str:
    text = truncate_text(printable(step.description), DESCRIPTION_CHARS)
    return "\n".join(
        [
            f"# Your step: {step.id} ({step.type})",
            text,
            "",
            f"You receive: {kind.receives}.",
            f"You produce: {kind.produces}.",
            f"The step is done when {kind.done_when}.",
            "",
            # A user's own instructions replace the built-in ones as a whole.
            (kind.instructions if instructions is None else instructions).strip(),
        ]
    )


def _restart_reasons(record: StoryRecord, step: StepRecord) -> str:
    """Return why the step is executed again, the latest reason last."""
    reasons = [f"- {printable(reason)}" for reason in record.restart_reasons(step.id)]
    # Without the reasons the agent would take the same way again.
    heading = f"# This step was restarted {count_of(step.restart_count, 'time')}; what it had changed was discarded"
    return _clipped_section(heading, "\n".join(reasons), FEEDBACK_CHARS) if step.restart_count else ""


def _story_section(story: TaskText, record: StoryRecord) -> str:
    title = truncate_text(printable(" ".join(record.title.split())), TITLE_CHARS)
    lines = [f"# The story: {record.story_id} {title}"]
    paragraphs = (story.description, story.verification_intent, story.notes)
    lines += [truncate_text(printable(each), DESCRIPTION_CHARS) for each in paragraphs if each.strip()]
    if story.acceptance:
        # Each gets the same share, so that one long criterion does not hide the others.
        share = CRITERIA_CHARS // min(len(story.acceptance), MAX_CRITERIA)
        texts = [truncate_text(printable(each), share) for each in story.acceptance[:MAX_CRITERIA]]
        lines += ["", "Acceptance criteria:", *(f"{number}. {each}" for number, each in enumerate(texts, 1))]
        if (more := len(story.acceptance) - MAX_CRITERIA) > 0:
            lines.append(f"(... and {count_of(more, 'more criterion', 'more criteria')} in the PRD.)")
    return "\n".join(lines)


def _notes_section(record: StoryRecord, step: StepRecord) -> str:
    """Return the notes of the completed steps in their order; the oldest are left out if they are too long."""
    written = [each for each in record.steps if each.status == "completed" and each.notes and each.id != step.id]
    shown: list[str] = []
    left = NOTES_CHARS
    # From the newest on: what was decided last counts most.
    for each in reversed(written):
        text = f"## {each.id} ({each.type})\n{printable(each.notes or '')}"
        if len(text) > left and shown:
            break
        shown.insert(0, truncate_text(text, NOTES_CHARS))
        left -= len(text)
    if not shown:
        return ""
    omitted = [str(each.id) for each in written[: len(written) - len(shown)]]
    note = [f"(The notes of {', '.join(omitted)} are left out for their length.)"] if omitted else []
    return "\n\n".join(["# Notes of earlier steps", *note, *shown])


def _scratch_section(heading: str, text: str, path: str) -> str:
    """Return the end of a scratch file under its heading; what was written first is left out."""
    if not text.strip():
        return ""
    whole = printable(text).strip()
    # The end of the file: what was written last counts most.
    kept = whole[-SCRATCH_CHARS:]
    omitted = len(whole) - len(kept)
    note = f"(The first {omitted:,} characters are left out; they are in the file.)\n" if omitted else ""
    return f"{heading} ({path})\n{note}{kept}"


def _clipped_section(heading: str, text: str, limit: int) -> str:
    return f"{heading}\n{truncate_text(printable(text), limit)}" if text.strip() else ""


def _files_section(files: SharedFiles) -> str:
    return f"""# Files for notes
- {files.story_scratch}: details that later steps of this story need; add to it, and delete nothing.
- {files.scratch}: only what agents of other stories have to know, in a line or two."""


def _criteria_rule(story: TaskText, step: StepRecord) -> str:
    """Return the form of the verdict on each criterion, which is read by `criteria_review.py`."""
    if step.type not in JUDGING_STEPS or not story.acceptance:
        return ""
    return f"""# Your verdict on the acceptance criteria
One line per criterion, in this form, with the lines that show it: `{FORM}`
Write `unmet` and the reason if it is not met. A citation that does not exist does not count."""


def _workflow_section(record: StoryRecord, step: StepRecord, files: SharedFiles) -> str:
    lines: list[str] = []
    for each in record.steps:
        description = " ".join(printable(each.description).split())
        cut = f"{description[:STEP_LINE_CHARS]}..." if len(description) > STEP_LINE_CHARS else description
        mine = ", this step" if each.id == step.id else ""
        lines.append(f"- {each.id} {each.type} ({each.status}{mine}): {cut}")
    steps = "\n".join(lines)
    return f"""# The workflow of this story
{steps}

You may edit the steps that are pending: write a JSON array of operations to a new file and rename that to
{files.edits}. They are applied when your step ends, all or none. Each has `operation` and `reason`:
- add_after: `target_step_id`, `new_steps` (a list of `type` and `description`); not after final_review
  types: {_ADDABLE}
- split: `target_step_id` (pending), `replacement_steps` (as new_steps)
- skip, edit_description: `target_step_id` (pending); the latter with `new_description`
- reorder: `new_order`, the ids of all pending steps; final_review stays last
- restart: your own step as `target_step_id`, with a better `new_description`; discards what you changed
linting and final_review cannot be skipped. Change nothing here unless the story needs it."""
