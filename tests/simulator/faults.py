"""Which faults occur, and when: everything is drawn from one seeded random number generator."""

from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251 - seeded
from typing import TypeVar

from msgspec import Struct

from simulator.processes import CURRENT, Killed, Process

Drawn = TypeVar("Drawn")


class FaultRates(Struct, frozen=True, kw_only=True):
    """The probability of each kind of fault, each time that it could happen."""

    crash: float = 0.0
    """That a process dies at one of its writes: half of them just before, half just after the commit."""
    locked: float = 0.0
    """That the database is locked for a write."""
    lost_wakeup: float = 0.0
    """That a wake-up is lost, late, or delivered twice."""
    slow_git: float = 0.0
    """That a git command takes a long time."""
    slow_landing: float = 0.0
    """That the check of what would land takes a long time, so that candidates pile up."""
    no_process: float = 0.0
    """That the machine cannot start another process."""


NO_FAULTS = FaultRates()


class FaultInjector:
    """Injects faults into the writes, wake-ups and waits of the simulated processes."""

    def __init__(self, rng: Random, rates: FaultRates, on_death: Callable[[Process], None]) -> None:
        """`on_death` is called once for each process that dies."""
        self.rng = rng
        self.rates = rates
        self._on_death = on_death

    def happens(self, probability: float) -> bool:
        """Return whether an event of this probability happens."""
        return probability > 0 and self.rng.random() < probability

    def draw(self, weights: Sequence[tuple[Drawn, float]]) -> Drawn:
        """Return one of the items, by their weights."""
        items, each_weight = zip(*weights, strict=True)
        return self.rng.choices(items, each_weight)[0]

    def execute_write(self, process: Process, effect: Callable[[], None]) -> None:
        """Execute a write of a process, unless it dies; raises Killed if it dies before or after."""
        dies = self.happens(self.rates.crash)
        if dies and self.happens(0.5):
            self.kill(process)
        effect()
        if dies:
            self.kill(process)

    def locked(self) -> bool:
        """Return whether another process holds the lock of the database."""
        return self.happens(self.rates.locked)

    def latency_s(self, command: str = "") -> float:
        """Return how long a git command takes; what would land is committed first, and then checked."""
        if command == "commit-tree" and self.happens(self.rates.slow_landing):
            return self.rng.uniform(0.0, 4.0)
        return self.rng.uniform(0.0, 2.0) if self.happens(self.rates.slow_git) else 0.001

    def wake_delays(self) -> tuple[float, ...]:
        """Return after how many seconds a wake-up arrives, each time that it does."""
        if not self.happens(self.rates.lost_wakeup):
            return (0.0,)
        late = self.rng.uniform(0.0, 3.0)
        return self.draw((((), 2), ((late,), 2), ((0.0, late), 1)))

    def kill(self, process: Process) -> None:
        """Kill a process; raises Killed if it is the current one."""
        if not process.dead:
            process.dead = process.signalled = True
            self._on_death(process)
        if CURRENT.get() is process:
            raise Killed(process.name)
