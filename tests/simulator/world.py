"""One run from its plan to its end: owners start and die, users intervene, faults stop, and the run must end."""

import asyncio
import os
from contextvars import copy_context
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

from msgspec import Struct, structs

from builders import make_settings, with_settings
from scaffold.core.errors import RunBusy, ScaffoldError, StaleFence
from scaffold.core.ids import AttemptId, Commit, RunId
from scaffold.core.model import Action, Run
from scaffold.core.states import PAUSED_BY_USER, Cancelled, Completed, Failed, Paused
from scaffold.git.repository import CheckoutStatus, Repository
from scaffold.orchestrator.owner.processes.engine import GoalGroup
from scaffold.orchestrator.owner.run_lease import is_lease_expired, require_run, take_over_run, take_over_run_when_free
from scaffold.orchestrator.owner.run_loop import recover_run_owner
from scaffold.orchestrator.supervisor.goal_process import supervise_goals
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.run.context import RunContext
from simulator import planner, worker
from simulator.branch_changes import BranchChanges, change_branch
from simulator.database import Database
from simulator.engine import Ended, Main, SimulatedEngine
from simulator.faults import NO_FAULTS, FaultInjector, FaultRates
from simulator.focus import NO_FOCUS, Focus
from simulator.invariants import FinalState, InvariantChecker
from simulator.loop import VirtualClock, VirtualLoop
from simulator.memory_git import MemoryGit, Objects
from simulator.planner import SimulatedPlanner
from simulator.plans import LAYOUT, plan_at_random, without_some_files
from simulator.processes import CURRENT, Killed, Process
from simulator.stories import Stories
from simulator.users import act_at_random, answer_at_random
from simulator.worker import SimulatedWorker, SimulatedWorktrees

KILLED = -9
BROKEN = 1
FAULTS_S = 25.0
"""How long faults occur."""
TIMEOUT_S = 900.0
"""How long a whole run may take."""
POLL_S = 0.5


class Outcome(Struct, frozen=True, kw_only=True):
    """How a simulated run went."""

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    """Every event of the run, with its time."""
    seconds: float
    """Virtual seconds."""


class Simulation:
    """The environment of the processes: machine, repository, users."""

    def __init__(self, seed: int, folder: Path, loop: VirtualLoop, focus: Focus) -> None:
        self.rng = Random(seed)
        self.focus = focus
        self.branch_changes = BranchChanges(Random(f"reverts {seed}"), focus)
        self.stories = Stories(seed)
        self._files_rng = Random(f"files {seed}")
        self._undeclared: dict[str, tuple[str, ...]] = {}
        """The files of actions whose plan names none."""
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.faults = FaultInjector(self.rng, _fault_rates(self.rng, focus), self._on_death)
        loop.wake_delays = self.faults.wake_delays
        self.database = Database()
        self.objects = Objects()
        self.worktrees = SimulatedWorktrees(self.objects)
        self.failures: list[str] = []
        """Errors with which a process must not end."""
        self.faults_ended = asyncio.Event()
        self._folder = folder
        self._outside = copy_context()
        self._processes: list[Process] = []
        self._owners: dict[Process, SimulatedEngine] = {}
        self._always_fails: dict[str, bool] = {}
        self._always_dies: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.context = self._context_of(Process(1, "outside"), NO_FAULTS)
        self.run_id = self._open_run()
        self.checker = InvariantChecker(self.context.store, self.run_id, self.database, self.objects)

    @property
    def under_faults(self) -> bool:
        """Return whether faults still occur."""
        return self.loop.time() < FAULTS_S

    @property
    def has_violation(self) -> bool:
        """Return whether a violation was found already."""
        return bool(self.failures or self.checker.violations)

    async def run_to_end(self) -> None:
        """Run until the end, or the first violation."""
        background = [
            asyncio.create_task(each)
            for each in (self._end_faults(), self._freeze_processes(), act_at_random(self), answer_at_random(self))
        ]
        while (
            not self._over() or self.branch_changes.may_follow(self.context.store, self.checker.run)
        ) and not self.has_violation:
            if self.loop.time() > TIMEOUT_S:
                self.failures.append(f"after {TIMEOUT_S:g} s the run has not ended")
                break
            if not self._branch_changed():
                self._restart_owner()
            await asyncio.sleep(POLL_S)
        for each in background:
            each.cancel()
        await asyncio.wait(background)
        self.failures += [f"{each.exception()!r}" for each in background if not each.cancelled() and each.exception()]
        await self._shut_down()

    def violations(self) -> list[str]:
        """Return all violations."""
        found = self.failures + self.checker.violations
        if found:
            return found
        return FinalState(self.context.store, self.checker.run, self.objects, self.worktrees, self.checker).violations()

    def spawn(self, name: str, main: Main, ended: Ended) -> Process:
        """Start a process; `ended` gets its exit code once all its tasks have ended."""
        process = Process(1000 + len(self._processes), name)
        self._processes.append(process)
        context = self._outside.copy()
        context.run(CURRENT.set, process)
        task = self.loop.create_task(main(process), context=context)
        self._start_task(self._wait_for_exit(process, task, ended))
        return process

    def configure(self, **changes: object) -> None:
        """Change the run's settings, as a user does who resumes it with others."""
        with self.context.store.transaction():
            settings = with_settings(self.checker.run.settings, **changes)
            self.context.store.runs.configure(self.run_id, settings)

    def _open_run(self) -> RunId:
        base = self.objects.commit_to("refs/heads/main", {"README.md": "# Sample"})
        settings = make_settings(
            repository=str(self._folder),
            model="simulated",
            planner=self.rng.random() < 0.7,
            agents=self.rng.randint(1, 4),
            attempts=self.rng.randint(1, 3),
            replans=self.rng.randint(1, 3),
            attempt_timeout_s=20.0,
            budget_usd=self.rng.uniform(0.3, 4.0) if self.rng.random() < 0.3 else None,
            collisions=self._files_rng.random() < 0.7,
            directory_agents=self._files_rng.randint(1, 3),
        )
        plan, self._undeclared = without_some_files(plan_at_random(self.rng, self.focus.shared_files), self._files_rng)
        plan, store = self.stories.added_to(plan), self.context.store
        if self.focus.agents is not None:
            settings = with_settings(settings, agents=self.focus.agents)
        survey = CheckoutStatus(Commit(base), "main", dirty=False)
        work = RunInput(request="simulated", source="", plan=plan)
        run = open_run(store, work, survey=survey, settings=settings, now=self.clock.now())
        with store.transaction():
            # A run reads it from git before it begins.
            store.scheduling.set_layout(run.id, run.base_sha, LAYOUT)
            for goal in store.goals.for_run(run.id):
                self.database.sqlite.change(
                    "UPDATE goal SET worker_cap = :cap WHERE id = :id", {"cap": self.rng.randint(1, 3), "id": goal.id}
                )
        return run.id

    def _context_of(self, process: Process, rates: FaultRates | None = None) -> RunContext:
        """Return the context of a process; with its own `rates`, it is not affected by the faults."""
        faults = self.faults if rates is None else FaultInjector(self.rng, rates, self._on_death)
        git: Any = MemoryGit(self.objects, process, faults, self._folder)
        return RunContext(
            repository=Repository(self._folder, self._folder / ".git", git),
            store=self.database.open(process, self.clock, faults),
            clock=self.clock,
            cache=self._folder / "cache",
            environ={},
        )

    def _over(self) -> bool:
        """Return whether nothing will change any more: the run has ended, or users left it paused."""
        run = self.checker.run
        if any(not each.dead for each in self._owners):
            return False
        if isinstance(run.state, Completed | Cancelled):
            return True
        if self.under_faults or isinstance(run.state, Failed):
            return not self.under_faults
        goals = self.context.store.goals.for_run(self.run_id)
        open_goals = [goal for goal in goals if not isinstance(goal.state, Completed | Failed | Cancelled)]
        # What was handed in waits for an owner, even in a goal that its user has set aside.
        waits = self.context.store.attempts.ids_waiting_to_land(self.run_id)
        left_paused = isinstance(run.state, Paused) and run.owner is None and not waits
        # Without open goals, only the last proof is missing: whoever paused the run, by a rebase, resumes it for that.
        return left_paused and bool(open_goals) and all(goal.state == Paused(PAUSED_BY_USER) for goal in open_goals)

    def _branch_changed(self) -> bool:
        """Let a user revert or rebase at random; return whether one tries. No process may own the run."""
        if any(not each.dead for each in self._owners):
            return False
        chosen = self.branch_changes.choose(self.context.store, self.checker.run)
        if chosen is None:
            return False
        if chosen and not isinstance(chosen, Action):
            self.objects.commit_to(f"refs/heads/{self.checker.run.base_branch}", chosen)
        action = chosen if isinstance(chosen, Action) else None
        process = self.spawn("branch change", partial(self._change_branch, action=action), lambda _: None)
        self._owners[process] = SimulatedEngine(self, process, self._run_worker, self._run_supervisor)
        return True

    async def _change_branch(self, process: Process, action: Action | None) -> int:
        dies = self.focus.deaths_in_branch_changes
        rates = None if dies is None or not self.under_faults else FaultRates(crash=dies)
        run_context = self._context_of(process, rates)
        take_over_run(run_context, self.run_id)
        await self._end_leftovers()
        await change_branch(run_context, self.run_id, action)
        return 0

    def _restart_owner(self) -> None:
        """Resume a run without an owner, or whose owner seems to hang."""
        run = self.checker.run
        if isinstance(run.state, Completed | Failed | Cancelled):
            return
        alive = [each for each in self._owners if not each.dead]
        if (not alive and (not self.under_faults or self.faults.happens(0.3))) or (
            alive
            and all(each.frozen for each in alive)
            and is_lease_expired(self.context, run)
            and self.faults.happens(0.3)
        ):
            self._start_owner()

    def _start_owner(self) -> None:
        process = self.spawn("owner", self._run_owner, lambda _: None)
        self._owners[process] = SimulatedEngine(self, process, self._run_worker, self._run_supervisor)

    async def _run_owner(self, process: Process) -> int:
        run_context = self._context_of(process)
        run = await take_over_run_when_free(run_context, self.run_id)
        await self._end_leftovers()
        owner = await recover_run_owner(run_context, run, self._owners[process], baseline=_no_gates)
        await owner.execute()
        return 0

    async def _end_leftovers(self) -> None:
        """Kill the workers of earlier owners, as Scaffold does by their identity; supervisors may still run.

        Their boot id is unknown to Scaffold, which takes them for dead, so they are killed here.
        """
        recorded = {attempt.worker for attempt in self.context.store.attempts.open_of_run(self.run_id)}
        for process in self._processes:
            if process.identity in recorded and not process.dead:
                self.faults.kill(process)
                await process.unwind()

    async def _run_worker(self, process: Process, attempt_id: AttemptId) -> int:
        behaviour = self._worker_behaviour(attempt_id)
        run_context = self._context_of(process)

        def asks(action: Action) -> worker.Asked:
            if action.workspace == "own":
                return worker.Asked(files=self._undeclared.get(action.key, action.files))
            edits = self.stories.edits(run_context.store, action)
            return worker.Asked(files=self.stories.files_of(action), edits=edits)

        return await SimulatedWorker(run_context, process, self.faults, self.worktrees, behaviour, asks).execute(
            attempt_id
        )

    async def _run_supervisor(self, process: Process, goals: GoalGroup) -> int:
        await asyncio.sleep(self.rng.uniform(0.01, 0.3))
        run_context = self._context_of(process)
        run = require_run(run_context.store, self.run_id)
        planner = SimulatedPlanner(run_context, run, self.faults, self._planner_behaviour)
        return await supervise_goals(run_context, run, goals, planner, self._report_error)

    def _report_error(self, error: Exception) -> None:
        """Record an error that ends a process of supervisors, unless it is a fault of the machine."""
        if not _expected(error):
            self.failures.append(f"a supervisor ended with {error!r}")

    def _worker_behaviour(self, attempt_id: AttemptId) -> worker.Behaviour:
        attempt = self.context.store.attempts.get(attempt_id)
        action = None if attempt is None else self.context.store.actions.get(attempt.action_id)
        if action is None:
            raise LookupError(attempt_id)
        if action.workspace == "parent":
            return self.stories.behaviour(action, self.faults, under_faults=self.under_faults)
        if action.key not in self._always_fails:
            self._always_fails[action.key] = self.rng.random() < 0.07
            self._always_dies[action.key] = self.rng.random() < 0.05
        if self._always_fails[action.key]:
            return self.faults.draw((("fails", 2), ("idles", 1), ("breaks", 1)))
        if self._always_dies[action.key] and self.under_faults:
            return "dies"
        return self.faults.draw(worker.behaviours(self.focus.questions)) if self.under_faults else "good"

    def _planner_behaviour(self) -> planner.Behaviour:
        return self.faults.draw(planner.BEHAVIOURS) if self.under_faults else "good"

    async def _end_faults(self) -> None:
        """Stop all faults after a while: from then on the run must end."""
        await asyncio.sleep(FAULTS_S)
        self.faults.rates = NO_FAULTS
        self.configure(budget_usd=None)
        self.faults_ended.set()

    async def _freeze_processes(self) -> None:
        """Freeze processes at random times, and let them continue later."""
        while self.under_faults:
            await asyncio.sleep(self.rng.uniform(1.0, 15.0))
            alive = [each for each in self._processes if not each.dead and not each.frozen]
            owners = [each for each in alive if each in self._owners]
            if alive:
                process = self.rng.choice(owners if owners and self.faults.happens(0.5) else alive)
                process.frozen = True
                self._start_task(self._release(process, self.rng.choice((0.5, 3.0, 9.0, 30.0))))
            if self.faults.happens(0.05):
                self._power_cut()

    async def _release(self, process: Process, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.loop.thaw(process)

    def _power_cut(self) -> None:
        """Kill all processes of the machine at the same time."""
        for process in self._processes:
            if not process.dead:
                self.faults.kill(process)

    def _on_death(self, process: Process) -> None:
        self.loop.thaw(process)
        self._start_task(process.unwind())

    async def _wait_for_exit(self, process: Process, task: "asyncio.Task[int]", ended: Ended) -> None:
        """Wait for a process to end; its children end a moment after it."""
        await asyncio.wait([task])
        code = self._code(process, task)
        process.dead = True
        await process.unwind()
        for child in self._owners[process].children if process in self._owners else ():
            self.loop.call_later(self.rng.uniform(0.0, 4.0), self._kill_child, child)
        ended(code)

    def _kill_child(self, child: Process) -> None:
        """End a child whose lifeline broke; a frozen one ends when it continues."""
        if not child.dead:
            self.faults.kill(child)

    def _code(self, process: Process, task: "asyncio.Task[int]") -> int:
        if process.signalled:
            return KILLED
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            return task.result()
        if not _expected(error):
            self.failures.append(f"{process.name} ended with {error!r}")
        return BROKEN

    def _start_task(self, work: Any) -> None:
        """Start a task outside all processes."""
        task = self.loop.create_task(work, context=self._outside.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shut_down(self) -> None:
        self._power_cut()
        while self._tasks:
            await asyncio.wait(self._tasks)


def _expected(error: BaseException) -> bool:
    """Return whether a process may end with this error: superseded, or a fault of the machine."""
    if isinstance(error, StaleFence | RunBusy | Killed):
        return True
    return isinstance(error, ScaffoldError) and (
        "database lock" in error.what or "cannot start a process" in error.what
    )


def _fault_rates(rng: Random, focus: Focus) -> FaultRates:
    """Return the fault rates of a run: some are high for one kind only."""
    rates = FaultRates(
        crash=rng.choice((0.0, 0.005, 0.02, 0.05)),
        locked=rng.choice((0.0, 0.0, 0.005)),
        lost_wakeup=rng.choice((0.0, 0.2, 0.6)),
        slow_git=rng.choice((0.0, 0.02, 0.1)),
        slow_landing=rng.choice((0.0, 0.3, 0.9)),
        no_process=rng.choice((0.0, 0.0, 0.02)),
    )
    return rates if focus.slow_git is None else structs.replace(rates, slow_git=focus.slow_git)


def simulate(seed: int, folder: Path, focus: Focus = NO_FOCUS) -> Outcome:
    """Simulate one run on virtual time, with all faults of the seed, and return its outcome."""
    (folder / ".git").mkdir(parents=True)
    loop = VirtualLoop()
    try:
        simulation = loop.run_until_complete(_simulated(seed, folder, loop, focus))
    finally:
        loop.close()
    return Outcome(
        seed=seed, violations=tuple(simulation.violations()), trace=tuple(_lines(simulation)), seconds=loop.time()
    )


async def _simulated(seed: int, folder: Path, loop: VirtualLoop, focus: Focus) -> Simulation:
    simulation = Simulation(seed, folder, loop, focus)
    await simulation.run_to_end()
    return simulation


def _lines(simulation: Simulation) -> list[str]:
    """Return the events, with keys for the ids that differ from run to run."""
    store = simulation.context.store
    keys = {action.id: action.key for action in store.actions.for_run(simulation.run_id)}
    names = (
        keys
        | {simulation.run_id: "RUN", f"pid={os.getpid()}": "pid=owner"}
        | {goal.id: goal.name for goal in store.goals.for_run(simulation.run_id)}
    )
    for attempt in store.attempts.for_run(simulation.run_id):
        names[attempt.id] = f"{keys[attempt.action_id]}#{attempt.number}"
    names |= {item.id: f"item {place}" for place, item in enumerate(store.inbox.all())}
    lines = [f"{each.seq} {each.at:%H:%M:%S.%f} {each.event}" for each in simulation.checker.trace]
    for name, readable in names.items():
        lines = [line.replace(name, readable) for line in lines]
    return lines


async def _no_gates(run_context: RunContext, run: Run) -> None:
    """Use an empty baseline: there is no repository on disk with gates to run."""
