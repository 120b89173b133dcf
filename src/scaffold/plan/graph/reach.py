"""Forward chaining: what can become true, at what time at the earliest, and through which chain of steps.

Steps only add to what holds, so one pass decides reachability exactly, in time linear in the steps and their needs
(times a logarithm for the priority queue).
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from scaffold.core.ids import Assertion

ChainToken = Assertion | int
"""An assertion, or the index of a step that has started and lets its children run."""
ORPHANED = -1
"""The token that an action waits for if its parent is not a compound of its goal; no step gives it."""


class ChainStep(Struct, frozen=True):
    """A step that starts when all it needs holds, takes `duration`, and then makes what it gives hold."""

    needs: frozenset[ChainToken]
    gives: tuple[ChainToken, ...]
    duration: float = 1
    """In any unit, at least 0. A step of duration 0 is left out of chains, which pass through it."""


class Reach(Struct, frozen=True):
    """The result of forward chaining; the sequences have one entry per step."""

    starts: tuple[float | None, ...]
    """The earliest start; None for a step that can never start."""
    before: tuple[int | None, ...]
    """The step that each step waited for last, the first of several; None if it did not wait."""
    held: frozenset[ChainToken]

    def chain_to(self, index: int) -> tuple[int, ...]:
        """Return the chain of steps that ends with the step at `index`, in time order."""
        # Backwards: each step knows what it waited for last, not what it lets start.
        chain = [index]
        while (earlier := self.before[chain[-1]]) is not None:
            chain.append(earlier)
        return tuple(reversed(chain))


class ForwardChaining:
    """Forward chaining that can be continued: apply a step by hand and see what follows."""

    def __init__(self, steps: Sequence[ChainStep], held: Iterable[ChainToken] = ()) -> None:
        """Run every step that can run if `held` is true at time 0."""
        self.held: set[ChainToken] = set(held)
        self.starts: list[float | None] = [None] * len(steps)
        self._steps = steps
        # Nothing waits for an assertion that holds from the start.
        self._unmet = [len(step.needs - self.held) for step in steps]
        self._latest: list[tuple[float, int] | None] = [None] * len(steps)
        self._dependents: dict[ChainToken, list[int]] = {}
        self._running: list[tuple[float, int]] = []
        for index, step in enumerate(steps):
            for need in step.needs:
                self._dependents.setdefault(need, []).append(index)
        for index, unmet in enumerate(self._unmet):
            if unmet == 0:
                self._start_step(index, 0)
        self._run_steps()

    def apply_steps(self, indexes: Iterable[int]) -> None:
        """Run these steps, which have not started, regardless of their needs; then all that can run as a result."""
        for index in indexes:
            self._start_step(index, 0)
        self._run_steps()

    def reach(self) -> Reach:
        """Return the result so far."""
        before = tuple(latest and latest[1] for latest in self._latest)
        return Reach(tuple(self.starts), before, frozenset(self.held))

    def _start_step(self, index: int, time: float) -> None:
        self.starts[index] = time
        heappush(self._running, (time + self._steps[index].duration, index))

    def _run_steps(self) -> None:
        while self._running:
            time, index = heappop(self._running)
            for token in self._steps[index].gives:
                # The first giver counts: steps are taken in order of time, so it is the earliest.
                if token not in self.held:
                    self.held.add(token)
                    self._release_token(token, index, time)

    def _release_token(self, token: ChainToken, giver: int, time: float) -> None:
        """Mark `token` as available to the steps that need it; a giver of duration 0 passes on its own predecessor."""
        # A step without duration, such as a compound, is not a link of a chain.
        # Compared as pairs: the latest end comes first, and of several the step that comes first in the plan.
        cause = (-time, giver) if self._steps[giver].duration else self._latest[giver]
        for dependent in self._dependents.get(token, ()):
            if cause is not None:
                self._latest[dependent] = min(cause, self._latest[dependent] or cause)
            self._unmet[dependent] -= 1
            # A step that was fired by hand has a start already, whatever it still needs.
            if self._unmet[dependent] == 0 and self.starts[dependent] is None:
                self._start_step(dependent, time)


def forward_chain(steps: Sequence[ChainStep], held: Iterable[ChainToken] = ()) -> Reach:
    """Return the result of running all steps if `held` is true at time 0."""
    return ForwardChaining(steps, held).reach()
