"""Signs of life of a running agent, and how long it has been idle."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from scaffold.core.conversation import Delta, RetryWait
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Clock
from scaffold.core.spending import Amount
from scaffold.core.tool import Tool, ToolOutput
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.attempts.time_limit import TimeLimit, attempt_timeout_s


class ActivityClock:
    """Tracks an agent's activity: model output, the start and end of tool calls, command output.

    An agent that waits for a human, for budget or for its model's endpoint is not idle.
    """

    def __init__(self, clock: Clock, *, idle_s: float, limit: TimeLimit) -> None:
        """Start now; the agent is idle after `idle_s` seconds without a beat. `limit` is the time of its attempt."""
        self.limit = limit
        self._clock = clock
        self._idle_s = idle_s
        self._waits = 0
        self._idle_at = 0.0
        self.beat()

    def beat(self, *_: object) -> None:
        """Record a sign of life; the arguments are ignored, so that any callback fits."""
        self._postpone_idle(0.0)

    def on_delta(self, delta: Delta) -> None:
        """Record a piece of a reply; an announced retry wait does not count as idle."""
        self._postpone_idle(delta.seconds if isinstance(delta, RetryWait) else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Never count as idle while the block runs."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            self.beat()

    @contextmanager
    def parked(self) -> Iterator[None]:
        """Never count as idle, and let the attempt's time stand still: its model accepts no requests."""
        with self.limit.paused(), self.waiting():
            yield

    def guard(self, tool: Tool) -> Tool:
        """Return the tool with a beat when a call starts and ends."""

        async def work(args: Mapping[str, Any]) -> ToolOutput:
            self.beat()
            try:
                return await tool.run(args)
            finally:
                self.beat()

        return msgspec.structs.replace(tool, run=work)

    async def wait_until_idle(self) -> None:
        """Return once there has been no beat for `idle_s` seconds."""
        self.beat()
        while (left_s := self._idle_s if self._waits else self._idle_at - self._clock.monotonic()) > 0:
            await self._clock.sleep(left_s)

    def _postpone_idle(self, seconds: float) -> None:
        self._idle_at = max(self._idle_at, self._clock.monotonic() + seconds + self._idle_s)


def attempt_activity(clock: Clock, task: Assignment) -> ActivityClock:
    """Return the activity of an attempt that begins now, with the limits of its run."""
    settings = task.run.settings
    return ActivityClock(
        clock, idle_s=settings.limits.idle_s, limit=TimeLimit(clock, attempt_timeout_s(task.run, task.action))
    )


class WaitAwareBudget:
    """A budget whose waits do not count as idle. Implements `core.ports.Budget`."""

    def __init__(self, inner: Budget, activity: ActivityClock) -> None:
        self._inner = inner
        self._activity = activity

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated cost of a request with the inner budget."""
        with self._activity.waiting():
            return await self._inner.reserve(estimate)

    def left_for(self, reservation: ReservationId) -> Amount:
        """Return what the inner budget has left for the request."""
        return self._inner.left_for(reservation)

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Store how many tries may have been billed with the inner budget."""
        self._inner.set_tries(reservation, tries, estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage with the inner budget."""
        self._inner.settle(reservation, usage)
