"""One run from its plan to its end: owners and users come and go, faults occur, then stop, and the run must end."""

import asyncio
import os
from contextvars import copy_context
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

from msgspec import Struct

from builders import make_settings, with_settings
from scaffold.core.errors import RunBusy, ScaffoldError, StaleFence
from scaffold.core.ids import AttemptId, Commit, GoalId, RunId
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed, Paused
from scaffold.git.repository import CheckoutStatus, Repository
from scaffold.orchestrator.owner.control_requests import PAUSED_BY_USER
from scaffold.orchestrator.owner.open_run import RunInput, open_run
from scaffold.orchestrator.owner.run_lease import is_lease_expired, require_run, take_over_run_when_free
from scaffold.orchestrator.owner.run_loop import recover_run_owner
from scaffold.orchestrator.supervisor.process import supervise_goal
from scaffold.run.context import RunContext
from simulator import planner, worker
from simulator.database import Database
from simulator.engine import Ended, Main, SimulatedEngine
from simulator.faults import NO_FAULTS, FaultInjector, FaultRates
from simulator.invariants import FinalState, InvariantChecker
from simulator.loop import VirtualClock, VirtualLoop
from simulator.memory_git import MemoryGit, Objects
from simulator.planner import SimulatedPlanner
from simulator.plans import plan_at_random
from simulator.processes import CURRENT, Killed, Process
from simulator.users import act_at_random
from simulator.worker import SimulatedWorker, SimulatedWorktrees

KILLED = -9
BROKEN = 1
STORM_S = 25.0
"""How long things go wrong."""
PATIENCE_S = 900.0
"""How long, in all, a run may take until it is over."""
GLANCE_S = 0.5


class Outcome(Struct, frozen=True, kw_only=True):
    """How a simulated run went."""

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    """Every event of the run, with its time."""
    seconds: float
    """Virtual ones."""


class World:
    """Everything around the processes: machine, repository, users."""

    def __init__(self, seed: int, folder: Path, loop: VirtualLoop) -> None:
        self.chance = Random(seed)
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.chaos = FaultInjector(self.chance, _odds(self.chance), self._buried)
        loop.ring_fate = self.chaos.ring_fate
        self.database = Database()
        self.objects = Objects()
        self.bench = SimulatedWorktrees(self.objects)
        self.failures: list[str] = []
        """What no process may end with."""
        self.calm = asyncio.Event()
        self._folder = folder
        self._outside = copy_context()
        self._processes: list[Process] = []
        self._owners: dict[Process, SimulatedEngine] = {}
        self._hopeless: dict[str, bool] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self.context = self._context_of(Process(1, "nobody"), NO_FAULTS)
        self.run_id = self._lay_out()
        self.witness = InvariantChecker(self.context.store, self.run_id, self.database, self.objects)

    @property
    def storming(self) -> bool:
        """Return whether faults still occur."""
        return self.loop.time() < STORM_S

    @property
    def broken(self) -> bool:
        """Return whether a violation was found already."""
        return bool(self.failures or self.witness.violations)

    async def live(self) -> None:
        """Run until the end, or the first violation."""
        meddling = [asyncio.create_task(each) for each in (self._calm_down(), self._stall(), act_at_random(self))]
        while not self._over() and not self.broken:
            if self.loop.time() > PATIENCE_S:
                self.failures.append(f"after {PATIENCE_S:g} s the run is not over")
                break
            self._tend()
            await asyncio.sleep(GLANCE_S)
        for each in meddling:
            each.cancel()
        await asyncio.wait(meddling)
        self.failures += [f"{each.exception()!r}" for each in meddling if not each.cancelled() and each.exception()]
        await self._shut_down()

    def violations(self) -> list[str]:
        """Return all violations."""
        found = self.failures + self.witness.violations
        if found:
            return found
        return FinalState(self.context.store, self.witness.run, self.objects, self.bench, self.witness).violations()

    def spawn(self, name: str, main: Main, ended: Ended) -> Process:
        """Start a process; `ended` gets its exit code once all its tasks have ended."""
        process = Process(1000 + len(self._processes), name)
        self._processes.append(process)
        context = self._outside.copy()
        context.run(CURRENT.set, process)
        task = self.loop.create_task(main(process), context=context)
        self._do(self._see_off(process, task, ended))
        return process

    def configure(self, **changes: object) -> None:
        """Change the run's settings, as a user does who resumes it with others."""
        with self.context.store.transaction():
            settings = with_settings(self.witness.run.settings, **changes)
            self.context.store.runs.configure(self.run_id, settings)

    def _lay_out(self) -> RunId:
        base = self.objects.commit(self.objects.tree({"README.md": "# Sample"}), (), "First")
        settings = make_settings(
            repository=str(self._folder),
            model="simulated",
            planner=self.chance.random() < 0.7,
            agents=self.chance.randint(1, 4),
            attempts=self.chance.randint(1, 3),
            replans=self.chance.randint(1, 3),
            attempt_timeout_s=20.0,
            budget_usd=self.chance.uniform(0.3, 4.0) if self.chance.random() < 0.3 else None,
        )
        plan, store = plan_at_random(self.chance), self.context.store
        survey = CheckoutStatus(Commit(base), "main", dirty=False)
        work = RunInput(request="simulated", source="", plan=plan)
        run = open_run(store, work, survey=survey, settings=settings, now=self.clock.now())
        with store.transaction():
            for goal in store.goals.of_run(run.id):
                self.database.sqlite.change(
                    "UPDATE goal SET worker_cap = :cap WHERE id = :id",
                    {"cap": self.chance.randint(1, 3), "id": goal.id},
                )
        return run.id

    def _context_of(self, process: Process, odds: FaultRates | None = None) -> RunContext:
        """Return the context of a process; with its own `odds`, it is not affected by the faults."""
        chaos = self.chaos if odds is None else FaultInjector(self.chance, odds, self._buried)
        git: Any = MemoryGit(self.objects, process, chaos, self._folder)
        return RunContext(
            repository=Repository(self._folder, self._folder / ".git", git),
            store=self.database.open(process, self.clock, chaos),
            clock=self.clock,
            cache=self._folder / "cache",
            environ={},
        )

    def _over(self) -> bool:
        """Return whether nothing will change any more: the run has ended, or users left it paused."""
        run = self.witness.run
        if any(not each.dead for each in self._owners):
            return False
        if isinstance(run.state, Completed | Cancelled):
            return True
        if self.storming or isinstance(run.state, Failed):
            return not self.storming
        goals = self.context.store.goals.of_run(self.run_id)
        open_goals = [goal for goal in goals if not isinstance(goal.state, Completed | Failed | Cancelled)]
        put_down = isinstance(run.state, Paused) and run.owner is None
        return put_down and all(goal.state == Paused(PAUSED_BY_USER) for goal in open_goals)

    def _tend(self) -> None:
        """Resume a run without an owner, or whose owner seems to hang."""
        run = self.witness.run
        if isinstance(run.state, Completed | Failed | Cancelled):
            return
        alive = [each for each in self._owners if not each.dead]
        if (not alive and (not self.storming or self.chaos.strikes(0.3))) or (
            alive
            and all(each.frozen for each in alive)
            and is_lease_expired(self.context, run)
            and self.chaos.strikes(0.3)
        ):
            self._take_charge()

    def _take_charge(self) -> None:
        process = self.spawn("owner", self._own, lambda _: None)
        self._owners[process] = SimulatedEngine(self, process, self._work, self._pursue)

    async def _own(self, process: Process) -> int:
        run_context = self._context_of(process)
        run = await take_over_run_when_free(run_context, self.run_id)
        await self._end_leftovers()
        conductor = await recover_run_owner(run_context, run, self._owners[process], baseline=_no_gates)
        await conductor.execute()
        return 0

    async def _end_leftovers(self) -> None:
        """Kill the workers that owners before have left, as the product does by their identity; supervisors may linger.

        They are of no boot that it knows: it takes them for dead, and this is where they die.
        """
        recorded = {attempt.worker for attempt in self.context.store.attempts.open_of_run(self.run_id)}
        for process in self._processes:
            if process.identity in recorded and not process.dead:
                self.chaos.kill(process)
                await process.bury()

    async def _work(self, process: Process, attempt_id: AttemptId) -> int:
        fate = self._fate(attempt_id)
        return await SimulatedWorker(self._context_of(process), process, self.chaos, self.bench, fate).carry_out(
            attempt_id
        )

    async def _pursue(self, process: Process, goal_id: GoalId) -> int:
        await asyncio.sleep(self.chance.uniform(0.01, 0.3))
        run_context = self._context_of(process)
        run = require_run(run_context.store, self.run_id)
        return await supervise_goal(
            run_context, run, goal_id, SimulatedPlanner(run_context, run, self.chaos, self._thought)
        )

    def _fate(self, attempt_id: AttemptId) -> worker.Fate:
        attempt = self.context.store.attempts.get(attempt_id)
        action = None if attempt is None else self.context.store.actions.get(attempt.action_id)
        if action is None:
            raise LookupError(attempt_id)
        if action.key not in self._hopeless:
            self._hopeless[action.key] = self.chance.random() < 0.07
        if self._hopeless[action.key]:
            return self.chaos.draw((("fails", 2), ("idles", 1), ("breaks", 1)))
        return self.chaos.draw(worker.FATES) if self.storming else "good"

    def _thought(self) -> planner.Fate:
        return self.chaos.draw(planner.FATES) if self.storming else "good"

    async def _calm_down(self) -> None:
        """Stop all faults after a while: from then on the run must come to its end."""
        await asyncio.sleep(STORM_S)
        self.chaos.odds = NO_FAULTS
        self.configure(budget_usd=None)
        self.calm.set()

    async def _stall(self) -> None:
        """Freeze processes at times, and let them continue later."""
        while self.storming:
            await asyncio.sleep(self.chance.uniform(1.0, 15.0))
            alive = [each for each in self._processes if not each.dead and not each.frozen]
            owners = [each for each in alive if each in self._owners]
            if alive:
                process = self.chance.choice(owners if owners and self.chaos.strikes(0.5) else alive)
                process.frozen = True
                self._do(self._release(process, self.chance.choice((0.5, 3.0, 9.0, 30.0))))
            if self.chaos.strikes(0.05):
                self._power_cut()

    async def _release(self, process: Process, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.loop.thaw(process)

    def _power_cut(self) -> None:
        """Kill every process of the machine at once."""
        for process in self._processes:
            if not process.dead:
                self.chaos.kill(process)

    def _buried(self, process: Process) -> None:
        self.loop.thaw(process)
        self._do(process.bury())

    async def _see_off(self, process: Process, task: "asyncio.Task[int]", ended: Ended) -> None:
        """Wait for a process to end; its children end a moment after it."""
        await asyncio.wait([task])
        code = self._code(process, task)
        process.dead = True
        await process.bury()
        for child in self._owners[process].children if process in self._owners else ():
            self.loop.call_later(self.chance.uniform(0.0, 4.0), self._cut_off, child)
        ended(code)

    def _cut_off(self, child: Process) -> None:
        """End a child whose lifeline broke; a frozen one ends when it continues."""
        if not child.dead:
            self.chaos.kill(child)

    def _code(self, process: Process, task: "asyncio.Task[int]") -> int:
        if process.signalled:
            return KILLED
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            return task.result()
        if not _expected(error):
            self.failures.append(f"{process.name} ended with {error!r}")
        return BROKEN

    def _do(self, errand: Any) -> None:
        """Do something outside of all processes."""
        task = self.loop.create_task(errand, context=self._outside.copy())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _shut_down(self) -> None:
        self._power_cut()
        while self._errands:
            await asyncio.wait(self._errands)


def _expected(error: BaseException) -> bool:
    """Return whether a process may end with this error: superseded, or a fault of the machine."""
    if isinstance(error, StaleFence | RunBusy | Killed):
        return True
    return isinstance(error, ScaffoldError) and ("database lock" in error.what or "no process to spare" in error.what)


def _odds(chance: Random) -> FaultRates:
    """Return the fault rates of a run: some are high in one kind only."""
    return FaultRates(
        crash=chance.choice((0.0, 0.005, 0.02, 0.05)),
        locked=chance.choice((0.0, 0.0, 0.005)),
        deaf=chance.choice((0.0, 0.2, 0.6)),
        slow=chance.choice((0.0, 0.02, 0.1)),
        refused=chance.choice((0.0, 0.0, 0.02)),
    )


def simulate(seed: int, folder: Path) -> Outcome:
    """Simulate one run on virtual time, with all faults of the seed, and return its outcome."""
    (folder / ".git").mkdir(parents=True)
    loop = VirtualLoop()
    try:
        world = loop.run_until_complete(_lived(seed, folder, loop))
    finally:
        loop.close()
    return Outcome(
        seed=seed,
        violations=tuple(world.violations()),
        trace=tuple(_lines(world)),
        seconds=loop.time(),
    )


async def _lived(seed: int, folder: Path, loop: VirtualLoop) -> World:
    world = World(seed, folder, loop)
    await world.live()
    return world


def _lines(world: World) -> list[str]:
    """Return the events, with keys for the ids that differ from run to run."""
    store = world.context.store
    keys = {action.id: action.key for action in store.actions.of_run(world.run_id)}
    names = (
        keys
        | {world.run_id: "RUN", f"pid={os.getpid()}": "pid=owner"}
        | {goal.id: goal.name for goal in store.goals.of_run(world.run_id)}
    )
    for attempt in store.attempts.of_run(world.run_id):
        names[attempt.id] = f"{keys[attempt.action_id]}#{attempt.number}"
    lines = [f"{each.seq} {each.at:%H:%M:%S.%f} {each.event}" for each in world.witness.trace]
    for name, readable in names.items():
        lines = [line.replace(name, readable) for line in lines]
    return lines


async def _no_gates(run_context: RunContext, run: Run) -> None:
    """Use an empty baseline: there is no repository on disk with gates to run."""
