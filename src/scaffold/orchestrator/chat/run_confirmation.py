"""Plan a run from a conversation, and start it if the user agrees; the returned texts go to the model."""

import asyncio
from typing import Protocol

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.orchestrator.owner.planning_phase import begin_planning
from scaffold.orchestrator.owner.run_end import save_run
from scaffold.orchestrator.owner.run_lease import take_over_run_when_free
from scaffold.run.context import RunContext


class StartDialog(Protocol):
    """What the chat interface does while a run is planned and started."""

    def show_step(self, text: str) -> None:
        """Show a line about the planner's progress."""

    async def confirm_start(self, run: Run) -> bool:
        """Show the planned run and return whether the user wants it to start."""

    def start_in_background(self, run: Run) -> None:
        """Hand the run, which this process owns, to a process that executes it in the background."""


async def plan_and_confirm(context: RunContext, run_id: RunId, dialog: StartDialog) -> str:
    """Plan a new run, and start it in the background if the user agrees.

    Raises as `PlanningPhase.run_to_end` does, but for PlanInvalid.
    """
    phase = await begin_planning(context, run_id, show_step=dialog.show_step)
    try:
        stopped = await phase.run_to_end()
    except PlanInvalid as invalid:
        findings = (
            f"- {finding.severity}[{finding.code}] {finding.message}. {finding.fix}" for finding in invalid.findings
        )
        return "\n".join((f"Not started: {invalid.in_full}", *findings))
    return f"Not started: planning was {stopped}." if stopped else await _start_if_agreed(context, phase.run, dialog)


async def resume_and_confirm(context: RunContext, run_id: RunId, dialog: StartDialog) -> str:
    """Start a planned run that no process owns in the background if the user agrees."""
    return await _start_if_agreed(context, await take_over_run_when_free(context, run_id), dialog)


async def _start_if_agreed(context: RunContext, run: Run, dialog: StartDialog) -> str:
    """Start a run that this process owns if the user agrees, otherwise save it; release it in both cases."""
    try:
        agreed = await dialog.confirm_start(run)
    except asyncio.CancelledError:
        save_run(context, run.id)
        raise
    if not agreed:
        save_run(context, run.id)
        return f"The user does not want to start yet. The plan is saved; `scaffold resume {run.id}` starts it."
    dialog.start_in_background(run)
    return f"Run {run.id} is running in the background. Tell the user so in one line, then end your turn."
