"""The engine of tests: attempts and supervisors as tasks of this process, in place of processes."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.host.identity import own_identity
from scaffold.orchestrator.engine import AttemptExit, Exit, SupervisorExit

CRASHED = 1
"""The exit code of a task that raised."""


class TaskEngine:
    """Runs `work` for each attempt and `pursue` for each goal.

    Both return an exit code, and must end their own children when they are cancelled.
    """

    def __init__(
        self,
        work: Callable[[Attempt], Coroutine[Any, Any, int]],
        pursue: Callable[[GoalId], Coroutine[Any, Any, int]],
    ) -> None:
        self._work = work
        self._pursue = pursue
        self._workers: dict[AttemptId, asyncio.Task[int]] = {}
        self._supervisors: dict[GoalId, asyncio.Task[int]] = {}
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a task for a queued attempt."""
        self._workers[attempt.id] = task = asyncio.create_task(self._work(attempt))
        task.add_done_callback(partial(self._worker_ended, attempt.id))

    async def start_supervisor(self, goal: GoalId) -> ProcessIdentity:
        """Start a task that pursues the goal; it is who we are."""
        self._supervisors[goal] = task = asyncio.create_task(self._pursue(goal))
        task.add_done_callback(partial(self._supervisor_ended, goal))
        return own_identity()

    async def next_exit(self) -> Exit:
        """Wait for a worker or a supervisor to end."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:  # noqa: ARG002 - tasks end at once
        """Cancel a worker's task and wait for it; it counts as killed."""
        await _cancel(self._workers.get(attempt))

    async def stop_supervisor(self, goal: GoalId, *, grace_s: float) -> None:  # noqa: ARG002 - tasks end at once
        """Cancel a supervisor's task and wait for it; it counts as killed."""
        await _cancel(self._supervisors.get(goal))

    async def close(self, *, grace_s: float) -> None:  # noqa: ARG002 - tasks end at once
        """End everything this engine started."""
        for task in (*self._supervisors.values(), *self._workers.values()):
            await _cancel(task)

    def _worker_ended(self, attempt: AttemptId, task: asyncio.Task[int]) -> None:
        self._workers.pop(attempt, None)
        self._exits.put_nowait(AttemptExit(attempt, _code(task)))

    def _supervisor_ended(self, goal: GoalId, task: asyncio.Task[int]) -> None:
        self._supervisors.pop(goal, None)
        self._exits.put_nowait(SupervisorExit(goal, _code(task)))


async def _cancel(task: asyncio.Task[int] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


def _code(task: asyncio.Task[int]) -> int:
    if task.cancelled():
        return -signal.SIGKILL
    return CRASHED if task.exception() else task.result()
