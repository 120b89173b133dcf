"""The tool with which a native agent edits the steps of its story; the file for other executors takes the same."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.story.apply_edit import EditsApplied, EditsKnown
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer
from scaffold.views.story_edits import judge_edits
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.story.edits import AskedEdits, edit_folder
from scaffold.worker.workspace.shared_folder import SharedFolder

NAME = "edit_workflow"


def edit_workflow(shared: SharedFolder | None, asked: AskedEdits, records: AttemptRecords) -> Tool | None:
    """Return the tool; None if the attempt is at no step that may edit its story."""
    task, role = records.task, records.task.action.role
    story = task.parent
    if (
        edit_folder(task, shared) is None
        or story is None
        or not any(each == role and STEP_TYPES[each].may_edit for each in STEP_TYPES)
    ):
        return None

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        text = msgspec.json.encode(records.redactor.clean_all(args["operations"])).decode()
        now = records.run_context.clock.now()
        # Judged now, so that the agent can correct itself; what counts is the same at the end of the step.
        outcome = judge_edits(records.store, story, task.action, task.attempt, text, now).outcome
        if not isinstance(outcome, EditsApplied | EditsKnown):
            return failed_answer(outcome.feedback)
        asked.ask(text)
        return ToolOutput("These edits, in place of any earlier ones, are applied when your step ends.")

    return Tool(
        name=NAME,
        description=(
            "Edit the steps of your story that are pending; your prompt lists the operations. All are applied when "
            "your step ends, or none. A second call replaces the first."
        ),
        schema=object_schema({"operations": {"type": "array", "items": {"type": "object"}}}),
        category="memory",
        run=run,
    )
