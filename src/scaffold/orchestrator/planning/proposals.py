"""Targets of an agent's proposals: a draft that is written at the end of its turn, the store, or one goal only."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from scaffold.core.ids import ActionId, ActionKey, GoalId
from scaffold.core.model import Action, Attempt, Goal, Run
from scaffold.core.states import Active, Pending, Running, status_of
from scaffold.orchestrator.dispatch import slots_for, why_held_back
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft
from scaffold.plan.edit.draft import (
    ChangeRejected,
    CreateActions,
    CreateGoal,
    DraftChange,
    PlanDraft,
    ProposeAssertions,
    UpdateAction,
)
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store

Dispatcher = Callable[[GoalId, ActionId], Awaitable[Attempt | None]]
"""Queues the next attempt of a ready action; returns None if that may no longer start."""


class ProposalTarget(Protocol):
    """What the tools of planners and supervisors work on."""

    @property
    def store(self) -> Store:
        """The store, for reading results."""

    @property
    def run(self) -> Run:
        """The run being planned."""

    @property
    def draft(self) -> PlanDraft:
        """The run's plan, with everything proposed so far."""

    def change(self, change: DraftChange) -> bool:
        """Apply a change and return whether it was new; raises ChangeRejected if it contradicts the plan."""

    async def dispatch(self, key: ActionKey) -> int | None:
        """Start an attempt of an action and return its number; None if ready actions are dispatched automatically.

        Raises ChangeRejected, with the reason, if it may not start.
        """


class DraftProposals:
    """Collects changes in a draft; nothing is written."""

    def __init__(self, store: Store, run: Run, draft: PlanDraft | None = None) -> None:
        """Start with `draft`; None means the run's current plan."""
        self.store = store
        self.run = run
        self.draft = read_draft(store, run) if draft is None else draft

    def change(self, change: DraftChange) -> bool:
        """Apply a change to the draft."""
        return self.draft.apply(change)

    async def dispatch(self, key: ActionKey) -> int | None:  # noqa: ARG002 - ready actions are dispatched automatically
        """Return None: ready actions are dispatched automatically."""
        return None


class LiveProposals:
    """Writes each change at once, in a transaction of the run's owner; StaleFence once another process owns the run."""

    def __init__(self, context: RunContext, run: Run, dispatch: Dispatcher) -> None:
        """`run` carries the owner's fence; `dispatch` queues attempts."""
        self.store = context.store
        self.run = run
        self._clock = context.clock
        self._dispatch = dispatch

    @property
    def draft(self) -> PlanDraft:
        """The run's current plan."""
        return read_draft(self.store, self.run)

    def change(self, change: DraftChange) -> bool:
        """Write one change."""
        with owner_transaction(self.store, self.run, durable=True):
            return bool(apply_changes(self.store, self.run, (change,), now=self._clock.now()))

    async def dispatch(self, key: ActionKey) -> int | None:
        """Start an attempt of a ready action if the goal and the caps allow it."""
        action = self.store.actions.by_key(self.run.id, self.draft.known_action(key).key)
        goal = None if action is None else self.store.goals.get(action.goal_id)
        if action is None or goal is None:
            raise LookupError(key)
        # The supervisor would start its compounds a moment later, but then a child could not be dispatched in the turn
        # that created it.
        actions = self.store.actions
        with owner_transaction(self.store, self.run, durable=True):
            # Outermost first: a compound is ready only once its parent runs.
            for compound_id in reversed(actions.lineage(action.parent_id)):
                compound = actions.get(compound_id)
                if compound is not None and isinstance(compound.state, Pending) and not compound.unmet:
                    actions.move(compound_id, Running())
        # Read again: starting a compound may have made the action ready.
        self._require_ready(self.store.actions.get(action.id) or action)
        if (held_back := why_held_back(self.store, self.run, action.id)) is not None:
            fix = "Dispatch other actions, or end your turn; you are woken once it can start."
            raise ChangeRejected(f"`{action.key}` is held back: it {held_back.text}", fix)
        self._require_room(goal)
        attempt = await self._dispatch(goal.id, action.id)
        if attempt is None:
            fix = "End your turn; check again when you are asked next."
            raise ChangeRejected(f"`{key}` was not started: the goal paused or another action took the last slot", fix)
        return attempt.number

    def _require_ready(self, action: Action) -> None:
        if action.kind == "compound":
            fix = "Dispatch its children; the compound starts automatically once it is ready and has children."
            raise ChangeRejected(f"`{action.key}` is a compound and cannot be dispatched itself", fix)
        if not isinstance(action.state, Pending):
            fix = "Only pending actions can be dispatched; goap_list_actions with status `pending` lists them."
            raise ChangeRejected(f"`{action.key}` is {status_of(action.state)}", fix)
        lacking = self.store.facts.lacking(action.goal_id, action.preconditions)
        if lacking:
            fix = "First dispatch the actions that provide them, and wait until they have landed."
            raise ChangeRejected(f"`{action.key}` is not ready: {quoted_list(lacking)} not proven yet", fix)
        if action.unmet:
            raise ChangeRejected(f"`{action.key}` is not ready: its parent is not running yet", "Wait until it is.")

    def _require_room(self, goal: Goal) -> None:
        if not isinstance(goal.state, Active):
            raise ChangeRejected(
                f"goal `{goal.name}` is {status_of(goal.state)}", "Nothing starts unless it is active."
            )
        if not slots_for(self.store, self.run, goal).by_goal.get(goal.id):
            running = len(self.store.actions.running(goal.id))
            caps = f"the limit is {goal.worker_cap} for the goal and {self.store.runs.agents(self.run.id)} for the run"
            fix = "End your turn; you are woken when one ends."
            raise ChangeRejected(f"no worker is free: {running} running for goal `{goal.name}`; {caps}", fix)


class GoalScopedProposals:
    """Rejects changes and dispatches of other goals. Implements ProposalTarget."""

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
        # For an unknown goal, the target has the better message.
        if goal is not None and goal != self._goal and self.draft.goal(goal) is not None:
            fix = f"Leave it to its own supervisor; your goal is `{self._goal}`."
            raise ChangeRejected(f"goal `{goal}` is not yours to change", fix)
