"""Trying again: one policy for every model."""

import asyncio
from typing import Protocol

from scaffold.core.conversation import Reply, Request
from scaffold.core.errors import ModelTrouble
from scaffold.core.ports import Clock

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0


class Tries(Protocol):
    """A model that is told which try of a request this is."""

    async def attempt(self, request: Request, try_number: int) -> Reply:
        """Return one whole reply to try `try_number` (from 1); raises ModelTrouble when none is to be had."""
        ...


class Jitter(Protocol):
    """What is needed of `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between `a` and `b`."""
        ...


class RetryingModel:
    """Repeats what failed for the moment, after waits that double from 1 s to 30 s, each cut by up to a half at random.

    Each try gets `idle_s` seconds; all tries and waits of one request end within `total_s`.
    """

    def __init__(self, inner: Tries, *, clock: Clock, rng: Jitter, idle_s: float = 60.0, total_s: float = 60.0) -> None:
        self._inner = inner
        self._clock = clock
        self._rng = rng
        self._idle_s = idle_s
        self._total_s = total_s

    async def reply(self, request: Request) -> Reply:
        """Return the first reply a try gives; ModelTrouble if one fails for good, or when time is up."""
        deadline = self._clock.monotonic() + self._total_s
        number = 0
        while True:
            number += 1
            try:
                return await self._attempt(request, number, deadline - self._clock.monotonic())
            except ModelTrouble as trouble:
                wait_s = self._wait_s(number)
                if not trouble.transient:
                    raise
                if self._clock.monotonic() + wait_s >= deadline:
                    raise _given_up(trouble, number) from trouble
            await self._clock.sleep(wait_s)

    async def _attempt(self, request: Request, number: int, left_s: float) -> Reply:
        limit_s = min(self._idle_s, left_s)
        try:
            async with asyncio.timeout(limit_s):
                return await self._inner.attempt(request, number)
        except TimeoutError as error:
            raise ModelTrouble(
                f"The model did not answer within {limit_s:.0f} s.",
                "Check the connection to the model, then resume.",
                transient=True,
            ) from error

    def _wait_s(self, number: int) -> float:
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (number - 1))
        return self._rng.uniform(longest / 2, longest)


def _given_up(trouble: ModelTrouble, tries: int) -> ModelTrouble:
    times = "once" if tries == 1 else f"{tries} times"
    return ModelTrouble(f"{trouble.what} (tried {times})", trouble.fix, transient=True)
