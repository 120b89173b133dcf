"""The time that an attempt or a turn may take, which stands still while its model accepts no requests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from scaffold.core.model import Action, Run
from scaffold.core.ports import Clock
from scaffold.plan.story.step_type import STEP_TYPES, step_type

PAUSE_POLL_S = 1.0


def attempt_timeout_s(run: Run, action: Action) -> float:
    """Return the time limit in seconds of an attempt at the action, by its step type or the run's tier."""
    if action.method == "story" and action.kind == "primitive":
        return float(STEP_TYPES[step_type(action.role)].timeout_s)
    return run.settings.tier.timeout_s


class TimeLimit:
    """A time limit that can be paused; it starts when it is created."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self.limit_s = limit_s
        self._clock = clock
        self._ends_at = clock.monotonic() + limit_s
        self._pauses = 0
        self._paused_at = 0.0

    @property
    def left_s(self) -> float:
        """Return the seconds left; negative after the end."""
        return self._ends_at - (self._paused_at if self._pauses else self._clock.monotonic())

    @property
    def ends_at(self) -> float:
        """Return the end on the monotonic clock, if it is not paused any longer."""
        return self._clock.monotonic() + self.left_s

    def extend(self, seconds: float) -> None:
        """Move the end by so many seconds."""
        self.limit_s += seconds
        self._ends_at += seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock while the block runs."""
        # Pauses may overlap: the clock stops at the first and goes on after the last.
        if not self._pauses:
            self._paused_at = self._clock.monotonic()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._ends_at += self._clock.monotonic() - self._paused_at

    @asynccontextmanager
    async def enforced(self, *, spare_s: float = 0.0) -> AsyncIterator[asyncio.Timeout]:
        """Raise TimeoutError in the block once no more than `spare_s` is left; the timeout then says it has expired."""
        async with asyncio.timeout(None) as timeout:
            watcher = asyncio.create_task(self._expire_at_limit(timeout, spare_s))
            try:
                yield timeout
            finally:
                watcher.cancel()

    async def _expire_at_limit(self, enforced: asyncio.Timeout, spare_s: float) -> None:
        # A pause has no known end, so it is polled.
        while (left_s := self.left_s - spare_s) > 0:
            await self._clock.sleep(min(left_s, PAUSE_POLL_S) if self._pauses else left_s)
        enforced.reschedule(asyncio.get_running_loop().time())
