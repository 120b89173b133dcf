"""The first prompt of an attempt at a task, or at a step of a story with the notes of earlier steps."""

from collections.abc import Mapping

from scaffold.agent.prompts import custom_prompt
from scaffold.core.proof.contract import Contract
from scaffold.core.proof.gates import GateKind
from scaffold.git.commits import listed_paths
from scaffold.plan.story.prompt import SharedFiles, StepContext, step_prompt
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.shared_notes import SCRATCH
from scaffold.verify.proof_request import ProofRequest
from scaffold.views.story_record import step_id, story_record
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.story.edits import edit_folder
from scaffold.worker.story.lint_step import LINT_KINDS, LINT_STEP
from scaffold.worker.task_prompts import BRIEFING_CHARS, clipped_section, contract_section, files_section, task_prompt
from scaffold.worker.workspace.workplace import Workplace

GATE_KINDS: Mapping[str, frozenset[GateKind]] = {LINT_STEP: LINT_KINDS, "initial_testing": frozenset({"test"})}
"""Of the commands that matter in a step, by its type; in others, all do."""


def is_step_of_story(task: Assignment) -> bool:
    """Return whether the attempt is at a step of a story."""
    return task.parent is not None and task.parent.method == "story"


async def first_prompt(
    place: Workplace, records: AttemptRecords, contract: Contract | None = None, *, failure: str = ""
) -> str:
    """Return the first prompt of the attempt; `contract` None means the action's own.

    `failure`: what the step's commands printed when they were run before the agent.
    """
    task = records.task
    shared, step, declaration = place.shared, step_id(task.action), records.declaration
    settings = task.run.settings
    judged_by = ProofRequest(
        task=declaration.task,
        areas=ProtectedAreas.with_added(settings.permissions.areas),
        baseline=place.baseline if settings.gates.enabled else None,
    )
    listed = await listed_paths(place.workspace.git, place.workspace.base) if judged_by.baseline_runs else ()
    named = judged_by.declared_among(listed)
    if task.parent is None or shared is None or not is_step_of_story(task):
        return task_prompt(task, contract, declaration, named)
    folder = edit_folder(task, shared)
    files = SharedFiles(
        scratch=str(shared.path / SCRATCH),
        story_scratch=str(shared.path / shared.story_scratch),
        edits=str(folder.own) if folder else "",
    )
    gates = [run.gate for run in place.baseline.runs] if place.baseline else []
    wanted = GATE_KINDS.get(task.action.role)
    told = StepContext(
        files=files,
        scratch=shared.given[SCRATCH],
        story_scratch=shared.given[shared.story_scratch],
        commands=[gate.command for gate in gates if wanted is None or gate.kind in wanted],
        failure=failure,
        instructions=custom_prompt(task.action.role, task.run.settings.planning.prompts, records.warn),
    )
    parts = (
        step_prompt(task.parent, story_record(records.run_context.store, task.parent), step, told),
        files_section(declaration, named, asks=True),
        contract_section(contract or task.action.contract),
        clipped_section("# What earlier attempts at this step showed", task.attempt.briefing, BRIEFING_CHARS),
    )
    return "\n\n".join(part for part in parts if part)
