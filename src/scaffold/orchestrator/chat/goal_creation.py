"""Goals that the agent in a chat creates itself, as a planner does; none starts before the user agrees."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.core.plan import Plan
from scaffold.core.states import Active
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process_identity import is_alive
from scaffold.orchestrator.chat.run_tools import ChatRunControl, open_run_of, write_set_aside
from scaffold.orchestrator.planning.apply_plan import read_draft
from scaffold.orchestrator.planning.proposal_tools import create_actions_tool, create_goal_tool, proposed_goal
from scaffold.plan.edit.draft import ChangeRejected, CreateActions, DraftChange, PlanDraft
from scaffold.plan.progress import PlanProgress
from scaffold.store.database import Store
from scaffold.tools.workspace import failed_answer


def goal_tools(control: ChatRunControl) -> tuple[Tool, ...]:
    """Return the planner's tools that create goals and actions, for the conversation's run."""
    proposals = _ChatProposals(control)
    create_goal = create_goal_tool(proposals)

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        try:
            if open_run_of(control) is None:
                # Tried first: a call that is refused must not leave a run without goals.
                PlanDraft(Plan(goals=()), PlanProgress()).apply(proposed_goal(args))
                await control.open_unplanned_run(args["description"])
        except ScaffoldError as refusal:
            return failed_answer(refusal.in_full)
        return await create_goal.run(args)

    waits = "It does not start yet: start_goal starts it once the user agrees."
    return (
        structs.replace(create_goal, run=run, description=f"{create_goal.description} {waits}"),
        create_actions_tool(proposals),
    )


class _ChatProposals:
    """Writes each change to the conversation's run at once; a `ProposalTarget`."""

    def __init__(self, control: ChatRunControl) -> None:
        self._control = control

    @property
    def store(self) -> Store:
        """The store of the repository."""
        return self._control.context.store

    @property
    def run(self) -> Run:
        """The conversation's run; raises ChangeRejected if there is none that can take goals."""
        run = open_run_of(self._control)
        if run is None:
            raise ChangeRejected("there is no run that has not ended", "Create a goal first, with goap_create_goal.")
        return run

    @property
    def draft(self) -> PlanDraft:
        """The run's current plan."""
        return read_draft(self.store, self.run)

    def change(self, change: DraftChange) -> bool:
        """Write one change; a goal that it creates is set aside until the user starts it."""
        if isinstance(change, CreateActions):
            self._require_idle(change.goal)
        return write_set_aside(self._control.context, self.run, (change,))

    async def dispatch(self, key: ActionKey) -> int | None:  # noqa: ARG002 - the tools of this module start nothing
        """Return None: nothing starts before the user agrees."""
        return None

    def _require_idle(self, name: str) -> None:
        """Raise ChangeRejected if actions that are added to the goal would start at once."""
        run, goal = self.run, self.store.goals.by_name(self.run.id, name)
        executed = run.owner is not None and is_alive(run.owner)
        if executed and goal is not None and isinstance(goal.state, Active):
            fix = "Pause it with pause_goal, add them, and start it again once the user agrees."
            raise ChangeRejected(f"goal `{name}` is being worked on, so new actions would start at once", fix)
