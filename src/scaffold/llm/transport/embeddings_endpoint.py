"""Where an embedding model is asked, and what it costs."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.llm.registry.embedding_models import DIMENSIONS, USD_PER_MILLION
from scaffold.llm.registry.model_name import ModelName, Provider
from scaffold.llm.transport.endpoint import Endpoint, find_endpoint
from scaffold.llm.transport.proxies import is_loopback

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
    # Another name: a server that has no embeddings must not make its chat wait.
    return Endpoint(name=f"{endpoint.name} embeddings", url=url, headers=endpoint.headers, codec=endpoint.codec)
