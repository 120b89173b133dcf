"""Waiting for the store to change: by this process at once, by any other within a moment."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

SHORTEST_NAP_S, LONGEST_NAP_S = 0.02, 0.25
"""Between looks at what other processes committed: the longer nothing happened, the longer."""


class Tick(Struct, frozen=True):
    """How far things were when somebody looked."""

    commits: int
    """A number that differs once another connection committed."""
    rings: int


class Poller:
    """Wakes who waits. Look after taking a `tick`, then wait until things are `past` it: no change is missed."""

    def __init__(self, version: Callable[[], int]) -> None:
        """`version` is a store's `data_version`."""
        self._version = version
        self._rings = 0
        self._bell = asyncio.Event()

    def tick(self) -> Tick:
        """Return how far things are now."""
        return Tick(self._version(), self._rings)

    def ring(self) -> None:
        """Tell that this process changed something."""
        self._rings += 1
        self._bell.set()
        self._bell = asyncio.Event()

    async def past(self, tick: Tick) -> Tick:
        """Return the new tick as soon as it differs from `tick`."""
        nap_s = SHORTEST_NAP_S
        while (now := self.tick()) == tick:
            await self._nap(nap_s)
            nap_s = min(2 * nap_s, LONGEST_NAP_S)
        return now

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return
