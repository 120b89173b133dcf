"""Trying again: one policy for every model."""

import math
from typing import Protocol

from scaffold.core.conversation import Hear, Reply, Request, Superseded, Waiting, unheard
from scaffold.core.errors import ModelTrouble
from scaffold.core.ids import Ticket
from scaffold.core.model import Usage
from scaffold.core.ports import Clock, Throttle, Verdict
from scaffold.llm.ear import Ear
from scaffold.llm.throttle import Jitter

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0


class Tries(Protocol):
    """A model that is told which try of a request this is."""

    @property
    def endpoint(self) -> str:
        """Return who else is asked too much when this model is."""
        ...

    @property
    def window_tokens(self) -> int | None:
        """Return how many tokens a request and its reply may have together; None where nobody knows."""
        ...

    def estimate(self, request: Request) -> Usage:
        """Return what the request is likely to use."""
        ...

    async def attempt(self, request: Request, try_number: int, hear: Hear, *, silence_s: float) -> Reply:
        """Return one whole reply to try `try_number` (from 1), told to `hear` as it comes.

        ModelTrouble when none is to be had, transient if nothing at all came within `silence_s`.
        """
        ...


class RetryingModel:
    """Repeats what failed for the moment, after waits that double from 1 s to 30 s, each cut by up to a half at random.

    An endpoint's own wish goes before. No try of a request begins later than `retry_s` after its first one failed, nor
    is it silent for longer than that; one that gives signs of life by then goes on. A try that heard nothing for
    `idle_s` failed.
    """

    def __init__(
        self,
        inner: Tries,
        *,
        clock: Clock,
        rng: Jitter,
        throttle: Throttle,
        idle_s: float = 60.0,
        retry_s: float = 60.0,
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._rng = rng
        self._throttle = throttle
        self._idle_s = idle_s
        self._retry_s = retry_s

    @property
    def window_tokens(self) -> int | None:
        """Return how many tokens a request and its reply may have together; None where nobody knows."""
        return self._inner.window_tokens

    def estimate(self, request: Request) -> Usage:
        """Return what the request is likely to use; tries that fail are not counted."""
        return self._inner.estimate(request)

    async def reply(self, request: Request, hear: Hear = unheard) -> Reply:
        """Return the first reply a try gives; ModelTrouble if one fails for good, or when time is up."""
        ear = hear if isinstance(hear, Ear) else Ear(hear)
        tried, deadline = 0, math.inf
        last: ModelTrouble | None = None
        while True:
            ticket = await self._enter(min(self._retry_s, deadline - self._now()), last, hear)
            silence_s = min(self._idle_s, deadline - self._now())
            if last is not None and silence_s <= 0:
                self._throttle.leave(ticket, "failed")
                raise _given_up(last, tried, 0.0) from last
            tried += 1
            try:
                return await self._attempt(ticket, request, tried, ear, silence_s)
            except ModelTrouble as trouble:
                if not trouble.transient:
                    raise
                last = trouble
                deadline = min(deadline, self._now() + self._retry_s)
                wait_s = self._wait_s(trouble, tried)
                if self._now() + wait_s >= deadline:
                    raise _given_up(trouble, tried, wait_s) from trouble
            if ear.begun:
                ear(Superseded(last.what))
            if not last.limited:
                hear(Waiting(wait_s, last.what))
                await self._clock.sleep(wait_s)

    async def _enter(self, patience_s: float, last: ModelTrouble | None, hear: Hear) -> Ticket:
        def parked(seconds: float) -> None:
            hear(Waiting(seconds, "The model's endpoint has too much to do." if last is None else last.what))

        return await self._throttle.enter(self._inner.endpoint, patience_s=patience_s, parked=parked)

    async def _attempt(self, ticket: Ticket, request: Request, number: int, hear: Hear, silence_s: float) -> Reply:
        verdict: Verdict = "failed"
        wish_s: float | None = None
        try:
            reply = await self._inner.attempt(request, number, hear, silence_s=silence_s)
            verdict = "ok"
        except ModelTrouble as trouble:
            if trouble.limited and trouble.transient:
                verdict, wish_s = "limited", trouble.retry_after_s
            raise
        finally:
            self._throttle.leave(ticket, verdict, retry_after_s=wish_s)
        return reply

    def _wait_s(self, trouble: ModelTrouble, tried: int) -> float:
        """Return how long to wait; one that was told there is too much to do waits with all the others."""
        if trouble.limited:
            return self._throttle.wait_s(self._inner.endpoint)
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (tried - 1))
        return max(self._rng.uniform(longest / 2, longest), trouble.retry_after_s or 0.0)

    def _now(self) -> float:
        return self._clock.monotonic()


def _given_up(trouble: ModelTrouble, tries: int, wait_s: float) -> ModelTrouble:
    times = "once" if tries == 1 else f"{tries} times"
    again = f", may be asked again in {wait_s:.0f} s" if trouble.retry_after_s and wait_s else ""
    return ModelTrouble(
        f"{trouble.what} (tried {times}{again})",
        trouble.fix,
        transient=True,
        limited=trouble.limited,
        retry_after_s=wait_s if trouble.retry_after_s else None,
    )
