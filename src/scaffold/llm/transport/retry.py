"""Retries, one policy for every model, and the throttle of one process.

`store` has the throttle that all processes of a user share.
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from scaffold.core.conversation import DeltaHandler, Reply, Request, RetryWait, StreamReset, ignore_delta
from scaffold.core.errors import ModelError, ModelUnavailable
from scaffold.core.ids import Ticket
from scaffold.core.model import Usage
from scaffold.core.ports import Clock, CooldownHandler, RequestOutcome, Throttle, ignore_cooldown
from scaffold.core.throttling import (
    UNTHROTTLED,
    ThrottleState,
    admits,
    after_request,
    cooldown_left_s,
    limited_to,
    poll_delay_s,
)
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.transport.live_context import IMPATIENT, RETRY_S, Patience, T

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 30.0
TELL_FULL_S = 5.0
FULL = "the model's server works on as many requests as it takes at once; this one waits for its turn"
LOG = logging.getLogger(__name__)


class RandomSource(Protocol):
    """The part of `random.Random` that we use."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a random number between `a` and `b`."""


class LocalThrottle:
    """A Throttle that counts only this process's requests."""

    def __init__(self, *, clock: Clock, rng: RandomSource) -> None:
        self._clock = clock
        self._rng = rng
        self._numbers = itertools.count(1)
        self._states: dict[str, ThrottleState] = {}
        self._endpoints: dict[Ticket, str] = {}
        self._in_flight: dict[str, int] = {}

    async def enter(
        self,
        endpoint: str,
        *,
        timeout_s: float,
        on_cooldown: CooldownHandler = ignore_cooldown,
        most: int | None = None,
    ) -> Ticket:
        """Wait until a request may start; ModelUnavailable at once if the wait would exceed `timeout_s`."""
        leave_at, told = self._clock.monotonic() + timeout_s, False
        while True:
            now, state = self._clock.monotonic(), limited_to(self._throttle_state(endpoint), most)
            if admits(state, now, self._in_flight.get(endpoint, 0)):
                break
            cooldown_s = self.wait_s(endpoint)
            if now + cooldown_s > leave_at:
                raise ModelUnavailable(
                    f"{endpoint} is rate limited: retry in {cooldown_s:.0f} s",
                    "Wait until then, run fewer agents at a time, or choose another model with `--model`.",
                    limited=True,
                    retry_after_s=cooldown_s,
                )
            if cooldown_s or not told:
                on_cooldown(cooldown_s)
                told, on_cooldown = True, ignore_cooldown if cooldown_s else on_cooldown
            await self._clock.sleep(poll_delay_s(state, now, self._rng.uniform(0.0, 1.0)))
        ticket = Ticket(str(next(self._numbers)))
        self._endpoints[ticket] = endpoint
        self._in_flight[endpoint] = self._in_flight.get(endpoint, 0) + 1
        return ticket

    def wait_s(self, endpoint: str) -> float:
        """Return the seconds left of the endpoint's cooldown; 0 if there is none."""
        return cooldown_left_s(self._throttle_state(endpoint), self._clock.monotonic())

    def lift(self, endpoint: str) -> None:
        """End the endpoint's cooldown, and keep its limit of requests."""
        self._states[endpoint] = msgspec.structs.replace(self._throttle_state(endpoint), cooldown_until_s=0.0)

    def leave(self, ticket: Ticket, verdict: RequestOutcome, *, retry_after_s: float | None = None) -> None:
        """Record how the request ended; `retry_after_s` is the endpoint's Retry-After if it was rate limited."""
        endpoint = self._endpoints.pop(ticket)
        self._states[endpoint] = after_request(
            self._throttle_state(endpoint),
            verdict,
            self._clock.monotonic(),
            retry_after_s=retry_after_s,
            in_flight=self._in_flight[endpoint],
            jitter=self._rng.uniform(0.0, 1.0),
        )
        self._in_flight[endpoint] -= 1

    def _throttle_state(self, endpoint: str) -> ThrottleState:
        return self._states.get(endpoint, UNTHROTTLED)


class SingleTryModel(Protocol):
    """A model without retries that receives the number of the try."""

    @property
    def endpoint(self) -> str:
        """Return the endpoint's name; models of the same endpoint share its rate limits."""

    @property
    def window_tokens(self) -> int | None:
        """Return the maximum tokens of a request and its reply together; None if unknown."""

    @property
    def slots(self) -> int | None:
        """Return how many requests the endpoint works on at once; None if unknown."""

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request."""

    async def attempt(self, request: Request, try_number: int, on_delta: DeltaHandler, *, silence_s: float) -> Reply:
        """Return one complete reply to try `try_number` (1-based), streaming its deltas to `on_delta`.

        Raises ModelError on failure, transient if nothing arrived within `silence_s`.
        """


class RetryingModel:
    """Retries transient failures with exponential backoff from 1 s to 30 s, each wait reduced by up to half at random.

    A longer Retry-After of the endpoint takes precedence. While the endpoint answers others, no try starts later than
    RETRY_S after the first failure, or stays silent beyond that time; a try that is receiving by then continues. While
    the endpoint is parked, the request waits as long as `patience` says. A try that receives nothing for `idle_s` has
    failed.
    """

    def __init__(
        self,
        inner: SingleTryModel,
        *,
        clock: Clock,
        rng: RandomSource,
        throttle: Throttle,
        idle_s: float = 60.0,
        patience: Patience = IMPATIENT,
        small_window: float = 0.0,
    ) -> None:
        """With a window of at most `small_window` tokens it counts as a small model; an unknown one is endless."""
        self._small_window = small_window
        self._inner = inner
        self._clock = clock
        self._rng = rng
        self._throttle = throttle
        self._idle_s = idle_s
        self._patience = patience

    @property
    def window_tokens(self) -> int | None:
        """Return the maximum tokens of a request and its reply together; None if unknown."""
        return self._inner.window_tokens

    @property
    def is_small(self) -> bool:
        """Return whether it is a small model, as far as its window is known."""
        return (self.window_tokens or math.inf) <= self._small_window

    @property
    def parked_s(self) -> float:
        """Return the seconds for which the endpoint accepts no requests; 0 if it does."""
        return self._throttle.wait_s(self._inner.endpoint)

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request, without failed tries."""
        return self._inner.estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the first successful reply.

        Raises ModelUnavailable if the endpoint stays away too long, another ModelError if a try fails permanently or
        the time to retry is over.
        """
        listener = on_delta if isinstance(on_delta, DeltaListener) else DeltaListener(on_delta)
        limits = _RetryLimits(self._patience.wait_s)
        tried, last = 0, None
        while True:
            ticket = await self._enter_endpoint(limits, last, listener)
            silence_s = min(self._idle_s, limits.until_s - self._now())
            # The throttle limits only cooldowns. The wait behind other requests may have used up the time, which is
            # the limited endpoint's matter and not this request's.
            if last is not None and silence_s <= 0:
                self._throttle.leave(ticket, "failed")
                raise _given_up(last, tried, 0.0, away=True) from last
            tried += 1
            listener.sends()
            try:
                return await self._attempt_once(ticket, request, tried, listener, silence_s)
            except ModelError as error:
                if not error.transient:
                    raise
                last = error
            await self._before_retry(limits, last, tried, listener)

    async def _enter_endpoint(self, limits: "_RetryLimits", last: ModelError | None, listener: DeltaListener) -> Ticket:
        """Wait until the next try may start; ModelUnavailable if the endpoint stays parked beyond the limits."""
        notices: list[asyncio.Task[None]] = []

        def on_cooldown(seconds: float) -> None:
            listener.waits()
            if seconds:
                busy = "the model's endpoint is busy or does not answer"
                listener(RetryWait(seconds, busy if last is None else last.what))
            else:
                notices.append(asyncio.create_task(self._tell_full(listener)))

        # Looked up only for a retry: each look reads the database.
        parked = last is not None and self._throttle.wait_s(self._inner.endpoint) > 0
        try:
            with self._patience.waiting():
                # None: the user wants the next try now, whatever the endpoint asked for.
                while (ticket := await self._or_hurried(self._admission(limits, on_cooldown))) is None:
                    self._throttle.lift(self._inner.endpoint)
        finally:
            for notice in notices:
                notice.cancel()
        if parked or limits.until_s <= self._now():
            limits.waited_out(self._now())
        return ticket

    def _admission(self, limits: "_RetryLimits", on_cooldown: CooldownHandler) -> Coroutine[Any, Any, Ticket]:
        return self._throttle.enter(
            self._inner.endpoint,
            timeout_s=limits.parked_left_s(self._now()),
            on_cooldown=on_cooldown,
            most=self._inner.slots,
        )

    async def _or_hurried(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        hurry = self._patience.hurry
        return await waiting if hurry is None else await hurry.ends(waiting)

    async def _tell_full(self, listener: DeltaListener) -> None:
        await self._clock.sleep(TELL_FULL_S)
        listener(RetryWait(0.0, FULL))

    async def _before_retry(
        self, limits: "_RetryLimits", last: ModelError, tried: int, listener: DeltaListener
    ) -> None:
        """Wait after a failed try; raise an error like `last` if the next try would start too late."""
        limits.failed(self._now(), self._patience.local_s if last.no_local_server else RETRY_S)
        wait_s = self._throttle.wait_s(self._inner.endpoint)
        parked = wait_s > 0
        # After a limit the throttle has parked the endpoint, or there is no cooldown to wait for.
        if not parked and not last.limited:
            longest = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** (tried - 1))
            wait_s = max(self._rng.uniform(longest / 2, longest), last.retry_after_s or 0.0)
        if wait_s >= limits.left_s(self._now(), parked=parked):
            raise _given_up(last, tried, wait_s, away=parked) from last
        if listener.has_output:
            listener(StreamReset(last.what))
        # While the endpoint is parked, the throttle makes this request wait with the others, and one asks for all.
        if not parked:
            listener.waits()
            listener(RetryWait(wait_s, last.what))
            with self._patience.waiting():
                await self._or_hurried(self._clock.sleep(wait_s))

    async def _attempt_once(
        self, ticket: Ticket, request: Request, number: int, on_delta: DeltaHandler, silence_s: float
    ) -> Reply:
        verdict: RequestOutcome = "failed"
        retry_after_s: float | None = None
        name, began_s = self._inner.endpoint, self._now()
        LOG.debug("request to %s, try %d", name, number)
        try:
            reply = await self._inner.attempt(request, number, on_delta, silence_s=silence_s)
            verdict = "ok"
            used = reply.usage
            tokens = f"{used.input_tokens} tokens in, {used.output_tokens} out"
            LOG.debug("%s answered after %.3f s: %s", name, self._now() - began_s, tokens)
        except ModelError as error:
            LOG.debug("%s failed after %.3f s: %s", name, self._now() - began_s, error.what)
            # Where this request gives up soon, it must not make later ones wait for a cooldown.
            soon = error.no_local_server and self._patience.local_s < RETRY_S
            if error.transient and not soon:
                verdict, retry_after_s = "limited" if error.limited else "unavailable", error.retry_after_s
            raise
        finally:
            self._throttle.leave(ticket, verdict, retry_after_s=retry_after_s)
        return reply

    def _now(self) -> float:
        return self._clock.monotonic()


class _RetryLimits:
    """The times until which one request may be retried, on the monotonic clock."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._first_failure_s = math.inf
        self.until_s = math.inf
        """No try starts later; infinite before the first failure."""

    def failed(self, now_s: float, retry_s: float) -> None:
        """Start the time to retry at the first failure."""
        self._first_failure_s = min(self._first_failure_s, now_s)
        self.until_s = min(self.until_s, now_s + retry_s)

    def waited_out(self, now_s: float) -> None:
        """Start the time to retry again: the endpoint admitted no request until now, so this one was not to blame."""
        if self._first_failure_s < math.inf and self._patience_s > RETRY_S:
            self.until_s = now_s + RETRY_S

    def parked_left_s(self, now_s: float) -> float:
        """Return the seconds that the request may still wait for a parked endpoint, at least 0."""
        return self._patience_s if self._first_failure_s == math.inf else max(0.0, self.left_s(now_s, parked=True))

    def left_s(self, now_s: float, *, parked: bool) -> float:
        """Return the seconds in which the request may still be retried."""
        return (self._first_failure_s + self._patience_s if parked else self.until_s) - now_s


def _given_up(error: ModelError, tries: int, wait_s: float, *, away: bool) -> ModelError:
    times = "once" if tries == 1 else f"{tries} times"
    again = f", retry in {wait_s:.0f} s" if error.retry_after_s and wait_s else ""
    return (ModelUnavailable if away else ModelError)(
        f"{error.what} (tried {times}{again})",
        error.fix,
        transient=True,
        limited=error.limited,
        retry_after_s=wait_s if error.retry_after_s else None,
    )
