"""Signs of life of an agent at work, and how long there have been none."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from scaffold.core.conversation import Delta, Waiting
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Clock
from scaffold.core.tool import Tool, ToolOutput


class Pulse:
    """Beats with everything an agent does: what its model says, what its tools begin and end, what commands print.

    Whoever waits for somebody else - a human, money, an endpoint that has too much to do - is not silent.
    """

    def __init__(self, clock: Clock, *, idle_s: float) -> None:
        """Begin now; `idle_s` without a beat is silence."""
        self._clock = clock
        self._idle_s = idle_s
        self._waits = 0
        self._silent_at = 0.0
        self.beat()

    def beat(self, *_: object) -> None:
        """Note a sign of life, whatever it is."""
        self._excuse(0.0)

    def hear(self, delta: Delta) -> None:
        """Take what comes of a reply; a wait that is told has its time."""
        self._excuse(delta.seconds if isinstance(delta, Waiting) else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Hold silence for a live wait, for as long as it takes."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            self.beat()

    def guard(self, tool: Tool) -> Tool:
        """Return the tool with a beat as it begins and as it ends."""

        async def work(args: Mapping[str, Any]) -> ToolOutput:
            self.beat()
            try:
                return await tool.run(args)
            finally:
                self.beat()

        return msgspec.structs.replace(tool, run=work)

    async def silence(self) -> None:
        """Return once there has been no beat for too long."""
        self.beat()
        while (left_s := self._left_s()) > 0:
            await self._clock.sleep(left_s)

    def _excuse(self, seconds: float) -> None:
        self._silent_at = max(self._silent_at, self._clock.monotonic() + seconds + self._idle_s)

    def _left_s(self) -> float:
        return self._idle_s if self._waits else self._silent_at - self._clock.monotonic()


class PatientBudget:
    """A budget whose waits are no silence. Implements `core.ports.Budget`."""

    def __init__(self, inner: Budget, pulse: Pulse) -> None:
        self._inner = inner
        self._pulse = pulse

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Set aside what a request may cost, as the inner one does."""
        with self._pulse.waiting():
            return await self._inner.reserve(estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book what was used, as the inner one does."""
        self._inner.settle(reservation, usage)
