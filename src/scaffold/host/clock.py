"""The system clock."""

import asyncio
import time
from datetime import datetime

from scaffold.host.wall_clock import WallClock

WALL_CLOCK = WallClock()


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        return WALL_CLOCK.now()

    def monotonic(self) -> float:
        """Return monotonic seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)
