"""The local engine: one process for each attempt and one for each group of goals."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.host.process.child import ChildProcess
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.owner.processes.engine import AttemptExit, GoalGroup, ProcessExit, SupervisorExit
from scaffold.orchestrator.owner.processes.starters import ProcessStarter

FAILED_EXIT_CODE = 1
"""Exit code of an in-process supervisor that raised or was cancelled."""


class LocalEngine:
    """Runs attempts and supervisors as children of this process; they exit when it does, even if it is killed."""

    def __init__(
        self, processes: ProcessStarter, *, here: Callable[[GoalGroup], Coroutine[Any, Any, int]] | None = None
    ) -> None:
        """Run supervisors in this process through `here`, if given, which returns an exit code.

        That saves a process for runs whose supervisors have little to do.
        """
        self._processes = processes
        self._here = here
        self._inside: dict[GoalGroup, asyncio.Task[int]] = {}
        self._workers: dict[AttemptId, ChildProcess] = {}
        self._supervisors: dict[GoalGroup, ChildProcess] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._exits: asyncio.Queue[ProcessExit] = asyncio.Queue()

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker process for a queued attempt."""
        self._workers[attempt.id] = child = await self._processes.start("worker", attempt.id)
        self._start_watcher(self._worker_ends(attempt.id, child))

    async def start_supervisor(self, goals: GoalGroup) -> ProcessIdentity:
        """Start the goals' supervisors as a process, or as a task of this process."""
        if self._here is not None:
            self._inside[goals] = task = asyncio.create_task(self._here(goals))
            task.add_done_callback(partial(self._ends_inside, goals))
            return own_identity()
        self._supervisors[goals] = child = await self._processes.start("supervisor", ",".join(goals))
        self._start_watcher(self._supervisor_ends(goals, child))
        return child.identity

    async def next_exit(self) -> ProcessExit:
        """Wait until a worker or supervisor exits."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """Stop a worker and its children."""
        if (child := self._workers.get(attempt)) is not None:
            await child.end(grace_s)

    async def stop_supervisor(self, goals: GoalGroup, *, grace_s: float) -> None:
        """Stop a process of supervisors and its children."""
        if (task := self._inside.get(goals)) is not None:
            task.cancel()
            await asyncio.wait([task])
        if (child := self._supervisors.get(goals)) is not None:
            await child.end(grace_s)

    async def close(self, *, grace_s: float) -> None:
        """Stop everything this engine started; supervisors first, because they would queue more attempts."""
        for goals in list(self._inside):
            await self.stop_supervisor(goals, grace_s=grace_s)
        for children in (self._supervisors, self._workers):
            async with asyncio.TaskGroup() as group:
                for child in list(children.values()):
                    group.create_task(child.end(grace_s))
        if self._watchers:
            await asyncio.wait(self._watchers)
        await self._processes.close()

    def _start_watcher(self, watching: Coroutine[Any, Any, None]) -> None:
        watcher = asyncio.create_task(watching)
        # The event loop keeps only weak references to its tasks.
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    def _ends_inside(self, goals: GoalGroup, task: asyncio.Task[int]) -> None:
        self._inside.pop(goals, None)
        self._exits.put_nowait(
            SupervisorExit(goals, FAILED_EXIT_CODE if task.cancelled() or task.exception() else task.result())
        )

    async def _worker_ends(self, attempt: AttemptId, child: ChildProcess) -> None:
        code = await child.wait()
        self._workers.pop(attempt, None)
        self._exits.put_nowait(AttemptExit(attempt, code))

    async def _supervisor_ends(self, goals: GoalGroup, child: ChildProcess) -> None:
        code = await child.wait()
        self._supervisors.pop(goals, None)
        self._exits.put_nowait(SupervisorExit(goals, code))
