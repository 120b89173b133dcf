"""Start the processes of a run: each fresh, or forked from a preloaded zygote."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from scaffold.host.process.child import ChildProcess, start_child
from scaffold.host.process.zygote_client import Zygote, ZygoteDied, open_zygote

ProcessRole = Literal["worker", "supervisor"]
"""A worker executes one attempt and gets its id; a supervisor gets the ids of its goals, separated by commas."""
MAX_ZYGOTES = 5
"""How many zygotes one engine starts, one after another, before it uses fresh processes only."""
FORK_TIMEOUT_S = 30.0
"""How long a zygote may take to fork a child before it counts as hung."""


class ProcessMain(Struct, frozen=True, kw_only=True):
    """How to start a process for a role and an id; supplied by the CLI, which knows the commands."""

    argv: Callable[[ProcessRole, str], Sequence[str]]
    environ: Mapping[str, str]
    cwd: Path
    log: Callable[[ProcessRole, str], Path]


class ProcessStarter(Protocol):
    """Starts processes for one engine."""

    async def start(self, part: ProcessRole, name: str) -> ChildProcess:
        """Start and return the process for the attempt or goals of `name`; raises OSError if it cannot start."""
        ...

    async def close(self) -> None:
        """Release the resources for starting processes; processes already started keep running."""
        ...


class FreshProcessStarter:
    """Starts each process as a new program."""

    def __init__(self, main: ProcessMain) -> None:
        self._main = main

    async def start(self, part: ProcessRole, name: str) -> ChildProcess:
        """Start and return a new process; raises OSError if it cannot start."""
        main = self._main
        return await start_child(main.argv(part, name), cwd=main.cwd, env=main.environ, log=main.log(part, name))

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


class ZygoteProcessStarter:
    """Forks processes from a zygote, which is started on first use and again after it died.

    If the zygote dies or hangs during a fork, a fresh process is started instead.
    """

    def __init__(
        self,
        main: ProcessMain,
        *,
        zygote: Callable[[int], Sequence[str]],
        log: Path,
        timeout_s: float = FORK_TIMEOUT_S,
    ) -> None:
        """`zygote` returns the command line for the descriptor that carries fork requests; its output goes to `log`."""
        self._main = main
        self._fresh = FreshProcessStarter(main)
        self._argv = zygote
        self._log = log
        self._timeout_s = timeout_s
        self._zygote: Zygote | None = None
        self._made = 0
        self._making = asyncio.Lock()

    async def preload(self) -> None:
        """Start the zygote, so that it loads in the background; raises OSError if it cannot start."""
        await self._live_zygote()

    async def start(self, part: ProcessRole, name: str) -> ChildProcess:
        """Fork and return a new process; raises OSError if it cannot start."""
        zygote = await self._live_zygote()
        if zygote is not None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await zygote.fork(part, name, log=self._main.log(part, name))
            except ZygoteDied:
                pass
            # A zygote that hangs may answer later; closed, it cannot fork a second process for the same attempt.
            except TimeoutError:
                await zygote.close()
        return await self._fresh.start(part, name)

    async def close(self) -> None:
        """Stop the zygote."""
        async with self._making:
            if self._zygote is not None:
                await self._zygote.close()

    async def _live_zygote(self) -> Zygote | None:
        """Return a zygote that is alive as far as known, starting one if needed; None after `MAX_ZYGOTES` of them."""
        async with self._making:
            if self._zygote is not None and self._zygote.alive:
                return self._zygote
            if self._zygote is not None:
                await self._zygote.close()
                self._zygote = None
            if self._made < MAX_ZYGOTES:
                self._made += 1
                main = self._main
                self._zygote = await open_zygote(self._argv, cwd=main.cwd, env=main.environ, log=self._log)
            return self._zygote
