"""A clock for tests, that changes only when it is advanced."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that changes only when it is advanced."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the start time plus the seconds advanced so far."""
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by `seconds`; if not positive, only yield to other tasks."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        awake = asyncio.get_running_loop().create_future()
        # The counter orders sleepers that wake at the same time; futures cannot be compared.
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), awake))
        await awake

    def advance(self, seconds: float) -> None:
        """Advance the time; sleepers that are due wake, earliest first, when the caller next awaits."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            _, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():
                awake.set_result(None)
