"""Simulated processes: tasks of one loop that can be frozen, and killed in the middle of any write."""

import asyncio
from contextvars import ContextVar
from typing import Any

from scaffold.core.model import ProcessIdentity

BURIAL_ROUNDS = 100


class Killed(BaseException):
    """Raised in a dead simulated process: nothing that it still tries happens, and no code catches this."""


class Process:
    """One simulated process: after its death everything it could reach refuses its tasks."""

    def __init__(self, pid: int, name: str) -> None:
        self.name = name
        self.identity = ProcessIdentity(pid, "", "simulated")
        """Of a boot that is not this one: nothing in the product takes it for a process of this machine."""
        self.dead = False
        self.frozen = False
        self.held: list[asyncio.Handle] = []
        """What it would do next, were it not frozen."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.signalled = False
        """Whether it was killed, and did not end by itself."""

    def require_alive(self) -> None:
        """Raise Killed if this process is gone."""
        if self.dead:
            raise Killed(self.name)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Add a task to those that end with this process."""
        self.tasks = [each for each in self.tasks if not each.done()]
        self.tasks.append(task)

    async def bury(self) -> None:
        """Let the tasks of a dead process unwind; AssertionError if they do not."""
        for _ in range(BURIAL_ROUNDS):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"{self.name} goes on after its death: {left}")


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
"""Whose code is running; None for the world outside of the processes."""
