"""One model out of several: the first whose endpoint accepts requests."""

from collections.abc import Sequence

from scaffold.core.conversation import DeltaHandler, Reply, Request, RetryWait, StreamReset, ignore_delta
from scaffold.core.errors import ModelAccessDenied, ModelUnavailable
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.transport.live_context import Patience
from scaffold.llm.transport.retry import RetryingModel

MIN_POLL_S, MAX_POLL_S = 1.0, 5.0
"""Bounds of the time after which all endpoints are looked at again; any of them may be back early."""


class FallbackModel:
    """Asks the first model whose endpoint accepts requests; waits until one of them does if none does.

    Implements `core.ports.Model`. A request that fails for another reason than its endpoint is not asked again.
    """

    def __init__(self, models: Sequence[RetryingModel], *, clock: Clock, patience: Patience) -> None:
        """Take at least one model, the preferred one first, each of which gives up when its endpoint is parked.

        `patience` is for the time in which no endpoint accepts requests.
        """
        self._models = tuple(models)
        self._clock = clock
        self._patience = patience

    @property
    def window_tokens(self) -> int | None:
        """Return the smallest context window: a conversation has to fit into each of them. None if none is known."""
        return min(filter(None, (each.window_tokens for each in self._models)), default=None)

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request at the model that would be asked now."""
        return next((each for each in self._models if not each.parked_s), self._models[0]).estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the first complete reply; ModelUnavailable if all endpoints stay away, or refuse this user."""
        listener = on_delta if isinstance(on_delta, DeltaListener) else DeltaListener(on_delta)
        waiting, refusal = list(self._models), None
        until_s: float | None = None
        while True:
            for model in [each for each in waiting if not each.parked_s]:
                try:
                    return await model.reply(request, listener)
                except ModelUnavailable as error:
                    if isinstance(error, ModelAccessDenied):
                        waiting.remove(model)
                        refusal = refusal or error
                    if listener.has_output:
                        listener(StreamReset(error.what))
            if not waiting and refusal is not None:
                raise refusal
            until_s = until_s or self._clock.monotonic() + self._patience.wait_s
            nearest = min(waiting, key=lambda each: each.parked_s)
            if self._clock.monotonic() + nearest.parked_s > until_s:
                return await nearest.reply(request, listener)  # which says until when it is parked
            listener(RetryWait(nearest.parked_s, "none of the models' endpoints accepts requests"))
            listener.waits()
            with self._patience.waiting():
                await self._clock.sleep(min(max(nearest.parked_s, MIN_POLL_S), MAX_POLL_S))
