"""Parse model strings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.llm.registry.prices import find_family

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

Provider = Literal["anthropic", "openai", "openai-chat", "codex", "local", "cassette", "executor"]
"""Of these, `executor` has no models: it stands for a program that chooses its model itself."""
EMBEDDING_PROVIDERS: frozenset[Provider] = frozenset({"openai", "openai-chat", "local"})
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
SYNTAX_HINT = (
    "Write anthropic:NAME, openai:NAME, openai-chat:NAME, codex:NAME, local:NAME@http://HOST:PORT/v1 or cassette:PATH."
)


class ModelName(Struct, frozen=True):
    """A parsed model string; `name` is the file path for cassettes, `url` is set only for `local`."""

    provider: Provider
    name: str
    url: str | None = None

    def __str__(self) -> str:
        at = f"@{self.url}" if self.url else ""
        return f"{self.provider}:{self.name}{at}"


def parse_model(text: str) -> ModelName:
    """Parse the model string `text`; UsageError with the valid forms if it is invalid.

    A bare model name that only one provider has, e.g. `claude-sonnet-4-5`, gets that provider.
    """
    word, _, rest = text.strip().partition(":")
    provider = next((known for known in PROVIDERS if known == word), None)
    if provider is None and not rest and (maker := find_family(word)) is not None:
        return ModelName(maker, word)
    if provider is None or not rest:
        raise UsageError(f"`{text}` is not a model string", SYNTAX_HINT)
    if provider != "local":
        return ModelName(provider, rest)
    # Names have an `@` in them, too: `claude-sonnet-4@20250514`.
    name, _, url = rest.partition("@http")
    url = url and f"http{url}"
    if "@" in url.partition("://")[2].partition("/")[0]:  # model strings are stored and shown
        raise UsageError("the local model's URL contains credentials", "Remove them and set LOCAL_API_KEY.")
    if not name or not url.startswith(("http://", "https://")):
        raise UsageError(f"`{text}` has no http:// or https:// URL of the local model", SYNTAX_HINT)
    return ModelName(provider, name, url)


def absolute_model(text: str) -> str:
    """Return the model string with a cassette's path made absolute, so that it is valid in every directory.

    Opens no file. UsageError as in `parse_model`.
    """
    model = parse_model(text)
    if model.provider != "cassette":
        return str(model)
    return str(ModelName("cassette", str(Path(model.name).expanduser().absolute())))


def is_live(text: str) -> bool:
    """Return True if the model is called over the network (`open_model` needs a `line`); UsageError if invalid."""
    return parse_model(text).provider not in {"cassette", "executor"}


def embedding_model(text: str) -> ModelName:
    """Return the parsed model string; UsageError if it is invalid, or its provider has no embeddings."""
    model = parse_model(text)
    if model.provider not in EMBEDDING_PROVIDERS:
        raise UsageError(
            f"`{model}` has no embeddings", "Use openai:text-embedding-3-small, or local:NAME@http://HOST:PORT/v1."
        )
    return model
