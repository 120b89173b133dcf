"""Slots: no more than so many of something heavy at once on this machine, whoever asks for it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.host.files import try_lock

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25


class Slots:
    """`count` places, each a locked file in `folder`; `async with Slots(folder, 2).taken(): ...`.

    The kernel frees the place of a holder that dies, however it dies. Who waits may be cancelled; who came first is
    not always first. The files stay: removing one would let two hold the same place.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = max(1, count)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place while the block lasts; waits for one as long as it takes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        held = await self._wait()
        try:
            yield
        finally:
            os.close(held)

    async def _wait(self) -> int:
        pause_s = FIRST_PAUSE_S
        while (free := self._free()) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return free

    def _free(self) -> int | None:
        """Return the descriptor of a place that is ours now; None if all are taken."""
        for number in range(self._count):
            place = os.open(self._folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if try_lock(place):
                return place
            os.close(place)
        return None
