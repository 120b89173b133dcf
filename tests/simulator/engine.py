"""The engine of the simulation: workers and supervisors are simulated processes that end when their owner does."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.orchestrator.owner.processes.engine import AttemptExit, GoalGroup, ProcessExit, SupervisorExit
from simulator.faults import FaultInjector
from simulator.processes import Process

Main = Callable[[Process], Coroutine[Any, Any, int]]
Ended = Callable[[int], None]


class ProcessFactory(Protocol):
    """Creates simulated processes."""

    faults: FaultInjector

    def spawn(self, name: str, main: Main, ended: Ended) -> Process:
        """Start a process; `ended` gets its exit code once all its tasks have ended."""
        ...


class SimulatedEngine:
    """Implements `orchestrator.engine.Engine` for one owner. Every call is refused once the owner is dead."""

    def __init__(
        self,
        factory: ProcessFactory,
        owner: Process,
        work: Callable[[Process, AttemptId], Coroutine[Any, Any, int]],
        supervise: Callable[[Process, GoalGroup], Coroutine[Any, Any, int]],
    ) -> None:
        self._factory = factory
        self._owner = owner
        self._work = work
        self._supervise = supervise
        self._exits: asyncio.Queue[ProcessExit] = asyncio.Queue()
        self._workers: dict[AttemptId, Process] = {}
        self._supervisors: dict[GoalGroup, Process] = {}

    @property
    def children(self) -> tuple[Process, ...]:
        """Return the processes that end with this engine's owner."""
        return tuple(each for each in (*self._supervisors.values(), *self._workers.values()) if not each.dead)

    @property
    def workers(self) -> tuple[AttemptId, ...]:
        """The attempts whose workers have not ended."""
        return tuple(attempt for attempt, process in self._workers.items() if not process.dead)

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker for a queued attempt; OSError if the machine cannot start a process."""
        await self._wait_to_start()
        self._workers[attempt.id] = self._factory.spawn(
            f"worker of {attempt.number}",
            partial(self._work, attempt_id=attempt.id),
            lambda code: self._exits.put_nowait(AttemptExit(attempt.id, code)),
        )

    async def start_supervisor(self, goals: GoalGroup) -> ProcessIdentity:
        """Start the supervisors of some goals; OSError if the machine cannot start a process."""
        await self._wait_to_start()
        self._supervisors[goals] = process = self._factory.spawn(
            "supervisor",
            partial(self._supervise, goals=goals),
            lambda code: self._exits.put_nowait(SupervisorExit(goals, code)),
        )
        return process.identity

    async def next_exit(self) -> ProcessExit:
        """Wait for a child to end."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """Kill a worker and wait until all its tasks have ended."""
        await self._end(self._workers.get(attempt))

    async def stop_supervisor(self, goals: GoalGroup, *, grace_s: float) -> None:
        """Kill a process of supervisors and wait until all its tasks have ended."""
        await self._end(self._supervisors.get(goals))

    async def close(self, *, grace_s: float) -> None:
        """Kill every child that is left."""
        for process in self.children:
            await self._end(process)

    async def _wait_to_start(self) -> None:
        self._owner.require_alive()
        await asyncio.sleep(self._factory.faults.latency_s())
        self._owner.require_alive()
        if self._factory.faults.happens(self._factory.faults.rates.no_process):
            raise OSError("cannot start a process")

    async def _end(self, process: Process | None) -> None:
        self._owner.require_alive()
        if process is not None and not process.dead:
            self._factory.faults.kill(process)
            await process.unwind()
