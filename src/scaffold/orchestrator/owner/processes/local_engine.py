"""The local engine: one process per attempt and per group of goals, fresh or forked from a preloaded zygote."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.host.process.child import ChildProcess, start_child
from scaffold.host.process.zygote_client import Zygote, ZygoteDied, open_zygote
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.owner.processes.engine import AttemptExit, GoalGroup, ProcessExit, SupervisorExit

ProcessRole = Literal["worker", "supervisor"]
"""A worker gets the id of its attempt, a supervisor the ids of its goals, separated by commas."""
MAX_ZYGOTES = 5
"""How many zygotes one engine starts, one after another, before it uses only fresh processes."""
FORK_TIMEOUT_S = 30.0
"""How long a zygote may take to fork a child before it counts as hung."""
FAILED_EXIT_CODE = 1
"""Exit code of an in-process supervisor that raised or was cancelled."""


class ProcessMain(Struct, frozen=True, kw_only=True):
    """How to start a process for a role and an id; provided by the CLI, which knows the commands."""

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
    """Forks processes from a zygote, which is started on first use and again after its death.

    If the zygote dies or hangs during a fork, a fresh process is started instead.
    """

    def __init__(
        self, main: ProcessMain, *, zygote: Callable[[int], Sequence[str]], log: Path, timeout_s: float = FORK_TIMEOUT_S
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
            # A hung zygote is closed, so that it cannot fork a second process for the attempt later.
            except TimeoutError:
                await zygote.close()
        return await self._fresh.start(part, name)

    async def close(self) -> None:
        """Stop the zygote."""
        async with self._making:
            if self._zygote is not None:
                await self._zygote.close()

    async def _live_zygote(self) -> Zygote | None:
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


class LocalEngine:
    """Runs attempts and supervisors as children of this process, which exit with it even if it is killed."""

    def __init__(
        self, processes: ProcessStarter, *, here: Callable[[GoalGroup], Coroutine[Any, Any, int]] | None = None
    ) -> None:
        """Run supervisors in this process with `here`, if given, which returns an exit code.

        That saves a process in runs whose supervisors have little to do.
        """
        self._processes = processes
        self._here = here
        self._inside: dict[GoalGroup, asyncio.Task[int]] = {}
        self._workers: dict[AttemptId, ChildProcess] = {}
        self._supervisors: dict[GoalGroup, ChildProcess] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._exits: asyncio.Queue[ProcessExit] = asyncio.Queue()

    @property
    def workers(self) -> Sequence[AttemptId]:
        """The attempts whose workers have not exited."""
        return tuple(self._workers)

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker process for a queued attempt."""
        self._workers[attempt.id] = child = await self._processes.start("worker", attempt.id)
        self._start_watcher(self._worker_ends(attempt.id, child))

    async def start_supervisor(self, goals: GoalGroup) -> ProcessIdentity:
        """Start the goals' supervisors as a process, or as a task of this process."""
        if self._here is not None:
            self._inside[goals] = task = asyncio.create_task(self._here(goals))
            task.add_done_callback(partial(self._ends_inside, goals))
            return own_identity()
        self._supervisors[goals] = child = await self._processes.start("supervisor", ",".join(goals))
        self._start_watcher(self._supervisor_ends(goals, child))
        return child.identity

    async def next_exit(self) -> ProcessExit:
        """Wait until a worker or supervisor exits."""
        return await self._exits.get()

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """Stop a worker and its children."""
        if (child := self._workers.get(attempt)) is not None:
            await child.end(grace_s)

    async def stop_supervisor(self, goals: GoalGroup, *, grace_s: float) -> None:
        """Stop a process of supervisors and its children."""
        if (task := self._inside.get(goals)) is not None:
            task.cancel()
            await asyncio.wait([task])
        if (child := self._supervisors.get(goals)) is not None:
            await child.end(grace_s)

    async def close(self, *, grace_s: float) -> None:
        """Stop everything this engine started; supervisors first, because they would queue more attempts."""
        for goals in list(self._inside):
            await self.stop_supervisor(goals, grace_s=grace_s)
        for children in (self._supervisors, self._workers):
            async with asyncio.TaskGroup() as group:
                for child in list(children.values()):
                    group.create_task(child.end(grace_s))
        if self._watchers:
            await asyncio.wait(self._watchers)
        await self._processes.close()

    def _start_watcher(self, watching: Coroutine[Any, Any, None]) -> None:
        watcher = asyncio.create_task(watching)
        # The event loop keeps only weak references to tasks.
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    def _ends_inside(self, goals: GoalGroup, task: asyncio.Task[int]) -> None:
        self._inside.pop(goals, None)
        self._exits.put_nowait(
            SupervisorExit(goals, FAILED_EXIT_CODE if task.cancelled() or task.exception() else task.result())
        )

    async def _worker_ends(self, attempt: AttemptId, child: ChildProcess) -> None:
        code = await child.wait()
        self._workers.pop(attempt, None)
        self._exits.put_nowait(AttemptExit(attempt, code))

    async def _supervisor_ends(self, goals: GoalGroup, child: ChildProcess) -> None:
        code = await child.wait()
        self._supervisors.pop(goals, None)
        self._exits.put_nowait(SupervisorExit(goals, code))
