"""An event loop on virtual time: the clock jumps to the next due event instead of waiting."""

import asyncio
import contextlib
import heapq
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from simulator.processes import CURRENT, Process

START = datetime(2030, 1, 1, tzinfo=UTC)
TICK_S = 1e-6
"""How far each reading advances the clock, so that no two times are equal."""

WakeDelays = Callable[[], tuple[float, ...]]
"""After how many seconds a wake-up is delivered, each time; an empty tuple means never."""


def immediately() -> tuple[float, ...]:
    """Deliver each wake-up once, immediately."""
    return (0.0,)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs what is ready in order; handles of a frozen process are kept for later, wake-ups may be lost.

    Threads are not used: calls in an executor run immediately.
    """

    def __init__(self, wake_delays: WakeDelays = immediately) -> None:
        self._virtual_s = 0.0
        super().__init__()
        self.wake_delays = wake_delays
        self.set_exception_handler(_keep_quiet)
        self.set_task_factory(_adopted)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._virtual_s

    def tick(self) -> float:
        """Return the time, and advance it a little."""
        self._virtual_s += TICK_S
        return self._virtual_s

    def thaw(self, process: Process) -> None:
        """Let a frozen process continue."""
        process.frozen = False
        self._ready.extend(process.held)
        process.held = []

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call `func` immediately."""
        done = self.create_future()
        done.set_result(func(*args))
        return done

    def _run_once(self) -> None:
        self._read_pipes()
        self._wake()
        if not self._ready:
            self._jump()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            process = handle._context.get(CURRENT)
            if handle._cancelled:
                continue
            if process is not None and process.frozen:
                process.held.append(handle)
            else:
                handle._run()

    def _read_pipes(self) -> None:
        """Read the named pipes that were written to."""
        for key, _ in self._selector.select(0):
            handle = key.data[0]
            process = handle._context.get(CURRENT)
            if process is None or not process.frozen:
                self._delay_wake_up(key.fileobj, handle)

    def _delay_wake_up(self, descriptor: int, handle: asyncio.Handle) -> None:
        delays = self.wake_delays()
        if delays != (0.0,):
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 4096)
        for delay_s in delays:
            self.call_later(delay_s, self._deliver, handle)

    def _deliver(self, handle: asyncio.Handle) -> None:
        if not handle._cancelled:
            self._ready.append(handle)

    def _wake(self) -> None:
        while self._scheduled and self._scheduled[0]._when <= self._virtual_s:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)

    def _jump(self) -> None:
        """Jump to the next due event; AssertionError if there is none."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        assert self._scheduled, "no event is scheduled: the simulation is stuck"
        self._virtual_s = max(self._virtual_s, self._scheduled[0]._when)
        self._wake()


class VirtualClock:
    """The time of the loop, as Scaffold's processes see it. Implements `core.ports.Clock`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        """Return the time of day."""
        return START + timedelta(seconds=self._loop.tick())

    def monotonic(self) -> float:
        """Return the seconds since the loop was made."""
        return self._loop.tick()

    async def sleep(self, seconds: float) -> None:
        """Return after virtual `seconds`."""
        await asyncio.sleep(seconds)


def _adopted(loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
    """Return a new task, which ends with the process that creates it."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    process = CURRENT.get() if context is None else context.get(CURRENT)
    if process is not None:
        process.adopt(task)
    return task


def _keep_quiet(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
    """Ignore tasks that end like dead processes do; errors that matter reach those who await them."""
