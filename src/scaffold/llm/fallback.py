"""One model out of several: the first whose endpoint accepts requests."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.conversation import DeltaHandler, Reply, Request, StreamReset, ignore_delta
from scaffold.core.errors import ModelUnavailable
from scaffold.core.model import Usage
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.transport.retry import RetryingModel


class Candidate(Struct, frozen=True):
    """One conversation with one of the models, as two models that differ in how long they wait for its endpoint."""

    at_once: RetryingModel
    """Gives up when the endpoint is parked."""
    patient: RetryingModel
    """Waits for a parked endpoint as the run does."""


class FallbackModel:
    """Asks the first model whose endpoint accepts requests; waits for one of them if none does.

    Implements `core.ports.Model`. A request that fails for another reason than its endpoint is not asked again.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        """Take at least one candidate, the preferred one first."""
        self._candidates = tuple(candidates)

    @property
    def window_tokens(self) -> int | None:
        """Return the smallest context window: a conversation has to fit into each of them. None if none is known."""
        return min(filter(None, (each.patient.window_tokens for each in self._candidates)), default=None)

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request at the model that would be asked now."""
        first = next((each for each in self._candidates if not each.patient.parked_s), self._candidates[0])
        return first.patient.estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the first complete reply; ModelUnavailable if all endpoints stay away, or refuse this user."""
        listener = DeltaListener(on_delta)
        refused: set[int] = set()
        first: ModelUnavailable | None = None
        for index, each in enumerate(self._candidates):
            if each.at_once.parked_s:
                continue
            try:
                return await each.at_once.reply(request, listener)
            except ModelUnavailable as error:
                first = first or error
                if not error.transient:
                    refused.add(index)
                if listener.has_output:
                    listener(StreamReset(error.what))
        waiting = [each.patient for index, each in enumerate(self._candidates) if index not in refused]
        if not waiting and first is not None:
            raise first
        return await min(waiting, key=lambda each: each.parked_s).reply(request, listener)
