"""The supervisor of one goal: look, decide, carry out, sleep until something happened."""

from collections.abc import Awaitable, Callable
from typing import assert_never

from scaffold.core.ids import ActionId, GoalId
from scaffold.core.model import Goal, Run
from scaffold.core.states import Active, Completed, Failed, Paused, Running, Skipped
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.engine import Engine
from scaffold.orchestrator.look import look
from scaffold.plan.decide import (
    Begin,
    Command,
    Complete,
    Decompose,
    Dispatch,
    Fail,
    Finish,
    GiveUp,
    Replan,
    decide,
)
from scaffold.worker.ending import block_stranded
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

GOAL_COMPLETE = "goal_complete"


class Supervisor:
    """Pursues goals, each in a task of its own; keeps nothing in memory that the store does not know."""

    def __init__(self, site: Site, run: Run, engine: Engine, bell: Bell, *, dispatching: Callable[[], bool]) -> None:
        self._site = site
        self._run = run
        self._engine = engine
        self._bell = bell
        self._dispatching = dispatching

    def main(self, goal_id: GoalId) -> Callable[[], Awaitable[None]]:
        """Return what the engine has to run to have `goal_id` pursued."""
        return lambda: self.pursue(goal_id)

    async def pursue(self, goal_id: GoalId) -> None:
        """Return once nothing new may start any more; a goal that has ended is watched on, a human may retry it."""
        while self._dispatching():
            rung = self._bell.listen()
            commands = self._decide(goal_id)
            for command in commands:
                if isinstance(command, Dispatch):
                    await self._dispatch(goal_id, command.action)
            if commands:
                self._bell.ring()
            else:
                await rung.wait()

    def _decide(self, goal_id: GoalId) -> tuple[Command, ...]:
        """Decide, and carry out what changes the store alone, in one transaction: nobody writes in between.

        Without it a worker that gives up while we look could be seen neither running nor pending, and fail the goal.
        """
        store = self._site.store
        with owned(store, self._run, durable=True):
            goal = store.goals.get(goal_id)
            if goal is not None and isinstance(goal.state, Paused):
                store.goals.move(goal_id, Active())  # in a run that goes on, only a retry leaves a goal paused
            elif goal is None or not isinstance(goal.state, Active):
                return ()
            commands = decide(look(store, self._run, goal))
            for command in commands:
                self._settle(goal, command)
        return commands

    def _settle(self, goal: Goal, command: Command) -> None:
        store = self._site.store
        match command:
            case Dispatch():
                pass  # needs a process: afterwards, outside the transaction
            case Begin(compound=compound):
                store.actions.move(compound, Running())
            case Finish(compound=compound):
                store.actions.move(compound, Completed())
            case GiveUp(compound=compound, reason=reason):
                store.actions.move(compound, Failed(reason))
                block_stranded(store, goal.id)
            case Complete():
                self._complete(goal)
            case Fail(reason=reason):
                store.goals.move(goal.id, Failed(reason))
            case Decompose() | Replan():
                raise AssertionError(f"no planner was offered, yet it was asked for: {command}")
            case _:
                assert_never(command)

    def _complete(self, goal: Goal) -> None:
        store = self._site.store
        store.actions.skip_pending(goal.id, GOAL_COMPLETE)
        for compound in store.actions.open_compounds(goal.id):
            done = not compound.unmet_effects
            store.actions.move(compound.action.id, Completed() if done else Skipped(GOAL_COMPLETE))
        store.inbox.withdraw_unneeded(goal.run_id)
        store.goals.move(goal.id, Completed())

    async def _dispatch(self, goal_id: GoalId, action_id: ActionId) -> None:
        if not self._dispatching():
            return
        attempt = await queue_attempt(self._site, self._run, goal_id, action_id)
        if attempt is not None:
            await self._engine.start_attempt(attempt)
