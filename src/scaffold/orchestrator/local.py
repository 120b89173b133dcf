"""The local engine: a process for each attempt, and one for each goal that is pursued."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.host.child import Child
from scaffold.host.identity import own_identity
from scaffold.orchestrator.engine import AttemptExit, Exit, SupervisorExit
from scaffold.orchestrator.processes import Processes

FAILED = 1
"""The exit code of a supervisor in this process that raised, or was cancelled."""


class LocalEngine:
    """Attempts and supervisors as children of this process; their lifeline breaks with it, however it ends."""

    def __init__(
        self, processes: Processes, *, here: Callable[[GoalId], Coroutine[Any, Any, int]] | None = None
    ) -> None:
        """With `here`, which returns an exit code, goals are pursued in this process: too little for one of its own."""
        self._processes = processes
        self._here = here
        self._inside: dict[GoalId, asyncio.Task[int]] = {}
        self._workers: dict[AttemptId, Child] = {}
        self._supervisors: dict[GoalId, Child] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker process for a queued attempt."""
        self._workers[attempt.id] = child = await self._processes.start("worker", attempt.id)
        self._watch(self._worker_ends(attempt.id, child))

    async def start_supervisor(self, goal: GoalId) -> ProcessIdentity:
        """Start a process that pursues the goal, or do it here."""
        if self._here is not None:
            self._inside[goal] = task = asyncio.create_task(self._here(goal))
            task.add_done_callback(partial(self._ends_inside, goal))
            return own_identity()
        self._supervisors[goal] = child = await self._processes.start("supervisor", goal)
        self._watch(self._supervisor_ends(goal, child))
        return child.identity

    async def next_exit(self) -> Exit:
        """Wait for a worker or a supervisor to end."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """End a worker and all it started."""
        if (child := self._workers.get(attempt)) is not None:
            await child.end(grace_s)

    async def stop_supervisor(self, goal: GoalId, *, grace_s: float) -> None:
        """End a supervisor and all it started."""
        if (task := self._inside.get(goal)) is not None:
            task.cancel()
            await asyncio.wait([task])
        if (child := self._supervisors.get(goal)) is not None:
            await child.end(grace_s)

    async def close(self, *, grace_s: float) -> None:
        """End everything this engine started; supervisors first, they would start more."""
        for goal in list(self._inside):
            await self.stop_supervisor(goal, grace_s=grace_s)
        for children in (self._supervisors, self._workers):
            async with asyncio.TaskGroup() as group:
                for child in list(children.values()):
                    group.create_task(child.end(grace_s))
        if self._watchers:
            await asyncio.wait(self._watchers)
        await self._processes.close()

    def _watch(self, watching: Coroutine[Any, Any, None]) -> None:
        watcher = asyncio.create_task(watching)
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    def _ends_inside(self, goal: GoalId, task: asyncio.Task[int]) -> None:
        self._inside.pop(goal, None)
        self._exits.put_nowait(SupervisorExit(goal, FAILED if task.cancelled() or task.exception() else task.result()))

    async def _worker_ends(self, attempt: AttemptId, child: Child) -> None:
        code = await child.wait()
        self._workers.pop(attempt, None)
        self._exits.put_nowait(AttemptExit(attempt, code))

    async def _supervisor_ends(self, goal: GoalId, child: Child) -> None:
        code = await child.wait()
        self._supervisors.pop(goal, None)
        self._exits.put_nowait(SupervisorExit(goal, code))
