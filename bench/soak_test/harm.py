"""What is done to a run while it works: signals, providers in trouble, a full disk, a database that goes away."""

import asyncio
import contextlib
import os
import random  # noqa: TID251 - handed in, seeded
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import psycopg
from msgspec import Struct

from soak_test.place import DATABASE_URL, Place, fill, make_room
from soak_test.providers import WIRES, Providers, Trouble
from soak_test.user import User

OWNER_SHARE, WORKER_SHARE = 0.35, 0.35
"""How often a signal goes to the owner, and to a worker; else to any process."""
OUTAGE_S, QUOTA_S = 1800.0, 3600.0
"""The outage and the quota of a night, in seconds of its clock."""
KINDS = (("restarter.py", "restarter"), ("scaffold background", "owner"), ("scaffold zygote", "worker or supervisor"))
"""What a process is whose command line contains that; any other is a command, of an agent, a check or ours."""


class Pace(Struct, frozen=True, kw_only=True):
    """How often harm is done, as the shortest and the longest pause in seconds."""

    kill: tuple[float, float] = (5.0, 10.0)
    stop: tuple[float, float] = (10.0, 25.0)
    trouble: tuple[float, float] = (10.0, 30.0)
    disk: tuple[float, float] = (60.0, 120.0)
    user: tuple[float, float] = (1.0, 4.0)
    database: tuple[float, float] = (20.0, 40.0)
    scale: float = 0.01
    """Seconds that a second of the night takes: of outages and quotas."""


class Harm:
    """Does harm until it is cancelled, and counts it."""

    def __init__(self, place: Place, providers: Providers, user: User, dice: random.Random, pace: Pace) -> None:
        self.done: Counter[str] = Counter()
        self._place = place
        self._providers = providers
        self._user = user
        self._dice = dice
        self._pace = pace

    async def do(self, *, disk: bool) -> None:
        """Do every kind of harm, each at its own pace; the disk is filled only if it is one of our own."""
        pace = self._pace
        ways = [(pace.kill, self._kill), (pace.stop, self._stop), (pace.trouble, self._trouble)]
        ways += [(pace.user, self._work)]
        if disk:
            ways.append((pace.disk, self._fill_disk))
        if DATABASE_URL in self._place.environ:
            ways.append((pace.database, self._disconnect))
        try:
            async with asyncio.TaskGroup() as group:
                for pause, way in ways:
                    group.create_task(self._repeat(pause, way))
        finally:
            if disk:
                make_room(self._place.folder)

    async def _repeat(self, pause: tuple[float, float], way: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(*pause))
            await way()

    async def _kill(self) -> None:
        """Kill the owner, a worker, or any process."""
        if target := self._target():
            self._signal(*target, signal.SIGKILL, "kill")

    async def _stop(self) -> None:
        """Let a process stand still for some seconds, for one that thinks that no time has passed."""
        if target := self._target():
            self._signal(*target, signal.SIGSTOP, "stop")
            await asyncio.sleep(self._dice.uniform(0.5, 12.0))
            with contextlib.suppress(ProcessLookupError):
                os.kill(target[0], signal.SIGCONT)

    def _target(self) -> tuple[int, str] | None:
        """Return the pid of a living process, and what it is."""
        found, chance = self._place.processes(), self._dice.random()
        wanted: Sequence[int] = ()
        if chance < OWNER_SHARE:
            wanted = self._place.owner_pids()
        elif chance < OWNER_SHARE + WORKER_SHARE:
            wanted = self._place.worker_pids()
        pids = sorted(set(wanted) & set(found)) or sorted(found)
        if not pids:
            return None
        pid = self._dice.choice(pids)
        return pid, "worker" if pid in self._place.worker_pids() else _kind(found[pid])

    def _signal(self, pid: int, kind: str, number: signal.Signals, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self.done[f"{name} {kind}"] += 1

    async def _trouble(self) -> None:
        """Put one of the wires, or all of them, in trouble."""
        scale = self._pace.scale
        ways: tuple[tuple[Trouble, float], ...] = (
            ("limit", self._dice.uniform(0.5, 3.0)),
            ("limit", self._dice.uniform(0.5, 3.0)),
            ("outage", OUTAGE_S * scale),
            ("quota", QUOTA_S * scale),
        )
        kind, seconds = self._dice.choice(ways)
        wires = WIRES if self._dice.random() < 0.5 else (self._dice.choice(WIRES),)
        self._providers.begin(wires, kind, seconds, retry_after_s=self._dice.uniform(1, 6))
        self.done[f"{kind} of {'all' if len(wires) > 1 else wires[0]}"] += 1
        await self._providers.until_well()

    async def _fill_disk(self) -> None:
        await asyncio.to_thread(fill, self._place.folder)
        self.done["full disk"] += 1
        await asyncio.sleep(self._dice.uniform(2, 8))
        make_room(self._place.folder)

    async def _disconnect(self) -> None:
        """End all connections to the database."""
        query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'scaffold'"
        url = self._place.environ[DATABASE_URL]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as server:
            await server.execute(query)
        self.done["lost connections"] += 1

    async def _work(self) -> None:
        await asyncio.to_thread(self._user.step)


def _kind(command_line: str) -> str:
    """Return what a process is, from its command line."""
    return next((kind for part, kind in KINDS if part in command_line), "command")
