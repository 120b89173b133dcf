"""Waiting for changes of the store: noticed at once in this process, by polling from other processes."""

import asyncio
import contextlib
from collections.abc import Callable

from msgspec import Struct

MIN_POLL_S, MAX_POLL_S = 0.02, 0.25  # polling interval for other processes' commits; it grows while nothing happens


class ChangeTick(Struct, frozen=True):
    """A version of the store, to compare with a later one."""

    commits: int
    """Changes when another connection commits."""
    rings: int
    """Changes when this process reports a change."""


class StorePoller:
    """Waits for changes. Take a `tick`, then read, then wait for a version `past` the tick: no change is missed."""

    def __init__(self, version: Callable[[], int]) -> None:
        """`version` is a store's `data_version`."""
        self._version = version
        self._rings = 0
        self._changed = asyncio.Event()

    def tick(self) -> ChangeTick:
        """Return the current version."""
        return ChangeTick(self._version(), self._rings)

    def ring(self) -> None:
        """Report a change by this process and wake all waiters."""
        self._rings += 1
        # The old event wakes those that wait now; later ones wait for the new event.
        self._changed.set()
        self._changed = asyncio.Event()

    async def past(self, tick: ChangeTick) -> ChangeTick:
        """Wait until the version differs from `tick`, and return it."""
        interval_s = MIN_POLL_S
        while (now := self.tick()) == tick:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._changed.wait()
            interval_s = min(2 * interval_s, MAX_POLL_S)
        return now
