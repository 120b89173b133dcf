"""Restrict a supervisor's agent to the plan of its own goal."""

from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.orchestrator.planning.proposals import ProposalTarget
from scaffold.plan.edit.draft import (
    ChangeRejected,
    CreateActions,
    CreateGoal,
    DraftChange,
    PlanDraft,
    ProposeAssertions,
    UpdateAction,
)
from scaffold.plan.message_text import quoted
from scaffold.store.database import Store


class GoalScopedProposals:
    """Rejects changes and dispatches of other goals. Implements `proposals.ProposalTarget`."""

    def __init__(self, proposals: ProposalTarget, goal: str) -> None:
        """Forward to `proposals` what concerns the goal named `goal`."""
        self._proposals = proposals
        self._goal = goal

    @property
    def store(self) -> Store:
        """The store, for reading results."""
        return self._proposals.store

    @property
    def run(self) -> Run:
        """The run being planned."""
        return self._proposals.run

    @property
    def draft(self) -> PlanDraft:
        """The run's plan, with everything proposed so far."""
        return self._proposals.draft

    def change(self, change: DraftChange) -> bool:
        """Forward a change of the own goal; raises ChangeRejected for other goals."""
        match change:
            case CreateGoal(spec=spec):
                what = f"goal {quoted(spec.name)} was not created: a supervisor works on its own goal only"
                raise ChangeRejected(
                    what, f"Add actions to `{self._goal}`, and mention work beyond it in your final reply."
                )
            case CreateActions(goal=goal) | ProposeAssertions(goal=goal):
                self._require_own(goal)
            case UpdateAction(key=key):
                self._require_own(self._goal_name(key))
        return self._proposals.change(change)

    async def dispatch(self, key: ActionKey) -> int | None:
        """Start an attempt of an action of the own goal; raises ChangeRejected for other goals."""
        self._require_own(self._goal_name(key))
        return await self._proposals.dispatch(key)

    def _goal_name(self, key: ActionKey) -> str | None:
        goal = self.draft.goal_of(key)
        return None if goal is None else goal.name

    def _require_own(self, goal: str | None) -> None:
        """Raise ChangeRejected for another existing goal; for an unknown one, the target has the better message."""
        if goal is not None and goal != self._goal and self.draft.goal(goal) is not None:
            fix = f"Leave it to its own supervisor; your goal is `{self._goal}`."
            raise ChangeRejected(f"goal `{goal}` is not yours to change", fix)
