"""A soak: a run is started, harm is done to it until all its work is over, and what is left is checked."""

import asyncio
import os
import random  # noqa: TID251 - seeded
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

import psycopg
import yaml
from msgspec import Struct

from soak_test.checker import Checker
from soak_test.commands import Commands, launching
from soak_test.harm import OUTAGE_S, QUOTA_S, Harm, Pace
from soak_test.place import Place, own_disk
from soak_test.providers import WIRES, Providers
from soak_test.user import User
from soak_test.workload import GATE, HARMFUL_SHARE, make_workload
from support.postgres import private_server

POLL_S = 1.0
SHOWN_EVERY_S = 10.0
START_S = 60
END_S = 15
"""How long the processes of a run may take to end after it."""
IDLE_S = 30
OVER = frozenset({"completed", "failed", "cancelled"})


class SoakSettings(Struct, frozen=True, kw_only=True):
    """What is run, and what is done to it."""

    actions: int
    agents: int
    goals: int
    seed: int
    harm: bool
    database: Literal["sqlite", "postgresql"]
    scale: float
    """How many seconds a second of an outage or a quota takes."""
    limit_s: float
    """After so many seconds the run counts as stuck."""
    once: Literal["outage", "quota"] | None = None
    """Do no harm but one outage of half an hour, or one quota of an hour, of all providers, times `scale`."""
    budget_usd: float = 1000.0


class SoakResult(Struct, frozen=True, kw_only=True):
    """What came of it."""

    settings: SoakSettings
    seconds: float
    status: str
    landed: int
    landing: int
    """How many actions have to land."""
    attempts: Mapping[str, int]
    cpu_s: float
    resumed: int
    """How often the run was resumed by hand: when the owner and what restarts it had both been killed."""
    harm: Mapping[str, int]
    user: Mapping[str, int]
    requests: Mapping[str, int]
    violations: list[str]


def execute(settings: SoakSettings) -> SoakResult:
    """Run it to its end."""
    with _database(settings) as url, _folder() as (folder, disk):
        place = Place(folder, database_url=url)
        place.make()
        return asyncio.run(Soak(settings, place, disk=disk).result())


@contextmanager
def _folder() -> Iterator[tuple[Path, bool]]:
    """Yield the folder of a soak and whether it is a disk of its own."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name) / "disk"
        folder.mkdir()
        with own_disk(folder) as mounted:
            yield folder, mounted


def _database(settings: SoakSettings) -> Any:
    return private_server() if settings.database == "postgresql" else nullcontext()


class Soak:
    """A run in a place, with everything that is done to it."""

    def __init__(self, settings: SoakSettings, place: Place, *, disk: bool) -> None:
        dices = (random.Random(f"{settings.seed} {subject}") for subject in ("workload", "user", "harm"))
        workload_dice, user_dice, harm_dice = dices
        self._settings = settings
        self._place = place
        self._disk = disk
        share = HARMFUL_SHARE if settings.harm else 0.0
        self.workload = make_workload(workload_dice, settings.actions, settings.goals, not_honest=share)
        self._providers = Providers(self.workload)
        self.user = User(place, user_dice)
        self._harm = Harm(place, self._providers, self.user, harm_dice, Pace(scale=settings.scale))
        self._resumed = 0
        self._began = time.monotonic()
        self._log = place.folder / "commands.log"
        """What the commands printed."""

    async def result(self) -> SoakResult:
        """Start the run, wait for its end, check."""
        async with self._providers.serving():
            self._configure()
            async with launching(self._place, self._log) as commands:
                self._start(commands)
                harm = asyncio.create_task(self._do_harm())
                try:
                    status = await self._until_over(commands, harm)
                finally:
                    harm.cancel()
                    with suppress(asyncio.CancelledError):
                        await harm
                seconds = time.monotonic() - self._began
            await self._until_processes_end()
            violations = self.checker().violations()
            self._end_processes()
            return self._result(status, seconds, await commands.cpu_s, violations)

    def _start(self, commands: Commands) -> None:
        settings = self._settings
        limits = ("--agents", f"{settings.agents}", "--budget-usd", f"{settings.budget_usd}")
        # A tier brings a critic and a second reviewer along; without harm each action is to be trivial.
        tier = ("--tier", "builder") if settings.harm else ()
        plan = str(self._place.folder / "plan.yaml")
        commands.start("run", "--plan", plan, "--model", "medium", "--yes", "--yolo", "--detach", *limits, *tier)

    async def _until_processes_end(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._until(lambda: not self._place.processes()), END_S)

    def _end_processes(self) -> None:
        for pid in self._place.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _configure(self) -> None:
        models = [*self._providers.models.values()]
        dice = random.Random(self._settings.seed)
        dice.shuffle(models)
        wait_s = QUOTA_S * self._settings.scale / 2 if self._settings.harm else 3600
        settings = {
            "models": {"medium": models},
            "quality_gates": {"test": f"sh {GATE}"},
            "idle_s": IDLE_S,
            "model_wait_s": max(1, round(wait_s)),
            "tiers": {"builder": {"iterations": 2, "timeout_min": 5}},
        }
        folder = self._place.home / "scaffold" / "config"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        (self._place.folder / "plan.yaml").write_text(yaml.safe_dump(self.workload.plan()))
        self._place.environ |= self._providers.environ

    async def _do_harm(self) -> None:
        settings = self._settings
        await self._until(self._works)
        if settings.once:
            seconds = {"outage": OUTAGE_S, "quota": QUOTA_S}[settings.once] * settings.scale
            self._providers.begin(WIRES, settings.once, seconds)
            self._harm.done[settings.once] += 1
        elif settings.harm:
            await self._harm.do(disk=self._disk)

    def _works(self) -> bool:
        return self._has_run() and sum(self._providers.served.values()) > 0

    def _has_run(self) -> bool:
        try:
            return bool(self._place.rows("SELECT id FROM run"))
        except (OSError, sqlite3.Error, psycopg.Error):  # no database yet, or one without tables
            return False

    async def _until(self, condition: Any) -> None:
        while not condition():  # noqa: ASYNC110 - it looks at another process
            await asyncio.sleep(POLL_S)

    async def _until_over(self, commands: Commands, harm: "asyncio.Task[None]") -> str:
        """Wait for the run's end, resume it when nobody else will, and show how far it is; return its status."""
        shown = quiet = 0.0
        try:
            await asyncio.wait_for(self._until(self._has_run), START_S)
        except TimeoutError:
            raise RuntimeError(f"the run did not begin: {self._log.read_text()}") from None
        while True:
            await asyncio.sleep(POLL_S)
            if harm.done():
                harm.result()
            now = time.monotonic() - self._began
            try:
                run = self._place.run()
            except psycopg.Error:
                if now > self._settings.limit_s:
                    raise
                continue  # a server under this load may take its time
            if run["status"] in OVER and run["owner"] is None:
                return str(run["status"])
            if now > self._settings.limit_s:
                return f"stuck: {run['status']} ({run['reason']})"
            # A killed process is dead at once; a process that starts has no row yet.
            quiet = 0.0 if self._place.processes() else quiet + POLL_S
            if quiet >= 5 * POLL_S:
                self._go_on(commands)
                quiet = -10 * POLL_S
            if now >= shown:
                self._show(now, run)
                shown = now + SHOWN_EVERY_S

    def _go_on(self, commands: Commands) -> None:
        """Give up what cannot land, if that is what the run waits for; else resume it."""
        asked = self._place.rows("SELECT id FROM inbox WHERE state = 'open' AND kind = 'question'")
        for (item,) in asked:
            commands.start("answer", item, "fail")
        if not asked:
            self._resumed += 1
            commands.start("resume", "--detach")

    def _show(self, now: float, run: Mapping[str, Any]) -> None:
        counts = dict(self._place.rows("SELECT status, COUNT(*) FROM action GROUP BY status"))
        harm = sum(self._harm.done.values())
        print(f"{now:6.0f} s  {run['status']}  {counts}  harm: {harm}", file=sys.stderr, flush=True)

    def checker(self) -> Checker:
        """Return what checks the place as it is now."""
        return Checker(self._place, self.workload, self.user, self._settings.budget_usd)

    def _result(self, status: str, seconds: float, cpu_s: float, violations: list[str]) -> SoakResult:
        outcomes = self._place.rows("SELECT outcome, COUNT(*) FROM attempt GROUP BY outcome")
        return SoakResult(
            settings=self._settings,
            seconds=round(seconds),
            status=status,
            landed=len(self.checker().landed),
            landing=sum(job.lands for job in self.workload.jobs),
            attempts=dict(Counter({f"{outcome}": count for outcome, count in outcomes}).most_common()),
            cpu_s=round(cpu_s, 1),
            resumed=self._resumed,
            harm=dict(self._harm.done.most_common()),
            user=dict(self.user.done.most_common()),
            requests=dict(self._providers.served.most_common()),
            violations=violations,
        )
