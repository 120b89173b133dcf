"""What every engine keeps in this process: supervisors as tasks, and the exits of workers, each told once."""

import asyncio
from collections.abc import Awaitable, Callable

from scaffold.core.ids import AttemptId, GoalId
from scaffold.orchestrator.engine import AttemptExit


class Exits:
    """Workers' exits in the order they come; an error of a supervisor surfaces to whoever waits for one."""

    def __init__(self) -> None:
        self._exits: asyncio.Queue[AttemptExit] = asyncio.Queue()
        self._supervisors: dict[GoalId, asyncio.Task[None]] = {}

    def tell(self, attempt: AttemptId, code: int) -> None:
        """Note that a worker is gone; `code` as in AttemptExit."""
        self._exits.put_nowait(AttemptExit(attempt, code))

    def supervise(self, goal: GoalId, main: Callable[[], Awaitable[None]]) -> None:
        """Run a goal's supervisor beside the others."""
        self._supervisors[goal] = asyncio.create_task(_call(main))

    async def next(self) -> AttemptExit:
        """Wait for a worker to end; raises what a supervisor raised, if one failed."""
        exits = asyncio.create_task(self._exits.get())
        try:
            while True:
                running = [task for task in self._supervisors.values() if not task.done()]
                await asyncio.wait([exits, *running], return_when=asyncio.FIRST_COMPLETED)
                for task in self._supervisors.values():
                    if task.done():
                        task.result()
                if exits.done():
                    return exits.result()
        finally:
            exits.cancel()

    async def close(self) -> None:
        """End every supervisor, and wait until they are gone."""
        for task in self._supervisors.values():
            task.cancel()
        if self._supervisors:
            await asyncio.wait(self._supervisors.values())


async def _call(main: Callable[[], Awaitable[None]]) -> None:
    await main()
