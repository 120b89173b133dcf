"""The supervisor of one goal: look, decide, carry out, sleep until something happened."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, assert_never

from scaffold.core.errors import BudgetSpent
from scaffold.core.ids import ActionId, Assertion, GoalId
from scaffold.core.model import Attempt, Goal, Run
from scaffold.core.states import Active, Completed, Failed, Pending, Running, Skipped
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.desks import Dispatcher
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.judging import hopeless, next_judgement
from scaffold.orchestrator.look import look
from scaffold.orchestrator.turn import Broke, Spent, TurnEnding, Unsound, Written
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
UNRUNG_S = 2.0
"""How long a supervisor sleeps at most before it looks whether somebody wrote without ringing."""
MOST_TURNS = 3
"""How often in vain somebody is asked to break the same compound down."""
PAUSE_S = (0.0, 2.0, 10.0)
"""How long to wait before asking again where no reply was to be had."""


class Thinks(Protocol):
    """Whoever breaks down and replans; each call is one turn of an agent, written to the store before it returns."""

    async def decompose(self, goal_id: GoalId, compound: ActionId) -> TurnEnding:
        """Have children made for a compound that is ready."""
        ...

    async def replan(
        self, goal_id: GoalId, compound: ActionId | None, unmet: tuple[Assertion, ...], why: str
    ) -> TurnEnding:
        """Have other actions made towards `unmet`, as children of the compound or at the top of the goal."""
        ...

    async def judge(self, goal_id: GoalId, why: str, dispatch: Dispatcher) -> TurnEnding:
        """Have every step taken that can be taken now, by tools that check each."""
        ...


class Supervisor:
    """Pursues one goal; keeps nothing in memory that the store does not know, so that it may die at any time."""

    def __init__(
        self, site: Site, run: Run, goal_id: GoalId, bell: Bell, *, thinks: Thinks, tell: Callable[[], None]
    ) -> None:
        """`tell` wakes the run's owner: attempts are queued, or a goal has ended."""
        self._site = site
        self._run = run
        self._goal_id = goal_id
        self._bell = bell
        self._thinks = thinks
        self._tell = tell
        self._by_agent = run.settings.planner and run.settings.supervision == "agent"
        self._thought: asyncio.Task[None] | None = None

    async def pursue(self) -> None:
        """Return once the goal has ended or is not to be pursued now.

        Raises BudgetSpent when its agent may ask no more, StaleFence when another process owns the run.
        """
        try:
            while True:
                rung, seen = self._bell.listen(), self._site.store.data_version()
                self._gather()
                commands = self._decide()
                if commands is None:
                    return
                for command in commands:
                    await self._begin(command)
                if commands:
                    self._tell()
                elif not self._considered():
                    await self._sleep(rung, seen)
        finally:
            await self._forget()

    def _decide(self) -> tuple[Command, ...] | None:
        """Decide, and carry out what changes the store alone, in one transaction: nobody writes in between.

        Without it a worker that gives up while we look could be seen neither running nor pending, and fail the goal.
        None once the goal is not active any more.
        """
        store = self._site.store
        with owned(store, self._run, durable=True):
            goal = store.goals.get(self._goal_id)
            if goal is None or not isinstance(goal.state, Active):
                return None
            thinking = self._by_agent or self._thought is not None
            commands = decide(look(store, self._run, goal, thinking=thinking))
            if self._by_agent:  # what runs next is its agent's to say; what has been reached is not
                commands = tuple(command for command in commands if not isinstance(command, Dispatch))
            for command in commands:
                self._settle(goal, command)
        return commands

    def _settle(self, goal: Goal, command: Command) -> None:
        store = self._site.store
        match command:
            case Dispatch() | Decompose() | Replan():
                pass  # needs a process or an agent: afterwards, outside the transaction
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
                store.goals.move(goal.id, Failed(self._with_last_words(reason)))
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

    def _with_last_words(self, reason: str) -> str:
        """Add why the last turn about this goal came to nothing, if it did."""
        turns = [turn for turn in self._site.store.turns.of_run(self._run.id) if turn.goal_id == self._goal_id]
        if turns and turns[-1].outcome in {"refused", "failed"}:
            return f"{reason}; the last {turns[-1].event} {turns[-1].outcome}: {turns[-1].error}"
        return reason

    async def _begin(self, command: Command) -> None:
        match command:
            case Dispatch(action=action):
                await self._dispatch(self._goal_id, action)
            case Decompose(compound=compound, gap=()):
                self._think(partial(self._decompose, compound))
            case Decompose(compound=compound, gap=gap):
                self._think(partial(self._replan, compound, gap, "its children ended, and this does not hold yet"))
            case Replan(compound=compound, unmet=unmet, why=why):
                self._think(partial(self._replan, compound, unmet, why))
            case _:
                pass

    async def _dispatch(self, goal_id: GoalId, action_id: ActionId) -> Attempt | None:
        attempt = await queue_attempt(self._site, self._run, goal_id, action_id)
        self._tell()
        return attempt

    def _considered(self) -> bool:
        """Tell whether there is something to decide anew: where an agent takes every step, its chances are used up.

        It is asked if something happened that it does not know of.
        """
        if not self._by_agent or self._thought is not None:
            return False
        store = self._site.store
        goal = store.goals.get(self._goal_id)
        if goal is None:
            return True
        if (hopeless_because := hopeless(store, self._run, goal)) is not None:
            self._fail(hopeless_because)
            return True
        if (why := next_judgement(store, self._run, goal)) is not None:
            self._think(partial(self._judge, why))
        return False

    def _think(self, thought: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a turn beside everything else; one at a time, what else is to be thought of comes again."""
        if self._thought is None:
            self._thought = asyncio.create_task(thought())
            self._thought.add_done_callback(lambda _: self._bell.ring())

    def _gather(self) -> None:
        """Take note of a turn that has ended; raises what went wrong in it."""
        if self._thought is not None and self._thought.done():
            thought, self._thought = self._thought, None
            thought.result()

    async def _forget(self) -> None:
        if self._thought is not None:
            self._thought.cancel()
            await asyncio.wait([self._thought])

    async def _decompose(self, compound: ActionId) -> None:
        ending = await self._thinks.decompose(self._goal_id, compound)
        if isinstance(ending, Unsound | Broke):
            tries = self._site.store.turns.fruitless(self._goal_id, "decompose", compound)
            if tries >= MOST_TURNS:
                self._give_up(compound, f"could not be broken down: {_words(ending)}")
            else:
                await self._after(ending, tries)
        self._heed(ending)

    async def _replan(self, compound: ActionId | None, unmet: tuple[Assertion, ...], why: str) -> None:
        ending = await self._thinks.replan(self._goal_id, compound, unmet, why)
        if isinstance(ending, Unsound | Broke):
            await self._after(ending, self._site.store.turns.fruitless_of_goal(self._goal_id, "replan"))
        self._heed(ending)

    async def _judge(self, why: str) -> None:
        ending = await self._thinks.judge(self._goal_id, why, self._dispatch)
        if isinstance(ending, Broke):
            await self._after(ending, 1)
        self._heed(ending)

    async def _after(self, ending: Unsound | Broke, tries: int) -> None:
        """Give whoever did not answer some time; nonsense does not become better by waiting."""
        if isinstance(ending, Broke) and ending.again:
            await self._site.clock.sleep(PAUSE_S[min(tries, len(PAUSE_S) - 1)])

    def _heed(self, ending: TurnEnding) -> None:
        match ending:
            case Spent(error=error):
                raise BudgetSpent(error, "Go on with `scaffold resume --budget-usd MORE`.")
            case Broke(error=error, again=False):
                self._fail(f"its supervisor's agent cannot be asked: {error}")
            case Written() | Unsound() | Broke():
                pass
            case _:
                assert_never(ending)

    def _give_up(self, compound: ActionId, reason: str) -> None:
        store = self._site.store
        with owned(store, self._run, durable=True):
            action = store.actions.get(compound)
            if action is not None and isinstance(action.state, Pending | Running):
                store.actions.move(compound, Failed(reason))
                block_stranded(store, self._goal_id)

    def _fail(self, reason: str) -> None:
        store = self._site.store
        with owned(store, self._run, durable=True):
            goal = store.goals.get(self._goal_id)
            if goal is not None and isinstance(goal.state, Active):
                store.goals.move(self._goal_id, Failed(reason))

    async def _sleep(self, rung: asyncio.Event, seen: int) -> None:
        """Sleep until somebody rings, or wrote without ringing since the data were `seen`."""
        store = self._site.store
        while not rung.is_set() and store.data_version() == seen:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNRUNG_S):
                    await rung.wait()


def _words(ending: Unsound | Broke) -> str:
    return ending.why if isinstance(ending, Unsound) else ending.error
