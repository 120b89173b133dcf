"""A throttle for one process; `store` has the one that all processes of a user share."""

import itertools
from typing import Protocol

from scaffold.core.errors import ModelError
from scaffold.core.ids import Ticket
from scaffold.core.ports import Clock, CooldownHandler, RequestOutcome, ignore_cooldown
from scaffold.core.throttling import (
    UNTHROTTLED,
    ThrottleState,
    admits,
    after_rate_limit,
    after_success,
    cooldown_left_s,
    poll_delay_s,
)


class RandomSource(Protocol):
    """The part of `random.Random` that we use."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a random number between `a` and `b`."""
        ...


class LocalThrottle:
    """A Throttle that counts only this process's requests."""

    def __init__(self, *, clock: Clock, rng: RandomSource) -> None:
        self._clock = clock
        self._rng = rng
        self._numbers = itertools.count(1)
        self._states: dict[str, ThrottleState] = {}
        self._endpoints: dict[Ticket, str] = {}
        self._in_flight: dict[str, int] = {}

    async def enter(self, endpoint: str, *, timeout_s: float, on_cooldown: CooldownHandler = ignore_cooldown) -> Ticket:
        """Wait until a request may start; ModelError at once if the wait would exceed `timeout_s`."""
        leave_at = self._clock.monotonic() + timeout_s
        while not self._admits(endpoint):
            now = self._clock.monotonic()
            cooldown_s = self.wait_s(endpoint)
            if now + cooldown_s > leave_at:
                raise _refusal(endpoint, cooldown_s)
            if cooldown_s:
                on_cooldown(cooldown_s)
                on_cooldown = ignore_cooldown
            await self._clock.sleep(poll_delay_s(self._state(endpoint), now, self._rng.uniform(0.0, 1.0)))
        ticket = Ticket(str(next(self._numbers)))
        self._endpoints[ticket] = endpoint
        self._in_flight[endpoint] = self._in_flight.get(endpoint, 0) + 1
        return ticket

    def wait_s(self, endpoint: str) -> float:
        """Return the seconds left of the endpoint's cooldown; 0 if there is none."""
        return cooldown_left_s(self._state(endpoint), self._clock.monotonic())

    def leave(self, ticket: Ticket, verdict: RequestOutcome, *, retry_after_s: float | None = None) -> None:
        """Record how the request ended; `retry_after_s` is the endpoint's Retry-After if it was rate limited."""
        endpoint = self._endpoints.pop(ticket)
        now = self._clock.monotonic()
        state = self._state(endpoint)
        if verdict == "limited":
            jitter = self._rng.uniform(0.0, 1.0)
            self._states[endpoint] = after_rate_limit(state, now, retry_after_s, self._in_flight[endpoint], jitter)
        elif verdict == "ok" and state is not UNTHROTTLED:
            self._states[endpoint] = after_success(state, now)
        self._in_flight[endpoint] -= 1

    def _state(self, endpoint: str) -> ThrottleState:
        return self._states.get(endpoint, UNTHROTTLED)

    def _admits(self, endpoint: str) -> bool:
        return admits(self._state(endpoint), self._clock.monotonic(), self._in_flight.get(endpoint, 0))


def _refusal(endpoint: str, seconds: float) -> ModelError:
    return ModelError(
        f"{endpoint} is rate limited: retry in {seconds:.0f} s.",
        "Wait that long, run fewer agents at a time, or choose another model with `--model`.",
        limited=True,
        retry_after_s=seconds,
    )
