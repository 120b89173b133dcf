"""The supervisor of one goal: look, decide, carry out, sleep until something happened."""

from collections.abc import Awaitable, Callable
from typing import assert_never

from scaffold.core.ids import ActionId, GoalId
from scaffold.core.model import Goal, Run
from scaffold.core.states import Active, Completed, Failed, Running, Skipped
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
from scaffold.worker.site import Site

GOAL_COMPLETE = "goal_complete"


class Supervisor:
    """Pursues one goal until it is completed or cannot be; keeps nothing in memory that the store does not know."""

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
        """Return once the goal has ended, or nothing new may start any more."""
        while self._dispatching():
            rung = self._bell.listen()
            goal = self._site.store.goals.get(goal_id)
            if goal is None or not isinstance(goal.state, Active):
                return
            commands = decide(look(self._site.store, self._run, goal))
            for command in commands:
                await self._carry_out(goal, command)
            if commands:
                self._bell.ring()
            else:
                await rung.wait()

    async def _carry_out(self, goal: Goal, command: Command) -> None:
        store = self._site.store
        match command:
            case Dispatch(action=action):
                await self._dispatch(goal, action)
            case Begin(compound=compound):
                with store.transaction():
                    store.actions.move(compound, Running())
            case Finish(compound=compound):
                with store.transaction():
                    store.actions.move(compound, Completed())
            case GiveUp(compound=compound, reason=reason):
                with store.transaction():
                    store.actions.move(compound, Failed(reason))
                    block_stranded(store, compound)
            case Complete():
                self._complete(goal)
            case Fail(reason=reason):
                with store.transaction(durable=True):
                    store.goals.move(goal.id, Failed(reason))
            case Decompose() | Replan():
                raise AssertionError(f"no planner was offered, yet it was asked for: {command}")
            case _:
                assert_never(command)

    def _complete(self, goal: Goal) -> None:
        store = self._site.store
        with store.transaction(durable=True):
            store.actions.skip_pending(goal.id, GOAL_COMPLETE)
            for compound in store.actions.open_compounds(goal.id):
                done = not compound.unmet_effects
                store.actions.move(compound.action.id, Completed() if done else Skipped(GOAL_COMPLETE))
            store.goals.move(goal.id, Completed())

    async def _dispatch(self, goal: Goal, action_id: ActionId) -> None:
        if not self._dispatching():
            return
        attempt = await queue_attempt(self._site, self._run, goal, action_id)
        if attempt is not None:
            await self._engine.start_attempt(attempt)
