"""Where an agent's proposals go: into a draft that is written at the end of its turn, or into the store at once."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from scaffold.core.ids import ActionId, GoalId, Key
from scaffold.core.model import Action, Attempt, Goal, Run
from scaffold.core.states import Active, Pending, Running, status_of
from scaffold.orchestrator.dispatch import free_slots
from scaffold.orchestrator.writing import read_draft, write_changes
from scaffold.plan.draft import Change, Draft, DraftRefused
from scaffold.plan.wording import listed
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

Dispatcher = Callable[[GoalId, ActionId], Awaitable[Attempt | None]]
"""Queues the next attempt of a ready action; None if none may start any more."""


class Desk(Protocol):
    """What the tools of planners and supervisors work on."""

    @property
    def store(self) -> Store:
        """The store, to read results from."""

    @property
    def run(self) -> Run:
        """The run that is planned."""

    @property
    def draft(self) -> Draft:
        """What the run has, with everything that was proposed here."""

    def change(self, change: Change) -> bool:
        """Take a change and return whether there was something new in it; DraftRefused if it does not fit."""

    async def dispatch(self, key: Key) -> int | None:
        """Start an attempt of an action and return its number, None where that is not an agent's to do.

        Raises DraftRefused, with the reason, if it may not start.
        """


class DraftDesk:
    """Collects changes in a draft; nothing is written."""

    def __init__(self, store: Store, run: Run, draft: Draft | None = None) -> None:
        """Begin with `draft`, or with what the run has now."""
        self.store = store
        self.run = run
        self.draft = read_draft(store, run) if draft is None else draft

    def change(self, change: Change) -> bool:
        """Apply a change to the draft."""
        return self.draft.apply(change)

    async def dispatch(self, key: Key) -> int | None:  # noqa: ARG002 - what is ready is dispatched anyway
        """Return None: what is ready starts by itself."""
        return None


class LiveDesk:
    """Writes each change at once, in a transaction of the run's owner; StaleFence once another process owns the run."""

    def __init__(self, site: Site, run: Run, dispatch: Dispatcher) -> None:
        """Write in the name of the owner of `run`; attempts are started by `dispatch`."""
        self.store = site.store
        self.run = run
        self._clock = site.clock
        self._dispatch = dispatch

    @property
    def draft(self) -> Draft:
        """What the run has now."""
        return read_draft(self.store, self.run)

    def change(self, change: Change) -> bool:
        """Write one change."""
        with owned(self.store, self.run, durable=True):
            return bool(write_changes(self.store, self.run, (change,), now=self._clock.now()))

    async def dispatch(self, key: Key) -> int | None:
        """Start an attempt of a ready action if the goal and the caps allow it."""
        action = self.store.actions.by_key(self.run.id, self.draft.known_action(key).key)
        goal = None if action is None else self.store.goals.get(action.goal_id)
        if action is None or goal is None:
            raise LookupError(key)
        self._begin_compounds(action)
        self._require_ready(self.store.actions.get(action.id) or action)
        self._require_room(goal)
        attempt = await self._dispatch(goal.id, action.id)
        if attempt is None:
            fix = "Wait for the next notice, then look again."
            raise DraftRefused(f"`{key}` was not started: the goal paused or another one took the last slot", fix)
        return attempt.number

    def _begin_compounds(self, action: Action) -> None:
        """Begin the compounds around an action that are ready, as would happen by itself a moment later."""
        actions = self.store.actions
        with owned(self.store, self.run, durable=True):
            for above in reversed(actions.lineage(action.parent_id)):
                compound = actions.get(above)
                if compound is not None and isinstance(compound.state, Pending) and not compound.unmet:
                    actions.move(above, Running())

    def _require_ready(self, action: Action) -> None:
        if action.kind == "compound":
            fix = "Dispatch its children; it begins by itself once it has some and is ready."
            raise DraftRefused(f"`{action.key}` is a compound, which nobody carries out", fix)
        if not isinstance(action.state, Pending):
            fix = "Only pending actions are dispatched; goap_list_actions with status `pending` names them."
            raise DraftRefused(f"`{action.key}` is {status_of(action.state)}", fix)
        lacking = self.store.facts.lacking(action.goal_id, action.preconditions)
        if lacking:
            fix = "Dispatch what provides them first, and wait until it has landed."
            raise DraftRefused(f"`{action.key}` is not ready: {listed(lacking)} not shown yet", fix)
        if action.unmet:
            raise DraftRefused(f"`{action.key}` is not ready: its parent does not run yet", "Wait until it does.")

    def _require_room(self, goal: Goal) -> None:
        if not isinstance(goal.state, Active):
            raise DraftRefused(f"goal `{goal.name}` is {status_of(goal.state)}", "Nothing starts unless it is active.")
        if not free_slots(self.store, self.run, goal):
            running = len(self.store.actions.running(goal.id))
            caps = f"the goal may have {goal.worker_cap}, the run {self.run.settings.agents}"
            fix = "Wait for one to end: end your turn, and you are told."
            raise DraftRefused(f"no worker is free: {running} run for goal `{goal.name}`; {caps}", fix)
