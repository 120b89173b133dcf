"""Forward chaining: what can ever be true, how early, and by which chain of steps.

Steps only ever add to what holds, so one pass decides reachability exactly, in time linear in the steps
and their needs (times the logarithm that keeps them in order of time).
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from scaffold.core.ids import Assertion

Token = Assertion | int
"""Something that may hold: an assertion, or that the step at this index has begun to let others run."""

ORPHANED = -1
"""The token that an action waits for whose parent is no compound of its goal; nothing gives it."""


class Step(Struct, frozen=True):
    """Something that happens as soon as all it needs holds, takes its time, and makes what it gives hold."""

    needs: frozenset[Token]
    gives: tuple[Token, ...]
    duration: float = 1
    """In any unit, at least 0; a step of duration 0 passes the chain through without being on it."""


class Reach(Struct, frozen=True):
    """What came of it; the sequences have one entry for each step."""

    starts: tuple[float | None, ...]
    """The earliest start; None for a step that never happens."""
    before: tuple[int | None, ...]
    """The step this one had to wait for longest, the first of several; None for one that waited for none."""
    held: frozenset[Token]

    def chain_to(self, index: int) -> tuple[int, ...]:
        """Return the steps that led to the step at `index`, in order of time, it included."""
        chain = [index]
        while (earlier := self.before[chain[-1]]) is not None:
            chain.append(earlier)
        return tuple(reversed(chain))


class Chaining:
    """Forward chaining that can be gone on with: fire a step by hand, and see what follows from it."""

    def __init__(self, steps: Sequence[Step], held: Iterable[Token] = ()) -> None:
        """Start with `held` true at time 0, and let everything happen that can."""
        self.held: set[Token] = set(held)
        self.starts: list[float | None] = [None] * len(steps)
        self._steps = steps
        self._waits = [len(step.needs - self.held) for step in steps]
        self._latest: list[tuple[float, int] | None] = [None] * len(steps)
        self._needers: dict[Token, list[int]] = {}
        self._under_way: list[tuple[float, int]] = []
        for index, step in enumerate(steps):
            for need in step.needs:
                self._needers.setdefault(need, []).append(index)
        for index, waits in enumerate(self._waits):
            if waits == 0:
                self._start(index, 0)
        self._run()

    def fire(self, indexes: Iterable[int]) -> None:
        """Let these steps, which have not happened, do so whatever they need; then everything that can."""
        for index in indexes:
            self._start(index, 0)
        self._run()

    def reach(self) -> Reach:
        """Return what happened so far."""
        before = tuple(latest and latest[1] for latest in self._latest)
        return Reach(tuple(self.starts), before, frozenset(self.held))

    def _start(self, index: int, time: float) -> None:
        self.starts[index] = time
        heappush(self._under_way, (time + self._steps[index].duration, index))

    def _run(self) -> None:
        while self._under_way:
            time, index = heappop(self._under_way)
            for token in self._steps[index].gives:
                if token not in self.held:
                    self.held.add(token)
                    self._release(token, index, time)

    def _release(self, token: Token, giver: int, time: float) -> None:
        """Tell the needers of `token`; a giver without duration names the one it waited for itself."""
        cause = (-time, giver) if self._steps[giver].duration else self._latest[giver]
        for needer in self._needers.get(token, ()):
            if cause is not None:
                self._latest[needer] = min(cause, self._latest[needer] or cause)
            self._waits[needer] -= 1
            if self._waits[needer] == 0 and self.starts[needer] is None:
                self._start(needer, time)


def forward_chain(steps: Sequence[Step], held: Iterable[Token] = ()) -> Reach:
    """Return what happens when `held` is true at time 0."""
    return Chaining(steps, held).reach()
