"""The commands of a soak: started below one process, which adopts what they leave behind and counts their CPU."""

import asyncio
import json
import subprocess  # noqa: TID251 - the real command is used as a user uses it
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from soak_test import launcher
from soak_test.place import Place


class Commands:
    """Starts commands of a place."""

    def __init__(self, place: Place, launching: asyncio.subprocess.Process) -> None:
        self.cpu_s = asyncio.create_task(self._used())
        """The seconds of CPU of all processes, once the last of them has ended."""
        self._place = place
        self._launching = launching

    def start(self, *args: str) -> None:
        """Start the real command, and do not wait for it."""
        assert self._launching.stdin
        line = json.dumps(["/usr/bin/env", f"HOME={self._place.home}", *self._place.argv(*args)])
        self._launching.stdin.write(f"{line}\n".encode())

    async def _used(self) -> float:
        assert self._launching.stdout
        return float(await self._launching.stdout.read() or "nan")


@asynccontextmanager
async def launching(place: Place, log: Path) -> AsyncIterator[Commands]:
    """Yield what starts commands in the repository, while the block lasts; what they print is in `log`."""
    process = await asyncio.create_subprocess_exec(  # noqa: TID251 - as above
        sys.executable,
        launcher.__file__,
        str(log),
        cwd=place.repo,
        env=place.environ | {"HOME": "/"},  # it is none of the processes that harm is done to
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Commands(place, process)
    finally:
        assert process.stdin
        process.stdin.close()
