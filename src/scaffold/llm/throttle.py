"""The way to endpoints for one process alone; the store has the one that all processes of a user share."""

import itertools
from typing import Protocol

from scaffold.core.errors import ModelTrouble
from scaffold.core.ids import Ticket
from scaffold.core.ports import Clock, Parked, Verdict, untold
from scaffold.core.throttling import FREE, Pace, admits, limited, nap_s, succeeded, wait_s


class Jitter(Protocol):
    """What is needed of `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between `a` and `b`."""
        ...


class Unshared:
    """A Throttle that knows of the requests of this process only."""

    def __init__(self, *, clock: Clock, rng: Jitter) -> None:
        self._clock = clock
        self._rng = rng
        self._numbers = itertools.count(1)
        self._paces: dict[str, Pace] = {}
        self._ways: dict[Ticket, str] = {}
        self._in_flight: dict[str, int] = {}

    async def enter(self, endpoint: str, *, patience_s: float, parked: Parked = untold) -> Ticket:
        """Return when a request may start; ModelTrouble at once if that will take more than `patience_s`."""
        leave_at = self._clock.monotonic() + patience_s
        while not self._admits(endpoint):
            now = self._clock.monotonic()
            parked_s = self.wait_s(endpoint)
            if now + parked_s > leave_at:
                raise _refusal(endpoint, parked_s)
            if parked_s:
                parked(parked_s)
                parked = untold
            await self._clock.sleep(nap_s(self._pace(endpoint), now, self._rng.uniform(0.0, 1.0)))
        ticket = Ticket(str(next(self._numbers)))
        self._ways[ticket] = endpoint
        self._in_flight[endpoint] = self._in_flight.get(endpoint, 0) + 1
        return ticket

    def wait_s(self, endpoint: str) -> float:
        """Return how long the endpoint is parked from now, in seconds; 0 if it is not."""
        return wait_s(self._pace(endpoint), self._clock.monotonic())

    def leave(self, ticket: Ticket, verdict: Verdict, *, retry_after_s: float | None = None) -> None:
        """Tell how the request ended; `retry_after_s` is the endpoint's own wish after `limited`."""
        endpoint = self._ways.pop(ticket)
        now = self._clock.monotonic()
        pace = self._pace(endpoint)
        if verdict == "limited":
            jitter = self._rng.uniform(0.0, 1.0)
            self._paces[endpoint] = limited(pace, now, retry_after_s, self._in_flight[endpoint], jitter)
        elif verdict == "ok" and pace is not FREE:
            self._paces[endpoint] = succeeded(pace, now)
        self._in_flight[endpoint] -= 1

    def _pace(self, endpoint: str) -> Pace:
        return self._paces.get(endpoint, FREE)

    def _admits(self, endpoint: str) -> bool:
        return admits(self._pace(endpoint), self._clock.monotonic(), self._in_flight.get(endpoint, 0))


def _refusal(endpoint: str, seconds: float) -> ModelTrouble:
    return ModelTrouble(
        f"{endpoint} has too much to do: it may be asked again in {seconds:.0f} s.",
        "Wait that long, run fewer agents at a time, or choose another model with `--model`.",
        limited=True,
        retry_after_s=seconds,
    )
