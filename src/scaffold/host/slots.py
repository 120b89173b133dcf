"""A semaphore across all processes of this machine, to limit heavy work."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.host.atomic_files import try_lock

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25


class Slots:
    """`count` slots, each a locked file in `folder`; `async with Slots(folder, 2).taken(): ...`.

    The kernel frees the slot of a holder that dies. Waiting can be cancelled and is not first come, first served.
    The files are never removed: otherwise two processes could hold the same slot.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = max(1, count)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a slot while the block runs; waits for one without a timeout."""
        self._folder.mkdir(parents=True, exist_ok=True)
        pause_s = FIRST_PAUSE_S
        while (slot := self._lock_free_slot()) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        try:
            yield
        finally:
            os.close(slot)

    @property
    def all_taken(self) -> bool:
        """Whether whoever wants a slot now has to wait."""
        self._folder.mkdir(parents=True, exist_ok=True)
        slot = self._lock_free_slot()
        if slot is not None:
            os.close(slot)
        return slot is None

    def _lock_free_slot(self) -> int | None:
        """Lock a free slot and return its descriptor; None if all are taken."""
        for number in range(self._count):
            slot = os.open(self._folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if try_lock(slot):
                return slot
            os.close(slot)
        return None


def usable_cores() -> int:
    """Return the number of cores, at least one: those that the system lets this process run on."""
    # macOS cannot tell.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
