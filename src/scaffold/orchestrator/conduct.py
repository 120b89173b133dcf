"""Carrying a run out: recover, keep supervisors, start workers, land, and end in good order."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.core.events import Noticed
from scaffold.core.model import Attempt, Goal, Run
from scaffold.core.states import WORKER_PHASES, Active, Cancelled, Completed, Failed, Paused, Planning, RunState
from scaffold.host.doorbell import Doorbell
from scaffold.landing.queue import Held, Idle, MergeQueue
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.ending import Whole, finish, finish_cancelled, goals_verdict, pause_for_human
from scaffold.orchestrator.engine import STOP_GRACE_S, Engine, SupervisorExit
from scaffold.orchestrator.look import look
from scaffold.orchestrator.proofing import Grounding, ground, regression
from scaffold.orchestrator.pursuit import SPENT, doorbell
from scaffold.orchestrator.reaping import Reaping
from scaffold.orchestrator.recovery import ensure_session_branch, recover
from scaffold.orchestrator.starting import Starting
from scaffold.orchestrator.supervision import Supervision, end_leftovers
from scaffold.orchestrator.takeover import keep_lease, known_run
from scaffold.orchestrator.wishes import SET_ASIDE, heed
from scaffold.plan.decide import decide
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

Cause = Literal["done", "stopped", "paused", "cancelled", "limit", "held", "waiting"]
"""Why a run came to its end here.

`limit` is the budget, `held` a branch that is checked out somewhere, `waiting` that only a human can help on.
"""

WISH_POLL_S = 0.2
HELD_POLL_S = 1.0
OVERDUE_POLL_S = 1.0


class Ending(Struct, frozen=True, kw_only=True):
    """How this process left the run."""

    state: RunState
    cause: Cause


class Conductor:
    """The owner of a run while it is carried out; one at a time, guarded by the run's fence."""

    def __init__(self, site: Site, run: Run, engine: Engine, *, ground: Grounding = ground) -> None:
        """`ground` captures what the run is held against, before anything is spent on it."""
        self._site = site
        self._run = run
        self._engine = engine
        self._ground = ground
        self._bell = Bell()
        self._queue = MergeQueue(site, run)
        self._supervision = Supervision(site, run, engine, self._bell)
        self._starting = Starting(site.store, run.id, engine)
        self._reaping = Reaping(site, run, engine, self._starting)
        self._held = False
        self._whole: Whole = "unproven"
        self._cause: Cause = "done"
        self._leaving = asyncio.Event()

    def leave(self, cause: Cause) -> None:
        """Start nothing new and end: at once for `stopped` and `cancelled`, else when what runs has finished."""
        if self._cause == "done" or cause in {"stopped", "cancelled"}:
            self._cause = cause
        if self._cause in {"stopped", "cancelled"}:
            self._leaving.set()
        self._bell.ring()

    async def carry_out(self) -> Ending:
        """Carry the run on until it ends or is asked to leave; whatever happens, no child outlives this call.

        Raises ScaffoldError where the machine refuses a process or a file; the run can be resumed then. Raises
        EnvironmentNotReady, and the run has failed, where its checks could not be believed.
        """
        try:
            await self._work()
            return await self._end()
        except OSError as error:
            raise ScaffoldError(
                f"run {self._run.id} cannot go on: {error}", "Mend that, then go on with `scaffold resume`."
            ) from error

    async def _work(self) -> None:
        self._activate()
        with contextlib.closing(Doorbell(doorbell(self._site, self._run.id), self._bell.ring)):
            await self._do_chores()

    async def _do_chores(self) -> None:
        """Do what there is to do, until there is nothing left or somebody leaves; then end every child."""
        try:
            await self._first(
                self._ground(self._site, self._run), keep_lease(self._site, self._run), self._heed_wishes()
            )
            if not self._leaving.is_set():
                await self._first(
                    self._quiet(),
                    keep_lease(self._site, self._run),
                    self._supervise(),
                    self._supervision.end_deaf(),
                    self._start(),
                    self._reap(),
                    self._land(),
                    self._heed_wishes(),
                    self._patrol(),
                )
        finally:
            await self._engine.close(grace_s=STOP_GRACE_S)

    async def _first(self, *deeds: Awaitable[None]) -> None:
        """Do all of it until the first is done, or somebody leaves; then end the rest."""
        chores = [asyncio.ensure_future(deed) for deed in (*deeds, self._leaving.wait())]
        try:
            done, _ = await asyncio.wait(chores, return_when=asyncio.FIRST_COMPLETED)
            for chore in done:
                chore.result()
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.wait(chores)

    def _activate(self) -> None:
        store = self._site.store
        with owned(store, self._run, durable=True):
            if not isinstance(self._run.state, Active):
                store.runs.move(self._run.id, Active(), fence=self._run.fence)
            for goal in store.goals.of_run(self._run.id):
                if isinstance(goal.state, Planning | Paused) and goal.state != Paused(SET_ASIDE):
                    store.goals.move(goal.id, Active())

    def _dispatching(self) -> bool:
        return self._cause == "done"

    async def _supervise(self) -> None:
        """Keep supervisors for as long as something new may start; those that are there then are ended."""
        keeping = asyncio.create_task(self._supervision.keep())
        keeping.add_done_callback(lambda _: self._bell.ring())
        try:
            while self._dispatching():
                rung = self._bell.listen()
                self._supervision.wake()
                if keeping.done():
                    keeping.result()
                await rung.wait()
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
        for goal in self._goals():
            await self._engine.stop_supervisor(goal.id, grace_s=STOP_GRACE_S)
        await asyncio.Event().wait()

    async def _start(self) -> None:
        """Start what supervisors queued, for as long as something new may start."""
        while True:
            rung = self._bell.listen()
            if self._dispatching():
                await self._starting.start_queued()
            await rung.wait()

    async def _reap(self) -> None:
        while True:
            exited = await self._engine.next_exit()
            if isinstance(exited, SupervisorExit):
                self._supervision.ended(exited)
                spent = exited.code == SPENT
            else:
                spent = await self._reaping.settle(exited) == "budget"
            if spent:
                self.leave("limit")
            self._bell.ring()

    async def _patrol(self) -> None:
        while True:
            await self._reaping.end_overdue()
            if self._reaping.close_what_expired():
                self._bell.ring()
            await self._site.clock.sleep(OVERDUE_POLL_S)

    async def _land(self) -> None:
        while True:
            rung = self._bell.listen()
            step = await self._queue.step()
            self._note_hold(step if isinstance(step, Held) else None)
            if isinstance(step, Held):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HELD_POLL_S):
                        await rung.wait()
            elif isinstance(step, Idle):
                await rung.wait()
            else:
                self._bell.ring()

    def _note_hold(self, hold: Held | None) -> None:
        if hold is not None and not self._held:
            text = f"{self._run.session_branch} is checked out at {hold.path}: landing waits until it is not."
            with owned(self._site.store, self._run):
                self._site.store.events.append(self._run.id, Noticed("warning", text))
            self._bell.ring()
        self._held = hold is not None

    async def _heed_wishes(self) -> None:
        store, seen = self._site.store, -1
        while True:
            await heed(self._site, self._run, self._engine)
            if (version := store.data_version()) != seen:
                seen = version
                self._bell.ring()  # another process wrote: a worker's progress, a human's retry
                match store.runs.wish(self._run.id):
                    case "stop":
                        self.leave("stopped")
                    case "pause":
                        self.leave("paused")
                    case "cancel":
                        self.leave("cancelled")
                    case None:
                        pass
            await self._site.clock.sleep(WISH_POLL_S)

    async def _quiet(self) -> None:
        """Return when nothing is left to do here: all goals ended, or nothing runs and nothing may start."""
        store = self._site.store
        while True:
            rung = self._bell.listen()
            if (verdict := goals_verdict(store, self._run.id)) is not None:
                if await self._concluded(verdict):
                    return
                continue
            opened = self._opened()
            working = [attempt for attempt in opened if attempt.phase in WORKER_PHASES]
            if not self._dispatching() and not (working or (opened and not self._held)):
                return
            if self._held and not working and not self._can_start():
                self.leave("held")
                return
            if not opened and self._all_set_aside():
                self.leave("paused")
                return
            if not opened and self._put_down_for_human():
                self.leave("waiting")
                return
            await rung.wait()

    async def _concluded(self, verdict: Completed | Failed | Cancelled) -> bool:
        """Tell whether goals that all have ended are the end; what they reached is proven as a whole before.

        It is not the end where others moved the branch, so that something does not hold any more that a goal desires.
        """
        if not isinstance(verdict, Completed) or not self._dispatching():
            return True
        await self._queue.reconsider()
        if goals_verdict(self._site.store, self._run.id) is None:
            self._bell.ring()
            return False
        broken = regression(await self._queue.prove_whole())
        self._whole = "proven" if broken is None else Failed(broken)
        return True

    def _opened(self) -> list[Attempt]:
        """Return the open attempts; once nothing new may start, what was queued and not begun is none of them."""
        opened = self._site.store.attempts.open_of_run(self._run.id)
        return [attempt for attempt in opened if self._dispatching() or self._starting.begun(attempt)]

    def _all_set_aside(self) -> bool:
        """Tell whether the user has set aside every goal that could go on; where none could, all have ended by now."""
        going = [goal for goal in self._goals() if isinstance(goal.state, Planning | Active | Paused)]
        return bool(going) and all(goal.state == Paused(SET_ASIDE) for goal in going)

    def _put_down_for_human(self) -> bool:
        """Pause the run if a human must decide before anything can happen here, and tell whether it was so.

        One transaction: a decision comes either before it, and is seen, or after it, and finds the run paused.
        """
        store = self._site.store
        if not any(store.actions.waiting(goal.id) for goal in self._goals()):
            return False
        with owned(store, self._run, durable=True):
            store.inbox.expire(self._run.id)
            goals = [goal for goal in self._goals() if isinstance(goal.state, Active | Paused)]
            thinking = bool(store.turns.open_of_run(self._run.id))
            idle = not thinking and not any(decide(look(store, self._run, goal)) for goal in goals)
            waits = idle and any(store.actions.waiting(goal.id) for goal in goals)
            if waits:
                pause_for_human(store, self._run)
        return waits

    def _can_start(self) -> bool:
        """Tell whether some goal would start something: what is ready in a goal that is reached is not needed."""
        store = self._site.store
        active = [goal.id for goal in self._goals() if isinstance(goal.state, Active)]
        return any(store.goals.unmet(goal) and store.actions.ready(goal, 1) for goal in active)

    def _goals(self) -> tuple[Goal, ...]:
        return self._site.store.goals.of_run(self._run.id)

    async def _end(self) -> Ending:
        await end_leftovers(self._site, self._run)
        await recover(self._site, self._run, outcome="cancelled", error=f"the run was {self._cause}")
        await self._queue.close()
        await heed(self._site, self._run, None)  # what was landing when a human cancelled it, and did not
        store = self._site.store
        if self._cause == "cancelled" and goals_verdict(store, self._run.id) is None:
            return Ending(state=finish_cancelled(store, self._run), cause="cancelled")
        if isinstance(known_run(store, self._run.id).state, Paused):  # for a human, before
            return self._let_go()
        pause: Cause = "paused" if self._cause == "done" else self._cause  # a goal was retried as the last one ended
        state = finish(store, self._run, pause, self._whole)
        return Ending(state=state, cause=pause if isinstance(state, Paused) else "done")

    def _let_go(self) -> Ending:
        """Let go of the run, which is paused already."""
        store = self._site.store
        with owned(store, self._run, durable=True):
            store.runs.release(self._run.id, fence=self._run.fence)
        return Ending(state=known_run(store, self._run.id).state, cause=self._cause)


async def conduct(site: Site, run: Run, engine: Engine, *, ground: Grounding = ground) -> Conductor:
    """Return a conductor for a run this process owns, after everything a dead owner left was settled."""
    await end_leftovers(site, run)
    await ensure_session_branch(site, run)
    await recover(site, run)
    return Conductor(site, run, engine, ground=ground)
