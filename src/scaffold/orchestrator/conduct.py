"""Carrying a run out: take the lease, recover, supervise, land, and end in good order."""

import asyncio
import contextlib
from itertools import takewhile
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import RunBusy, ScaffoldError, StaleFence
from scaffold.core.events import Noticed
from scaffold.core.ids import RunId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Active, Outcome, Paused, Planning, RunState
from scaffold.host.identity import alive, own_identity
from scaffold.landing.queue import Held, Idle, MergeQueue
from scaffold.orchestrator.bell import Bell
from scaffold.orchestrator.ending import finish, finish_cancelled, goals_verdict, pause_for_human
from scaffold.orchestrator.engine import AttemptExit, Engine
from scaffold.orchestrator.look import look
from scaffold.orchestrator.recovery import ensure_session_branch, put_back, recover
from scaffold.orchestrator.supervisor import Supervisor
from scaffold.plan.decide import decide
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site
from scaffold.worker.workspace import rescue

Cause = Literal["done", "stopped", "paused", "cancelled", "limit", "held", "waiting"]
"""Why a run came to its end here.

`limit` is the budget, `held` a branch that is checked out somewhere, `waiting` that only a human can help on.
"""

WISH_POLL_S = 0.2
HELD_POLL_S = 1.0
STOP_GRACE_S = 0.1
LOST_IN_A_ROW = 20
OVERTIME_S = 120.0
"""Beyond its deadline, for a worker to put its work away before it is ended."""
OVERDUE_POLL_S = 1.0


class Ending(Struct, frozen=True, kw_only=True):
    """How this process left the run."""

    state: RunState
    cause: Cause


class Conductor:
    """The owner of a run while it is carried out; one at a time, guarded by the run's fence."""

    def __init__(self, site: Site, run: Run, engine: Engine) -> None:
        self._site = site
        self._run = run
        self._engine = engine
        self._bell = Bell()
        self._queue = MergeQueue(site, run)
        self._held = False
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

        Raises ScaffoldError where the machine refuses a process or a file; the run can be resumed then.
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
        supervisor = Supervisor(self._site, self._run, self._engine, self._bell, dispatching=self._dispatching)
        for goal in self._site.store.goals.of_run(self._run.id):
            await self._engine.start_supervisor(goal.id, supervisor.main(goal.id))
        endless = (self._reap(), self._land(), self._heed_wishes(), self._end_overdue())
        chores = [asyncio.create_task(chore) for chore in (*endless, self._quiet(), self._leaving.wait())]
        try:
            done, _ = await asyncio.wait(chores, return_when=asyncio.FIRST_COMPLETED)
            for chore in done:
                chore.result()
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.wait(chores)
            await self._engine.close(grace_s=STOP_GRACE_S)

    def _activate(self) -> None:
        store = self._site.store
        with owned(store, self._run, durable=True):
            if not isinstance(self._run.state, Active):
                store.runs.move(self._run.id, Active(), fence=self._run.fence)
            for goal in store.goals.of_run(self._run.id):
                if isinstance(goal.state, Planning | Paused):
                    store.goals.move(goal.id, Active())

    def _dispatching(self) -> bool:
        return self._cause == "done"

    async def _reap(self) -> None:
        while True:
            exited = await self._engine.next_exit()
            await self._settle(exited)
            self._bell.ring()

    async def _settle(self, exited: AttemptExit) -> None:
        """Account for a worker that ended; one that left its attempt open has died under it."""
        attempt = self._site.store.attempts.get(exited.attempt_id)
        if attempt is None:
            return
        if attempt.outcome == "budget":
            self.leave("limit")
        if attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue(self._site, self._run, attempt.id)
            return
        outcome = self._outcome(attempt, exited.code)
        error = self._last_words(attempt, exited.code)
        await put_back(self._site, self._run, attempt, outcome=outcome, error=error)

    def _outcome(self, attempt: Attempt, code: int) -> Outcome:
        """Return whose fault the end of a worker is: a signal is nobody's, unless it was ours, or comes every time."""
        if self._overdue(attempt):
            return "timeout"
        earlier = reversed(self._site.store.attempts.of_action(attempt.action_id)[:-1])
        lost = sum(1 for _ in takewhile(lambda each: each.outcome == "lost", earlier))
        return "lost" if code < 0 and lost + 1 < LOST_IN_A_ROW else "executor_failed"

    def _overdue(self, attempt: Attempt) -> bool:
        """Tell whether a worker has missed its own deadline, and the time to put its work away, too."""
        since = self._site.clock.now() - (attempt.started_at or attempt.queued_at)
        return since.total_seconds() > self._run.settings.attempt_timeout_s + OVERTIME_S

    async def _end_overdue(self) -> None:
        """End workers that do not notice their deadline themselves: stopped, or stuck in a computation."""
        while True:
            for attempt in self._site.store.attempts.open_of_run(self._run.id):
                if attempt.phase in WORKER_PHASES and self._overdue(attempt):
                    await self._engine.stop_attempt(attempt.id, grace_s=STOP_GRACE_S)
            self._close_what_expired()
            await self._site.clock.sleep(OVERDUE_POLL_S)

    def _close_what_expired(self) -> None:
        """Let who waited in vain for a decision ask anew."""
        store = self._site.store
        if store.inbox.overdue(self._run.id):
            with owned(store, self._run):
                store.inbox.expire(self._run.id)
            self._bell.ring()

    def _last_words(self, attempt: Attempt, code: int) -> str:
        log = self._site.process_log(attempt.run_id, attempt.id)
        said = log.read_text(errors="replace").strip()[-1000:] if log.exists() else ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the worker ended with {how} in phase {attempt.phase}. {said}".strip()

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
            if goals_verdict(store, self._run.id) is not None:
                return
            opened = store.attempts.open_of_run(self._run.id)
            working = [attempt for attempt in opened if attempt.phase in WORKER_PHASES]
            if not self._dispatching() and not (working or (opened and not self._held)):
                return
            if self._held and not working and not self._can_start():
                self.leave("held")
                return
            if not opened and self._put_down_for_human():
                self.leave("waiting")
                return
            await rung.wait()

    def _put_down_for_human(self) -> bool:
        """Pause the run if a human must decide before anything can happen here, and tell whether it was so.

        One transaction: a decision comes either before it, and is seen, or after it, and finds the run paused.
        """
        store = self._site.store
        if not any(store.actions.waiting(goal.id) for goal in store.goals.of_run(self._run.id)):
            return False
        with owned(store, self._run, durable=True):
            store.inbox.expire(self._run.id)
            goals = [goal for goal in store.goals.of_run(self._run.id) if isinstance(goal.state, Active | Paused)]
            idle = not any(decide(look(store, self._run, goal)) for goal in goals)
            waits = idle and any(store.actions.waiting(goal.id) for goal in goals)
            if waits:
                pause_for_human(store, self._run)
        return waits

    def _can_start(self) -> bool:
        """Tell whether some goal would start something: what is ready in a goal that is reached is not needed."""
        store = self._site.store
        active = [goal.id for goal in store.goals.of_run(self._run.id) if isinstance(goal.state, Active)]
        return any(store.goals.unmet(goal) and store.actions.ready(goal, 1) for goal in active)

    async def _end(self) -> Ending:
        await recover(self._site, self._run, outcome="cancelled", error=f"the run was {self._cause}")
        await self._queue.close()
        store = self._site.store
        if self._cause == "cancelled" and goals_verdict(store, self._run.id) is None:
            return Ending(state=finish_cancelled(store, self._run), cause="cancelled")
        if isinstance(_known(store, self._run.id).state, Paused):  # for a human, before
            return self._let_go()
        pause: Cause = "paused" if self._cause == "done" else self._cause  # a goal was retried as the last one ended
        state = finish(store, self._run, pause)
        return Ending(state=state, cause=pause if isinstance(state, Paused) else "done")

    def _let_go(self) -> Ending:
        """Let go of the run, which is paused already."""
        store = self._site.store
        with owned(store, self._run, durable=True):
            store.runs.release(self._run.id, fence=self._run.fence)
        return Ending(state=_known(store, self._run.id).state, cause=self._cause)


def take_over(site: Site, run_id: RunId) -> Run:
    """Become the owner of a run; raises RunBusy while another living process is."""
    store = site.store
    run = _known(store, run_id)
    me = own_identity()
    if run.owner is not None and run.owner != me and alive(run.owner):
        raise RunBusy(
            f"run {run_id} is being carried out by process {run.owner.pid}",
            f"Watch it with `scaffold status {run_id}`, or stop it with `scaffold stop {run_id}`.",
        )
    with store.transaction(durable=True):
        try:
            store.runs.take(run_id, me, expected_fence=run.fence)
            store.runs.ask(run_id, None)  # what was asked of the owner before
        except StaleFence as stale:
            raise RunBusy(f"run {run_id} was taken by another process just now", "Try again.") from stale
    return _known(store, run_id)


def _known(store: Store, run_id: RunId) -> Run:
    run = store.runs.get(run_id)
    if run is None:
        raise LookupError(run_id)
    return run


async def conduct(site: Site, run: Run, engine: Engine) -> Conductor:
    """Return a conductor for a run this process owns, after everything a dead owner left was settled."""
    await ensure_session_branch(site, run)
    await recover(site, run)
    return Conductor(site, run, engine)
