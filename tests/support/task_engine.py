"""An engine that runs attempts and supervisors as tasks of the test's own process."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.owner.processes.engine import AttemptExit, GoalGroup, ProcessExit, SupervisorExit

CRASHED_EXIT_CODE = 1
"""Exit code of a task that raised an exception."""


class TaskEngine:
    """Runs `work` for each attempt and `supervise` for each group of goals.

    Both return an exit code, and must stop their own children when cancelled.
    """

    def __init__(
        self,
        work: Callable[[Attempt], Coroutine[Any, Any, int]],
        supervise: Callable[[GoalGroup], Coroutine[Any, Any, int]],
    ) -> None:
        self._work = work
        self._supervise = supervise
        self._workers: dict[AttemptId, asyncio.Task[int]] = {}
        self._supervisors: dict[GoalGroup, asyncio.Task[int]] = {}
        self._exits: asyncio.Queue[ProcessExit] = asyncio.Queue()

    @property
    def workers(self) -> tuple[AttemptId, ...]:
        """The attempts whose tasks have not ended."""
        return tuple(self._workers)

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a task for a queued attempt."""
        self._workers[attempt.id] = task = asyncio.create_task(self._work(attempt))
        task.add_done_callback(partial(self._worker_ended, attempt.id))

    async def start_supervisor(self, goals: GoalGroup) -> ProcessIdentity:
        """Start a task that supervises the goals; its identity is that of this process."""
        self._supervisors[goals] = task = asyncio.create_task(self._supervise(goals))
        task.add_done_callback(partial(self._supervisor_ended, goals))
        return own_identity()

    async def next_exit(self) -> ProcessExit:
        """Wait until a worker or supervisor exits."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """Cancel a worker's task and wait for it; its exit code is that of SIGKILL."""
        await _cancel_task(self._workers.get(attempt))

    async def stop_supervisor(self, goals: GoalGroup, *, grace_s: float) -> None:
        """Cancel the task of these goals and wait for it; its exit code is that of SIGKILL."""
        await _cancel_task(self._supervisors.get(goals))

    async def close(self, *, grace_s: float) -> None:
        """Cancel every task that this engine started."""
        for task in (*self._supervisors.values(), *self._workers.values()):
            await _cancel_task(task)

    def _worker_ended(self, attempt: AttemptId, task: asyncio.Task[int]) -> None:
        self._workers.pop(attempt, None)
        self._exits.put_nowait(AttemptExit(attempt, _exit_code(task)))

    def _supervisor_ended(self, goals: GoalGroup, task: asyncio.Task[int]) -> None:
        self._supervisors.pop(goals, None)
        self._exits.put_nowait(SupervisorExit(goals, _exit_code(task)))


async def _cancel_task(task: asyncio.Task[int] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


def _exit_code(task: asyncio.Task[int]) -> int:
    if task.cancelled():
        return -signal.SIGKILL
    return CRASHED_EXIT_CODE if task.exception() else task.result()
