"""Simulated processes: tasks of one loop that can be frozen, and killed in the middle of any write."""

import asyncio
from contextvars import ContextVar
from typing import Any

from scaffold.core.model import ProcessIdentity

UNWIND_ROUNDS = 100


class Killed(BaseException):
    """Raised in a dead simulated process: nothing that it still tries has an effect, and no code catches this."""


class Process:
    """One simulated process: after its death, store and git refuse its calls."""

    def __init__(self, pid: int, name: str) -> None:
        self.name = name
        self.identity = ProcessIdentity(pid, "", "simulated")
        """With the id of another boot, so that Scaffold never mistakes it for a process of this machine."""
        self.dead = False
        self.frozen = False
        self.held: list[asyncio.Handle] = []
        """What it does next once it continues."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.signalled = False
        """Whether it was killed instead of exiting."""

    def require_alive(self) -> None:
        """Raise Killed if this process is dead."""
        if self.dead:
            raise Killed(self.name)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Add a task to those that end with this process."""
        self.tasks = [each for each in self.tasks if not each.done()]
        self.tasks.append(task)

    async def unwind(self) -> None:
        """Let the tasks of a dead process unwind; AssertionError if they do not."""
        for _ in range(UNWIND_ROUNDS):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"{self.name} continues after its death: {left}")


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process whose code is running; None outside all processes."""
