"""Execute a run: keep its supervisors, start workers, land changes, watch for requests, and shut down cleanly."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Goal, Run
from scaffold.core.ports import Merger
from scaffold.core.states import (
    PAUSED_BY_USER,
    Active,
    AttemptOutcome,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Planning,
    RunState,
)
from scaffold.host.wake_fifo import WakeFifo
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.orchestrator.dispatch import slots_by_goal
from scaffold.orchestrator.owner.goal_control import apply_control_requests
from scaffold.orchestrator.owner.landing_loop import LandingLoop
from scaffold.orchestrator.owner.next_round import judge_end
from scaffold.orchestrator.owner.processes.engine import STOP_GRACE_S, AttemptExit, Engine, ProcessExit, SupervisorExit
from scaffold.orchestrator.owner.processes.supervisor_pool import SupervisorPool, end_orphaned_supervisors
from scaffold.orchestrator.owner.processes.worker_exits import AttemptLauncher, WorkerExitHandler
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_ended_run
from scaffold.orchestrator.owner.restart import recover_from_dead_owner
from scaffold.orchestrator.owner.run_baseline import BaselineCapture, ensure_baseline
from scaffold.orchestrator.owner.run_end import (
    PAUSE_REASONS,
    EndCause,
    FinalGateStatus,
    can_start,
    cancel_attempts,
    finish_run,
    hold_run,
    pause_if_waiting,
    state_from_goals,
    unfinished_cause,
)
from scaffold.orchestrator.owner.run_files import RunFiles
from scaffold.orchestrator.owner.run_lease import release_run, renew_lease, require_run
from scaffold.orchestrator.owner.watch.faults import FaultRepeater
from scaffold.orchestrator.owner.watch.machine_watch import MachineWatch
from scaffold.orchestrator.owner.watch.model_watch import ModelWatch
from scaffold.orchestrator.supervisor.goal_process import BUDGET_EXIT_CODE, NO_ACCESS_EXIT_CODE, UNAVAILABLE_EXIT_CODE
from scaffold.orchestrator.supervisor.wakeup import GoalChanges, Wakeup
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.spending.run_budget import budget_use

OUTCOME_BY_EXIT_CODE: Mapping[int, AttemptOutcome] = {
    BUDGET_EXIT_CODE: "budget",
    UNAVAILABLE_EXIT_CODE: "unavailable",
    NO_ACCESS_EXIT_CODE: "no_access",
}
"""{exit code of a supervisor: outcome of its agent}; other codes say nothing about it."""
CONTROL_POLL_S = 0.2
OVERDUE_POLL_S = 1.0


class RunEnding(Struct, frozen=True, kw_only=True):
    """The run's state when this process released it, and why."""

    state: RunState
    cause: EndCause


class RunOwner:
    """Executes a run that this process owns; the run's fence guarantees that there is only one owner."""

    def __init__(
        self,
        context: RunContext,
        run: Run,
        engine: Engine,
        *,
        baseline: BaselineCapture = ensure_baseline,
        faults: FaultRepeater | None = None,
        merger: Merger | None = None,
    ) -> None:
        """`baseline` captures the run's baseline before money is spent; `faults` repeats what fails for the machine."""
        self.run = run
        self._context = context
        self._engine = engine
        self._ensure_baseline = baseline
        self._wakeup = Wakeup()
        self._queue = MergeQueue(context, run, self._wakeup.next_event, merger=merger)
        self._files = RunFiles(context, run)
        self._changes = GoalChanges(context.store, run.id)
        self._supervisors = SupervisorPool(context, run, engine)
        self._launcher = AttemptLauncher(context.store, run, engine, partial(self.request_stop, "limit"))
        self._models = ModelWatch(context, run, self._wakeup.notify_all)
        self._model_away = False
        self._machine = MachineWatch(context, run, self._wakeup.notify_all)
        self._exits = WorkerExitHandler(context, run, engine, self._launcher, self._machine)
        self._faults = faults or FaultRepeater(context, run)
        self._exited: ProcessExit | None = None  # not handled yet
        self._landing = LandingLoop(context, run, self._queue, self._wakeup, self._is_stuck_on_held)
        self._final_gates: FinalGateStatus = "unproven"
        self._cause: EndCause = "done"
        self._why = ""
        self._stopping = asyncio.Event()

    @property
    def is_ending(self) -> bool:
        """Return whether running work ends at once."""
        return self._stopping.is_set()

    def request_stop(self, cause: EndCause, why: str = "") -> None:
        """Start nothing new and end: at once for `stopped` and `cancelled`, else once running work has finished."""
        # The first cause wins, but stopping and cancelling do not wait for running work.
        if self._cause == "done" or cause in {"stopped", "cancelled"}:
            self._cause, self._why = cause, why
        if self._cause in {"stopped", "cancelled"}:
            self._stopping.set()
        self._wakeup.notify_all()

    async def execute(self) -> RunEnding:
        """Execute the run until it ends or is asked to stop; no child process outlives this call.

        Raises ScaffoldError if the system refuses a process or a file; the run can be resumed. Raises
        EnvironmentNotReady, and fails the run, if results of checks would not be reliable.
        """
        try:
            self._activate_run()
            with contextlib.closing(WakeFifo(self._context.wake_fifo(self.run.id), self._wakeup.notify_all)):
                await self._run_tasks()
            ending = await self._end_run()
            # The end changes stories. Another process may own the run by now, but both write what the store says.
            await self._files.write()
        except OSError as error:
            raise ScaffoldError(
                f"run {self.run.id} cannot continue: {error}", "Fix that, then run `scaffold resume`."
            ) from error
        return ending

    async def _run_tasks(self) -> None:
        """Capture the baseline, then run all tasks until one says that the run is over; stop every child at the end."""
        try:
            # Before any supervisor: an unusable environment is found before a model costs money.
            await self._run_until_first_ends(
                partial(self._machine.when_free, partial(self._ensure_baseline, self._context, self.run)),
                partial(renew_lease, self._context, self.run),
                self._watch_control_requests,
            )
            if not self._stopping.is_set():
                await self._run_until_first_ends(
                    # First, because the disk may be full.
                    self._machine.watch,
                    self._wait_until_done,
                    partial(renew_lease, self._context, self.run),
                    self._supervise_goals,
                    self._supervisors.end_unresponsive,
                    self._start_attempts,
                    self._handle_exits,
                    self._landing.run,
                    self._watch_control_requests,
                    self._end_overdue_workers,
                    self._models.watch,
                    self._hold_while_model_is_away,
                )
            await self._exits.let_workers_exit()
        finally:
            # Before the end is stored: no child may go on working in a run that this process has released.
            await self._queue.end_proofs()
            await self._engine.close(grace_s=STOP_GRACE_S)

    async def _run_until_first_ends(self, *repeated: Callable[[], Awaitable[None]]) -> None:
        """Run the tasks, each again after a fault of the machine, until one ends or a stop is requested."""
        tasks = [asyncio.ensure_future(each) for each in (*map(self._faults.run, repeated), self._stopping.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # Several may be done at once, and the error of one must not be lost.
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _activate_run(self) -> None:
        store = self._context.store
        with owner_transaction(store, self.run, durable=True):
            if not isinstance(require_run(store, self.run.id).state, Active):
                store.runs.move(self.run.id, Active(), fence=self.run.fence)
            for goal in store.goals.for_run(self.run.id):
                # A goal that the user paused on its own stays paused when the run is resumed.
                if isinstance(goal.state, Planning | Paused) and goal.state != Paused(PAUSED_BY_USER):
                    store.goals.move(goal.id, Active())

    def _may_dispatch(self) -> bool:
        return self._cause == "done" and not self._model_away

    async def _supervise_goals(self) -> None:
        """Keep supervisors running while new work may start; never returns."""
        while True:
            await self._keep_supervisors()
            if self._model_away:
                await self._supervisors.stop_all()
            else:
                self._set_goals_aside()
            while not self._may_dispatch():
                await self._wakeup.next_event().wait()

    def _set_goals_aside(self) -> None:
        # The supervisors of paused goals end with their present turn.
        cause = unfinished_cause(self._cause)
        if self._stopping.is_set() or cause == "cancelled":  # the engine ends them
            return
        active = [goal for goal in self._run_goals() if isinstance(goal.state, Active)]
        with owner_transaction(self._context.store, self.run, durable=True):
            for goal in active:
                self._context.store.goals.move(goal.id, Paused(PAUSE_REASONS[cause] + self._why))
        self._supervisors.wake({goal.id for goal in active})

    async def _keep_supervisors(self) -> None:
        """Keep supervisors running until no new work may start."""
        keeper = asyncio.create_task(self._supervisors.keep())
        # Otherwise the loop would sleep on after an error of the keeper.
        keeper.add_done_callback(lambda _: self._wakeup.notify_all())
        try:
            while self._may_dispatch():
                event = self._wakeup.next_event()
                self._wake_goals()
                if keeper.done():
                    keeper.result()
                await event.wait()
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _hold_while_model_is_away(self) -> None:
        """Pause the run while its model's endpoint is away for longer than agents wait; never returns."""
        while True:
            # After a fault this task starts again, while the run may still be paused.
            if not self._model_away:
                await self._models.until_away(self.run.settings.limits.model_wait_s)
                self._model_away = self._may_dispatch()
            if self._model_away:
                self._models.tell()
                hold_run(self._context.store, self.run, f"waits for {self._models.waits_for}")
                self._wakeup.notify_all()
            await self._models.until_back()
            if self._model_away:
                self._activate_run()
                self._model_away = False
                self._wakeup.notify_all()

    def _wake_goals(self) -> None:
        changes = self._changes.read()
        if changes.statuses:
            self._supervisors.check_goals()
        if changes.goals:
            self._supervisors.wake(changes.goals | slots_by_goal(self._context.store, self.run).keys())

    async def _start_attempts(self) -> None:
        """Start the attempts that supervisors queue, while new work may start."""
        while True:
            event = self._wakeup.next_event()
            if self._may_dispatch() and not (self._models.parked or self._machine.waits_for):
                await self._launcher.start_queued()
            await event.wait()

    async def _handle_exits(self) -> None:
        while True:
            # Kept until it is handled, because this task starts again after a fault.
            self._exited = exited = self._exited or await self._engine.next_exit()
            if isinstance(exited, SupervisorExit):
                self._supervisors.handle_exit(exited)
                outcome = OUTCOME_BY_EXIT_CODE.get(exited.code)
            else:
                outcome = await self._exits.handle_exit(exited)
                if why := self._exits.unchanged_start(exited):
                    self.request_stop("unchanged", why)
            # An attempt may have used its action's share alone.
            is_used = (
                isinstance(exited, SupervisorExit) or budget_use(self._context.store, self.run).reached is not None
            )
            if outcome == "budget" and is_used:
                self.request_stop("limit")
            elif outcome == "no_access":
                self.request_stop("unavailable", f": {self._last_error(exited)}")
            elif outcome == "unavailable":
                self._models.look()
            self._exited = None
            self._wakeup.notify_all()

    def _last_error(self, exited: ProcessExit) -> str:
        store = self._context.store
        if isinstance(exited, AttemptExit):
            attempt = store.attempts.get(exited.attempt_id)
            return attempt.error or "" if attempt else ""
        errors = [
            turn.error for turn in store.turns.for_run(self.run.id) if turn.goal_id in exited.goals and turn.error
        ]
        return errors[-1] if errors else ""

    async def _end_overdue_workers(self) -> None:
        while True:
            await self._exits.end_overdue()
            if any((self._exits.watch_inbox(), self._supervisors.wake_rested())):
                self._wakeup.notify_all()
            await self._context.clock.sleep(OVERDUE_POLL_S)

    def _is_stuck_on_held(self) -> bool:
        """Return whether only held candidates are left, and the actions that they wait for cannot go on."""
        store = self._context.store
        working, candidates = self._open_attempts()
        if not self._may_dispatch() or working or not self._queue.held or candidates != self._queue.held:
            return False
        return not (store.turns.open_of_run(self.run.id) or can_start(store, self.run))

    async def _watch_control_requests(self) -> None:
        store, seen, last_seq = self._context.store, -1, -1
        while True:
            await apply_control_requests(self._context, self.run, self._engine)
            if (version := store.data_version()) != seen:
                seen = version
                # Every change of a goal is an event, e.g. a worker's progress or a human's retry; heartbeats are not.
                if (seq := store.events.last_seq(self.run.id)) != last_seq:
                    last_seq = seq
                    self._wakeup.notify_all()
                    await self._files.write()
                match store.runs.control_request(self.run.id):
                    case "stop":
                        self.request_stop("stopped")
                    case "pause":
                        self.request_stop("paused")
                    case "cancel":
                        self.request_stop("cancelled")
                    case "resume":
                        self._withdraw_pause()
                    case None:
                        pass
            await self._context.clock.sleep(CONTROL_POLL_S)

    def _withdraw_pause(self) -> None:
        # Unless the run is already ending. Clearing the request is the answer.
        if self._cause == "paused" and not self._stopping.is_set():
            self._cause = "done"
            self._activate_run()
        if self._cause == "done":
            with owner_transaction(self._context.store, self.run, durable=True):
                self._context.store.runs.answer(self.run.id, "resume")
            self._wakeup.notify_all()

    async def _wait_until_done(self) -> None:
        """Return when nothing is left to do: all goals have ended, or nothing is running and nothing may start."""
        store = self._context.store
        while True:
            event = self._wakeup.next_event()
            if (verdict := state_from_goals(store, self.run.id)) is not None:
                if await self._is_finished(verdict):
                    return
                continue
            if self._model_away and self._cause == "done":
                await event.wait()
                continue
            with store.snapshot():  # no attempt may be queued between two of these reads
                working, candidates = self._open_attempts()
                held = self._landing.branch_held and not working and not can_start(store, self.run)
                paused = not (working or candidates) and self._all_goals_paused()
            # A candidate may wait for a held branch for days; it stays pinned and lands when the run is resumed.
            planning = bool(store.turns.open_of_run(self.run.id))
            if not self._may_dispatch() and not (working or planning or (candidates and not self._landing.branch_held)):
                self._stopping.set()  # a pause can no longer be withdrawn
                return
            if held:
                self.request_stop("held")
                return
            if paused:
                self.request_stop("paused")
                return
            if not (working or candidates) and pause_if_waiting(store, self.run, self._queue.approvals.resting):
                self.request_stop("waiting")
                return
            await event.wait()

    async def _is_finished(self, verdict: Completed | Failed | Cancelled) -> bool:
        """Return whether the run is over, now that all goals have ended; runs all gates at the tip.

        It is not over if a desired assertion no longer holds on a branch that others moved, or if a round follows.
        """
        if not isinstance(verdict, Completed) or not self._may_dispatch():
            return True
        # The user may have committed to the session branch, and broken facts that the goals rest on.
        await self._queue.recheck_facts()
        holds = state_from_goals(self._context.store, self.run.id) is not None
        judged = await judge_end(self._context, self.run, self._queue.run_all_gates) if holds else None
        if judged is None:
            self._wakeup.notify_all()
            return False
        self._final_gates = judged
        return True

    def _open_attempts(self) -> tuple[int, int]:
        """Return (working attempts, candidates that wait to land but not for a human)."""
        attempts = self._context.store.attempts
        slots = attempts.slots(self.run.id).values()
        working = sum(use.working for use in slots)
        # Once nothing new may start, queued attempts without a worker do not count.
        if not self._may_dispatch():
            working -= sum(not self._launcher.has_started(each) for each in attempts.queued(self.run.id))
        waiting = sum(use.candidates for use in slots) - len(self._queue.approvals.resting)
        # Once nothing new may start, the actions that held candidates wait for do not run.
        return working, waiting if self._may_dispatch() else max(0, waiting - self._queue.held)

    def _all_goals_paused(self) -> bool:
        """Return whether the user has paused all unfinished goals; False if there are none."""
        unfinished = [goal for goal in self._run_goals() if isinstance(goal.state, Planning | Active | Paused)]
        return bool(unfinished) and all(goal.state == Paused(PAUSED_BY_USER) for goal in unfinished)

    def _run_goals(self) -> tuple[Goal, ...]:
        return self._context.store.goals.for_run(self.run.id)

    async def _end_run(self) -> RunEnding:
        # The engine has ended them, but their exits are no longer handled.
        await end_orphaned_supervisors(self._context, self.run)
        # The engine killed the workers, so their attempts are ended and their work is pinned here.
        await recover_ended_run(self._context, self.run, self._cause)
        await self._queue.close()
        # A cancellation waits while its action is landing; it applies if that did not land.
        await apply_control_requests(self._context, self.run, None)
        store = self._context.store
        if self._model_away:  # it is paused for its model, and now ends for another reason
            self._activate_run()
        # `pause_if_waiting` has paused it.
        if isinstance(require_run(store, self.run.id).state, Paused) and self._cause != "cancelled":
            release_run(store, self.run)
            return RunEnding(state=require_run(store, self.run.id).state, cause=self._cause)
        cause = unfinished_cause(self._cause)
        if cause == "cancelled":
            cancel_attempts(store, self.run)
        # Before the end: no command continues a run that is over, so files missing after a kill would stay missing.
        await self._files.write()
        state = finish_run(store, self.run, cause, self._final_gates, why=self._why)
        left_open = isinstance(state, Paused) or (isinstance(state, Cancelled) and cause == "cancelled")
        return RunEnding(state=state, cause=cause if left_open else "done")


async def recover_run_owner(
    context: RunContext,
    run: Run,
    engine: Engine,
    *,
    baseline: BaselineCapture = ensure_baseline,
    faults: FaultRepeater | None = None,
    merger: Merger | None = None,
) -> RunOwner:
    """Recover what a dead owner left and return a RunOwner for the run, which this process owns."""
    await recover_from_dead_owner(context, run)
    return RunOwner(context, run, engine, baseline=baseline, faults=faults, merger=merger)
