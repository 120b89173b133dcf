"""The local engine: a process for each attempt, supervisors as tasks of this process."""

import asyncio
from collections.abc import Awaitable, Callable

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt
from scaffold.host.child import Child
from scaffold.orchestrator.engine import AttemptExit
from scaffold.orchestrator.exits import Exits
from scaffold.orchestrator.workers import Workers


class LocalEngine:
    """Attempts as children of this process; their lifeline breaks with it, however it ends."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._children: dict[AttemptId, Child] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._exits = Exits()

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker process for a queued attempt."""
        child = await self._workers.start(attempt)
        self._children[attempt.id] = child
        watcher = asyncio.create_task(self._watch(attempt.id, child))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def start_supervisor(self, goal: GoalId, main: Callable[[], Awaitable[None]]) -> None:
        """Run a goal's supervisor beside the others; an error in it surfaces in `next_exit`."""
        self._exits.supervise(goal, main)

    async def next_exit(self) -> AttemptExit:
        """Wait for a worker to end; raises what a supervisor raised, if one failed."""
        return await self._exits.next()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """End a worker and all it started."""
        child = self._children.get(attempt)
        if child is not None:
            await child.end(grace_s)

    async def close(self, *, grace_s: float) -> None:
        """End everything this engine started."""
        await self._exits.close()
        async with asyncio.TaskGroup() as group:
            for child in list(self._children.values()):
                group.create_task(child.end(grace_s))
        if self._watchers:
            await asyncio.wait(self._watchers)
        await self._workers.close()

    async def _watch(self, attempt: AttemptId, child: Child) -> None:
        code = await child.wait()
        self._children.pop(attempt, None)
        self._exits.tell(attempt, code)
