"""An embedding model behind a server: OpenAI's, or one of the user's own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import SystemRandom  # noqa: TID251 - jitter needs no seed
from typing import Any

from msgspec import Struct

from scaffold.core.errors import BudgetExceeded, ContextOverflow, EmbeddingError, ModelError, ScaffoldError, UsageError
from scaffold.core.model import Usage
from scaffold.core.ports import Budget
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import importing
from scaffold.llm.registry.model_name import embedding_model
from scaffold.llm.transport.embeddings_request import (
    ASKED,
    EmbeddingEndpoint,
    EmbeddingRequest,
    find_embedding_endpoint,
)
from scaffold.llm.transport.live_context import LOCAL_RETRY_S, Deadlines, Patience
from scaffold.llm.transport.retry import RetryingModel
from scaffold.memory.embedders.vector_bytes import packed
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.shared_throttle import SharedThrottle
from scaffold.store.user_store import UserStore

MAX_CHARS_READ = 6_000
"""About what the models read of a text; more is not sent."""
MIN_CHARS_READ = 200
"""A server that finds a text of so few characters too long has another problem."""
BATCH_CHARS = 100_000
"""Of the texts of one request."""
KNOWN_TEXTS = 16
"""Queries whose vectors are kept: a search looks at two databases."""


class Waiting(Struct, frozen=True):
    """How long to wait for a server."""

    limit_s: float
    """For an answer, including retries."""
    pause_s: float
    """How long to pause after a failure."""
    texts: int
    """Batch size: a small machine may compute only a few texts a second."""


SEARCHING = Waiting(limit_s=5.0, pause_s=30.0, texts=16)
"""The user is waiting, and can have the results found by words."""
INDEXING = Waiting(limit_s=90.0, pause_s=0.0, texts=64)


class RemoteEmbedder:
    """Asks a server for vectors, within the budget; secrets are removed from texts before. Implements `Embedder`."""

    def __init__(
        self,
        model: str,
        user: UserStore,
        redactor: Redactor,
        *,
        environ: Mapping[str, str],
        budget: Budget,
        spend: Callable[[Usage], object] = lambda _usage: None,
        waiting: Waiting = SEARCHING,
    ) -> None:
        """Send nothing yet; UsageError if `model` has no embeddings. `spend` is told what the `budget` has paid."""
        self._name = embedding_model(model)
        self.model = str(self._name)
        self.used = Usage()
        """What was paid for by now."""
        self._redactor = redactor
        self._environ = environ
        self._budget = budget
        self._spend = spend
        self._waiting = waiting
        self._clock = SystemClock()
        self._throttle = SharedThrottle(user, clock=self._clock, me=own_identity())
        self._wire: Any = None
        self._turn = asyncio.Lock()
        self._queries: dict[str, bytes] = {}
        self._dimension = 0
        self.trouble: EmbeddingError | None = None
        """Why the last texts have no vectors."""
        self._again_s = 0.0

    @property
    def dimension(self) -> int:
        """How many numbers its vectors have; 0 until the first one."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return the vector of each text. EmbeddingError, which says what to do, if the server has none."""
        if len(texts) == 1 and texts[0] in self._queries:
            return [self._queries[texts[0]]]
        async with self._turn:
            if self.trouble is not None and self._clock.monotonic() < self._again_s:
                raise self.trouble
            try:
                found = await self._request_vectors([self._redactor.clean(text)[:MAX_CHARS_READ] for text in texts])
            except EmbeddingError as error:
                # Searches that follow soon would wait as long in vain.
                self.trouble, self._again_s = error, self._clock.monotonic() + self._waiting.pause_s
                raise
            self.trouble = None
        if len(texts) == 1:
            self._queries[texts[0]] = found[0]
            for oldest in list(self._queries)[:-KNOWN_TEXTS]:
                del self._queries[oldest]
        return found

    async def _request_vectors(self, texts: Sequence[str]) -> list[bytes]:
        try:
            at = find_embedding_endpoint(self._name, self._environ)
        except UsageError as error:
            raise EmbeddingError(error.what, error.fix) from error
        with importing():
            from scaffold.llm.transport.http_client import Transport
        self._wire = self._wire or Transport(self._environ)
        batches: list[list[str]] = [[]]
        for text in texts:
            batch = batches[-1]
            # A large request could exceed the server's limit, or the time that a small machine needs.
            if batch and (len(batch) == self._waiting.texts or sum(map(len, batch)) + len(text) > BATCH_CHARS):
                batches.append([])
            batches[-1].append(text)
        try:
            return [vector for batch in batches if batch for vector in await self._embed_batch(at, batch)]
        finally:
            # The next texts may come in a while, or in another event loop.
            await self._wire.close()

    async def _embed_batch(self, at: EmbeddingEndpoint, texts: Sequence[str]) -> list[bytes]:
        # Of texts that are too long for the server, the beginnings are embedded.
        try:
            return self._check_vectors(at, await self._request_within_budget(at, texts))
        except ContextOverflow as error:
            longest = max(map(len, texts))
            if len(texts) == 1 and longest <= MIN_CHARS_READ:
                raise _embedding_error(self.model, error) from error
        if len(texts) == 1:
            return await self._embed_batch(at, [texts[0][: longest // 2]])
        middle = len(texts) // 2
        return [*await self._embed_batch(at, texts[:middle]), *await self._embed_batch(at, texts[middle:])]

    async def _request_within_budget(self, at: EmbeddingEndpoint, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors as the server has them, within the budget. Raises ContextOverflow."""
        limit_s = self._waiting.limit_s
        deadlines = Deadlines(connect_s=min(10.0, limit_s), idle_s=limit_s, total_s=limit_s)
        asked = EmbeddingRequest(
            at, [text or " " for text in texts], wire=self._wire, clock=self._clock, deadlines=deadlines
        )
        model = RetryingModel(
            asked,
            clock=self._clock,
            rng=SystemRandom(),
            throttle=self._throttle,
            idle_s=limit_s,
            patience=Patience(wait_s=limit_s, local_s=LOCAL_RETRY_S),
        )
        try:
            reservation = await self._budget.reserve(model.estimate(ASKED))
        except BudgetExceeded as error:
            raise EmbeddingError(error.what, error.fix) from error
        used = Usage()
        try:
            async with asyncio.timeout(limit_s):
                reply = await model.reply(ASKED)
            used = reply.usage
        except ContextOverflow:
            raise
        except (ModelError, TimeoutError) as error:
            raise _embedding_error(self.model, asked.trouble or error) from error
        finally:
            self._budget.settle(reservation, used)
            if used != Usage():  # a free request is no news
                self.used += used
                self._spend(used)
        return asked.vectors

    def _check_vectors(self, at: EmbeddingEndpoint, vectors: Sequence[Sequence[float]]) -> list[bytes]:
        dimension = len(vectors[0])
        expected = self._dimension or at.dimension
        if expected and dimension != expected:
            raise EmbeddingError(
                f"{self.model} returned {dimension:,} dimensions, expected {expected:,}",
                "Check which model its server runs; if it is another one, set `models.embedding` to that.",
            )
        try:
            found = packed(vectors)
        except EmbeddingError as error:
            raise _embedding_error(self.model, error) from error
        self._dimension = dimension
        return found


def _embedding_error(model: str, error: BaseException) -> EmbeddingError:
    what = error.what if isinstance(error, ScaffoldError) else f"{model} did not answer in time"
    return EmbeddingError(
        f"no vectors by {model}: {what}",
        "Check `models.embedding`, its server and its key; until then, search uses words only.",
    )
