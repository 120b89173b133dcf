"""How the processes of a run come to be: each a fresh one, or forked from one that is warm."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from scaffold.host.child import Child, start
from scaffold.host.zygote import Zygote, ZygoteGone, open_zygote

Part = Literal["worker", "supervisor"]
"""What a process is there for: one attempt, whose id it is told, or one goal."""
MOST_ZYGOTES = 5
"""One after another, in one engine: who dies again and again is not worth a sixth."""
PATIENCE_S = 30.0
"""How long a zygote may take until it has a child; then it is held to hang."""


class ProcessMain(Struct, frozen=True, kw_only=True):
    """How a process is started for a part, and an id; handed in by the face that knows the commands."""

    argv: Callable[[Part, str], Sequence[str]]
    environ: Mapping[str, str]
    cwd: Path
    log: Callable[[Part, str], Path]


class Processes(Protocol):
    """Starts processes for one engine."""

    async def start(self, part: Part, name: str) -> Child:
        """Return a new process that does its part for the attempt or goal of that id; OSError if none can be had."""
        ...

    async def close(self) -> None:
        """Give back what was kept to start processes; they themselves go on."""
        ...


class FreshProcesses:
    """Programs of their own, each loaded anew."""

    def __init__(self, main: ProcessMain) -> None:
        self._main = main

    async def start(self, part: Part, name: str) -> Child:
        """Return a new process; OSError if none can be had."""
        main = self._main
        return await start(main.argv(part, name), cwd=main.cwd, env=main.environ, log=main.log(part, name))

    async def close(self) -> None:
        """Give nothing back."""


class WarmProcesses:
    """Processes that a zygote forks, which is made by the first one and made anew when it died.

    Whoever's zygote dies over it, or hangs, gets a fresh process.
    """

    def __init__(
        self, main: ProcessMain, *, zygote: Callable[[int], Sequence[str]], log: Path, patience_s: float = PATIENCE_S
    ) -> None:
        """`zygote` makes its command line of the descriptor it is asked on; what it prints goes to `log`."""
        self._main = main
        self._fresh = FreshProcesses(main)
        self._argv = zygote
        self._log = log
        self._patience_s = patience_s
        self._zygote: Zygote | None = None
        self._made = 0
        self._making = asyncio.Lock()

    async def warm(self) -> None:
        """Have a zygote load while other things are done; OSError if no process can be had."""
        await self._living()

    async def start(self, part: Part, name: str) -> Child:
        """Return a new process; OSError if none can be had."""
        zygote = await self._living()
        if zygote is not None:
            try:
                async with asyncio.timeout(self._patience_s):
                    return await zygote.fork(part, name, log=self._main.log(part, name))
            except ZygoteGone:
                pass
            except TimeoutError:
                await zygote.close()
        return await self._fresh.start(part, name)

    async def close(self) -> None:
        """End the zygote."""
        async with self._making:
            if self._zygote is not None:
                await self._zygote.close()

    async def _living(self) -> Zygote | None:
        """Return a zygote that lives as far as is known; None once there have been too many."""
        async with self._making:
            if self._zygote is not None and self._zygote.alive:
                return self._zygote
            if self._zygote is not None:
                await self._zygote.close()
                self._zygote = None
            if self._made < MOST_ZYGOTES:
                self._made += 1
                main = self._main
                self._zygote = await open_zygote(self._argv, cwd=main.cwd, env=main.environ, log=self._log)
            return self._zygote
