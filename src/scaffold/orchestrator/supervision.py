"""Keeping a supervisor for each active goal, whatever becomes of its process."""

import asyncio
import contextlib
from collections.abc import Mapping

from msgspec import Struct

from scaffold.core.events import SupervisorBegan, SupervisorEnded
from scaffold.core.ids import GoalId
from scaffold.core.model import Goal, Run
from scaffold.core.states import Active, Failed, Paused
from scaffold.host.child import end_leftover
from scaffold.host.doorbell import ring
from scaffold.host.identity import own_identity
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.control import RETRIED
from scaffold.orchestrator.engine import Engine, SupervisorExit
from scaffold.orchestrator.pursuit import doorbell
from scaffold.orchestrator.turn import close_lost
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

MOST_STRIKES = 5
"""How often in a row a supervisor may end without anything changed in its goal before the goal fails."""
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0)
"""How long to wait before the next one, by how many have ended so."""

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

    def wake(self) -> None:
        """Have every supervisor look at its goal again."""
        for goal_id, watch in self._watches.items():
            if watch.running:
                ring(doorbell(self._site, self._run.id, goal_id))

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

    def _hopeless(self, goal: Goal, exited: SupervisorExit) -> str:
        log = self._site.process_log(self._run.id, goal.id)
        said = log.read_text(errors="replace").strip()[-500:] if log.exists() else ""
        how = f"signal {-exited.code}" if exited.code < 0 else f"exit code {exited.code}"
        told = f"its supervisor ended {MOST_STRIKES} times in a row without getting anywhere, last with {how}. {said}"
        return self._site.redactor.clean(told.strip())


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
