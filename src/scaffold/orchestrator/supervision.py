"""Keeping a supervisor for each active goal, whatever becomes of its process."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.events import SupervisorBegan, SupervisorEnded
from scaffold.core.ids import GoalId
from scaffold.core.model import Goal, Run
from scaffold.core.states import Active, Failed, Paused
from scaffold.host.child import end_leftover
from scaffold.host.doorbell import ring, unheard
from scaffold.host.identity import own_identity
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.control import RETRIED
from scaffold.orchestrator.engine import STOP_GRACE_S, Engine, SupervisorExit, in_words
from scaffold.orchestrator.pursuit import doorbell
from scaffold.orchestrator.turn import close_lost
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

MOST_STRIKES = 5
"""How often in a row a supervisor may end without anything changed in its goal before the goal fails."""
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0)
"""How long to wait before the next one, by how many have ended so."""

GLANCE_S = 5.0
"""How often each supervisor is rung, to see whether it hears."""
MOST_UNHEARD = 4
"""How many glances in a row may find the last ring unheard before a supervisor is held to hang: stopped, or stuck."""

Mark = tuple[str, Mapping[str, int], int, int]
"""How far a goal is: its status, its actions by status, the assertions ever shown, its attempts."""


class _Watch(Struct):
    """What is known of the supervisors of one goal."""

    mark: Mark | None = None
    """How far the goal was when the last one began."""
    strikes: int = 0
    running: bool = False
    not_before: float = 0.0
    """From when on, on the monotonic clock, the next one may begin."""
    unheard: int = 0
    """How many glances in a row found that it does not hear."""


class Supervision:
    """The owner's side of supervisors: begins them, wakes them, and begins others where they died."""

    def __init__(self, site: Site, run: Run, engine: Engine, bell: Bell) -> None:
        self._site = site
        self._run = run
        self._engine = engine
        self._bell = bell
        self._watches: dict[GoalId, _Watch] = {}

    async def keep(self) -> None:
        """See to it that each active goal has a supervisor; never returns."""
        while True:
            rung = self._bell.listen()
            due_s = await self._begin_missing()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s):
                    await rung.wait()

    async def end_deaf(self) -> None:
        """End each supervisor that does not hear its doorbell any more: another one takes its place; never returns.

        Glances are counted, not time: where the whole machine slept, nobody is to blame.
        """
        while True:
            for goal_id, watch in tuple(self._watches.items()):
                watch.unheard = watch.unheard + 1 if watch.running and unheard(self._doorbell(goal_id)) else 0
                if watch.unheard > MOST_UNHEARD:
                    await self._engine.stop_supervisor(goal_id, grace_s=STOP_GRACE_S)
            self.wake()
            await self._site.clock.sleep(GLANCE_S)

    def wake(self) -> None:
        """Have every supervisor look at its goal again."""
        for goal_id, watch in self._watches.items():
            if watch.running:
                ring(self._doorbell(goal_id))

    def ended(self, exited: SupervisorExit) -> None:
        """Account for a supervisor that is gone; a goal whose supervisors get nowhere fails."""
        store, watch = self._site.store, self._watches.setdefault(exited.goal_id, _Watch())
        watch.running = False
        close_lost(store, self._run, exited.goal_id)
        with owned(store, self._run, durable=True):
            goal = store.goals.get(exited.goal_id)
            if goal is None:
                return
            store.goals.supervise(goal.id, None, was=goal.supervisor)
            store.events.append(self._run.id, SupervisorEnded(goal.name, exited.code))
            if not isinstance(goal.state, Active):
                return
            watch.strikes = watch.strikes + 1 if _mark(store, goal) == watch.mark else 0
            if watch.strikes >= MOST_STRIKES:
                store.goals.move(goal.id, Failed(self._hopeless(goal, exited)))
        delay_s = BACKOFF_S[min(watch.strikes, len(BACKOFF_S) - 1)]
        watch.not_before = self._site.clock.monotonic() + delay_s

    async def _begin_missing(self) -> float | None:
        """Begin the supervisors that are missing; return in how many seconds another one is due, None if none is."""
        waits: list[float] = []
        for goal in self._site.store.goals.of_run(self._run.id):
            watch = self._watches.setdefault(goal.id, _Watch())
            if watch.running or not self._wanted(goal):
                continue
            wait_s = watch.not_before - self._site.clock.monotonic()
            if wait_s > 0:
                waits.append(wait_s)
            else:
                await self._begin(goal, watch)
        return min(waits, default=None)

    def _wanted(self, goal: Goal) -> bool:
        """Tell whether the goal is to be pursued now; one that was retried is active again from here on."""
        store = self._site.store
        if goal.state == Paused(RETRIED):
            with owned(store, self._run, durable=True):
                store.goals.move(goal.id, Active())
            self._watches[goal.id].strikes = 0
            return True
        return isinstance(goal.state, Active)

    async def _begin(self, goal: Goal, watch: _Watch) -> None:
        store = self._site.store
        watch.mark, watch.running = _mark(store, goal), True
        identity = await self._engine.start_supervisor(goal.id)
        with owned(store, self._run):
            now = store.goals.get(goal.id)
            store.goals.supervise(goal.id, identity, was=now.supervisor if now else None)
            store.events.append(self._run.id, SupervisorBegan(goal.name, identity.pid))

    def _doorbell(self, goal_id: GoalId) -> Path:
        return doorbell(self._site, self._run.id, goal_id)

    def _hopeless(self, goal: Goal, exited: SupervisorExit) -> str:
        said = self._site.last_words(self._run.id, goal.id)
        often = f"its supervisor ended {MOST_STRIKES} times in a row without getting anywhere"
        return f"{often}, last with {in_words(exited.code)}. {said}".strip()


async def end_leftovers(site: Site, run: Run) -> None:
    """End supervisors of an owner that is gone, and forget them."""
    store = site.store
    for goal in store.goals.of_run(run.id):
        if goal.supervisor is not None:
            if goal.supervisor != own_identity():
                await end_leftover(goal.supervisor)
            with owned(store, run):
                store.goals.supervise(goal.id, None, was=goal.supervisor)


def _mark(store: Store, goal: Goal) -> Mark:
    attempts = sum(1 for each in store.attempts.of_run(goal.run_id))
    return (type(goal.state).__name__, store.actions.tally(goal.id), len(store.facts.of_goal(goal.id)), attempts)
