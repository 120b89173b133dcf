"""Which faults occur, and when: all of it drawn from one seeded source of chance."""

from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251 - seeded
from typing import TypeVar

from msgspec import Struct

from simulator.processes import CURRENT, Killed, Process

Drawn = TypeVar("Drawn")


class FaultRates(Struct, frozen=True, kw_only=True):
    """The probability of each kind of fault, each time that it could happen."""

    crash: float = 0.0
    """That a process dies at one of its writes: half of them just before, half just after it is kept."""
    locked: float = 0.0
    """That the database cannot be had for a write."""
    deaf: float = 0.0
    """That a ring of a doorbell is lost, late, or heard twice."""
    slow: float = 0.0
    """That a git command takes long."""
    refused: float = 0.0
    """That the machine has no process to spare."""


NO_FAULTS = FaultRates()


class FaultInjector:
    """Decides the fate of every write, wake-up and wait of the simulated processes."""

    def __init__(self, chance: Random, odds: FaultRates, bury: Callable[[Process], None]) -> None:
        """`bury` is called once for each process that dies."""
        self.chance = chance
        self.odds = odds
        self._bury = bury

    def strikes(self, odds: float) -> bool:
        """Return whether an event of this probability happens."""
        return odds > 0 and self.chance.random() < odds

    def draw(self, weights: Sequence[tuple[Drawn, float]]) -> Drawn:
        """Return one of the items, by their weights."""
        things, chances = zip(*weights, strict=True)
        return self.chance.choices(things, chances)[0]

    def moment(self, process: Process, effect: Callable[[], None]) -> None:
        """Execute a write of a process, unless it dies; raises Killed if it dies before or after."""
        dies = self.strikes(self.odds.crash)
        if dies and self.strikes(0.5):
            self.kill(process)
        effect()
        if dies:
            self.kill(process)

    def locked(self) -> bool:
        """Return whether another process holds the lock of the database."""
        return self.strikes(self.odds.locked)

    def latency_s(self) -> float:
        """Return how long a git command takes."""
        return self.chance.uniform(0.0, 2.0) if self.strikes(self.odds.slow) else 0.001

    def ring_fate(self) -> tuple[float, ...]:
        """Return after how many seconds each wake-up arrives."""
        if not self.strikes(self.odds.deaf):
            return (0.0,)
        late = self.chance.uniform(0.0, 3.0)
        return self.draw((((), 2), ((late,), 2), ((0.0, late), 1)))

    def kill(self, process: Process) -> None:
        """Kill a process; raises Killed if it is the current one."""
        if not process.dead:
            process.dead = process.signalled = True
            self._bury(process)
        if CURRENT.get() is process:
            raise Killed(process.name)
