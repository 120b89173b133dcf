"""Where an embedding model is asked, and what it costs."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.llm.registry.model_name import ModelName, Provider, parse_model
from scaffold.llm.transport.endpoint import Endpoint, find_endpoint
from scaffold.llm.transport.proxies import is_loopback

PROVIDERS: frozenset[Provider] = frozenset({"openai", "openai-chat", "local"})
EMBEDDING_KEY, EMBEDDING_URL = "EMBEDDING_API_KEY", "EMBEDDING_BASE_URL"
"""Used in place of the variables of the provider's other models."""
USD_PER_MILLION: Mapping[str, float] = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}
"""Of OpenAI's models, per million tokens."""
DIMENSIONS: Mapping[str, int] = {
    "text-embedding-3-small": 1_536,
    "text-embedding-3-large": 3_072,
    "text-embedding-ada-002": 1_536,
}
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


def embedding_model(text: str) -> ModelName:
    """Return the parsed model string; UsageError if it is none, or its provider has no embeddings."""
    model = parse_model(text)
    if model.provider not in PROVIDERS:
        raise UsageError(
            f"`{model}` has no embeddings", "Use openai:text-embedding-3-small, or local:NAME@http://HOST:PORT/v1."
        )
    return model


def find_embedding_endpoint(model: ModelName, environ: Mapping[str, str]) -> EmbeddingEndpoint:
    """Return the endpoint of an embedding model; UsageError with the variable's name for a missing key or a bad URL."""
    found = find_endpoint(model, _with_own_variables(model.provider, environ))
    base = found.url.removesuffix(found.codec.path)
    speaks_ollama = base.endswith(OLLAMA_PATH)
    url = f"{base}/embed" if speaks_ollama else f"{base}/embeddings"
    return EmbeddingEndpoint(model, _at(found, url), speaks_ollama)


def _with_own_variables(provider: Provider, environ: Mapping[str, str]) -> Mapping[str, str]:
    own = {_KEYS.get(provider, "OPENAI_API_KEY"): environ.get(EMBEDDING_KEY, "")}
    if provider in _URLS:
        own[_URLS[provider]] = environ.get(EMBEDDING_URL, "")
    return {**environ, **{name: value for name, value in own.items() if value}}


def _at(endpoint: Endpoint, url: str) -> Endpoint:
    return Endpoint(name=endpoint.name, url=url, headers=endpoint.headers, codec=endpoint.codec)
