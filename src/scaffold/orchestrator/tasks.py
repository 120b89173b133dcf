"""The engine of tests and simulations: attempts as tasks of this process, in place of processes."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt
from scaffold.orchestrator.engine import AttemptExit
from scaffold.orchestrator.exits import Exits

CRASHED = 1
"""The exit code of a worker that raised."""


class TaskEngine:
    """Runs `work` for each attempt; it returns an exit code, and must end its own children when it is cancelled."""

    def __init__(self, work: Callable[[Attempt], Coroutine[Any, Any, int]]) -> None:
        self._work = work
        self._tasks: dict[AttemptId, asyncio.Task[int]] = {}
        self._exits = Exits()

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a task for a queued attempt."""
        task = asyncio.create_task(self._work(attempt))
        self._tasks[attempt.id] = task
        task.add_done_callback(partial(self._ended, attempt.id))

    async def start_supervisor(self, goal: GoalId, main: Callable[[], Awaitable[None]]) -> None:
        """Run a goal's supervisor beside the others; an error in it surfaces in `next_exit`."""
        self._exits.supervise(goal, main)

    async def next_exit(self) -> AttemptExit:
        """Wait for a worker to end; raises what a supervisor raised, if one failed."""
        return await self._exits.next()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:  # noqa: ARG002 - tasks end at once
        """Cancel a worker's task and wait for it; it counts as killed."""
        task = self._tasks.get(attempt)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self, *, grace_s: float) -> None:
        """End everything this engine started."""
        await self._exits.close()
        for attempt in list(self._tasks):
            await self.stop_attempt(attempt, grace_s=grace_s)

    def _ended(self, attempt: AttemptId, task: asyncio.Task[int]) -> None:
        self._tasks.pop(attempt, None)
        if task.cancelled():
            self._exits.tell(attempt, -signal.SIGKILL)
        else:
            self._exits.tell(attempt, CRASHED if task.exception() else task.result())
