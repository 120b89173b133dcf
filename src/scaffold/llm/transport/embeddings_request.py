"""One request for the vectors of some texts. It is retried as a request for a reply is."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.conversation import AssistantMessage, Caller, DeltaHandler, Reply, Request
from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.llm.registry.model_name import DIMENSIONS, USD_PER_MILLION, ModelName, Provider
from scaffold.llm.transport.endpoint import Endpoint, find_endpoint
from scaffold.llm.transport.live_context import Deadlines, HttpClient, HttpRequest, HttpResponse
from scaffold.llm.transport.proxies import is_loopback
from scaffold.llm.wire.codec import BYTES_PER_TOKEN
from scaffold.llm.wire.embeddings import embedding_body, read_vectors
from scaffold.llm.wire.provider_errors import http_error, retry_after_header, unreadable_reply

EMBEDDING_KEY, EMBEDDING_URL = "EMBEDDING_API_KEY", "EMBEDDING_BASE_URL"
"""Used in place of the variables of the provider's other models."""
OLLAMA_PATH = "/api"
"""The path of a base URL behind which a server speaks Ollama's own wire."""
_KEYS: Mapping[Provider, str] = {"local": "LOCAL_API_KEY"}
_URLS: Mapping[Provider, str] = {"openai": "OPENAI_BASE_URL", "openai-chat": "OPENAI_BASE_URL"}


class EmbeddingEndpoint(Struct, frozen=True):
    """An embedding model at its server."""

    model: ModelName
    endpoint: Endpoint
    speaks_ollama: bool

    @property
    def usd_per_million(self) -> float | None:
        """Dollars per million tokens; None if unknown. A server on this machine costs nothing."""
        if self.model.provider != "local":
            return USD_PER_MILLION.get(self.model.name)
        return 0.0 if is_loopback(urlsplit(self.endpoint.url).hostname or "") else None

    @property
    def dimension(self) -> int:
        """How many numbers its vectors have; 0 if that is known only from the first one."""
        return 0 if self.model.provider == "local" else DIMENSIONS.get(self.model.name, 0)


MAX_ANSWER_BYTES = 64 * 2**20
MAX_ERROR_BYTES = 2**16
MAX_TOKENS = 100_000_000
ASKED: Final = Request(caller=Caller(role="embedder"), system="", messages=())
"""Stands for the request where models are retried and paid for; it has no words of its own."""


class EmbeddingRequest:
    """Asks for the vectors of texts, one try at a time. Implements `transport.retry.SingleTryModel`."""

    window_tokens: Final = None
    slots: Final = None

    def __init__(
        self, at: EmbeddingEndpoint, texts: Sequence[str], *, wire: HttpClient, clock: Clock, deadlines: Deadlines
    ) -> None:
        self._at = at
        self._texts = texts
        self._wire = wire
        self._clock = clock
        self._deadlines = deadlines
        self.vectors: Sequence[Sequence[float]] = ()
        """The vectors in the order of the texts, once there was a reply."""
        self.trouble: ModelError | None = None
        """Why the last try failed."""

    @property
    def endpoint(self) -> str:
        """Return the endpoint's name; models of the same endpoint share its rate limits."""
        return self._at.endpoint.name

    def estimate(self, request: Request) -> Usage:  # noqa: ARG002 - the texts are its own
        """Return the estimated usage."""
        return self._used_tokens(sum(len(text.encode()) for text in self._texts) // BYTES_PER_TOKEN + 1)

    async def attempt(self, request: Request, try_number: int, on_delta: DeltaHandler, *, silence_s: float) -> Reply:  # noqa: ARG002
        """Ask once, and keep the vectors; the reply has the usage alone.

        Raises ModelError, transient if there was no readable answer within `silence_s`.
        """
        try:
            async with asyncio.timeout(silence_s):
                return await self._send_request()
        except TimeoutError as error:
            self.trouble = ModelError(f"{self._at.model} did not answer in time", "Retry later.", transient=True)
            raise self.trouble from error
        except ModelError as error:
            error.what = self._at.endpoint.without_key(error.what)
            self.trouble = error
            raise

    async def _send_request(self) -> Reply:
        post = HttpRequest(
            url=self._at.endpoint.url,
            headers=self._at.endpoint.headers,
            body=embedding_body(self._at.model.name, self._texts),
            deadlines=self._deadlines,
        )
        async with self._wire.post(post) as answer:
            if not 200 <= answer.status < 300:
                raise await self._read_refusal(answer)
            body = await _read_whole(answer, MAX_ANSWER_BYTES)
        found = read_vectors(body, len(self._texts), ollama=self._at.speaks_ollama)
        self.vectors = found.vectors
        # A server's wrong count must not spoil the budget.
        counted = 0 < found.tokens <= MAX_TOKENS
        usage = self._used_tokens(found.tokens) if counted else self.estimate(ASKED).as_estimate
        return Reply(message=AssistantMessage(()), usage=usage, stop="end")

    async def _read_refusal(self, answer: HttpResponse) -> ModelError:
        if 300 <= answer.status < 400:
            what = f"{self._at.model} answered with a redirect (HTTP status {answer.status})"
            return ModelAccessDenied(what, "Give the server's real address; redirects are not followed.")
        body = await _read_whole(answer, MAX_ERROR_BYTES)
        return http_error(
            answer.status,
            self._at.endpoint.without_key(body.decode(errors="replace")).encode(),
            who=str(self._at.model),
            retry_after=retry_after_header(answer.headers),
            now=self._clock.now(),
            should_retry=answer.headers.get("x-should-retry"),
        )

    def _used_tokens(self, tokens: int) -> Usage:
        price = self._at.usd_per_million
        cost_usd = None if price is None else tokens * price / 1_000_000
        return Usage(input_tokens=tokens, cost_usd=cost_usd)


async def _read_whole(answer: HttpResponse, longest: int) -> bytes:
    read = bytearray()
    while chunk := await answer.read():
        read += chunk
        if len(read) > longest:
            raise unreadable_reply(f"it has more than {longest:,} bytes")
    return bytes(read)


def find_embedding_endpoint(model: ModelName, environ: Mapping[str, str]) -> EmbeddingEndpoint:
    """Return the endpoint of an embedding model; UsageError with the variable's name for a missing key or a bad URL."""
    own = {_KEYS.get(model.provider, "OPENAI_API_KEY"): environ.get(EMBEDDING_KEY, "")}
    if model.provider in _URLS:
        own[_URLS[model.provider]] = environ.get(EMBEDDING_URL, "")
    found = find_endpoint(model, {**environ, **{name: value for name, value in own.items() if value}})
    base = found.url.removesuffix(found.codec.path)
    speaks_ollama = base.endswith(OLLAMA_PATH)
    url = f"{base}/embed" if speaks_ollama else f"{base}/embeddings"
    # Another name than the model's: a server that has no embeddings must not make its chat wait.
    name = f"{found.name} embeddings"
    endpoint = Endpoint(name=name, url=url, headers=found.headers, codec=found.codec)
    return EmbeddingEndpoint(model, endpoint, speaks_ollama)
