"""Embedding models: which model strings name one, and what is known of OpenAI's."""

from collections.abc import Mapping

from scaffold.core.errors import UsageError
from scaffold.llm.registry.model_name import ModelName, Provider, parse_model

PROVIDERS: frozenset[Provider] = frozenset({"openai", "openai-chat", "local"})
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


def embedding_model(text: str) -> ModelName:
    """Return the parsed model string; UsageError if it is none, or its provider has no embeddings."""
    model = parse_model(text)
    if model.provider not in PROVIDERS:
        raise UsageError(
            f"`{model}` has no embeddings", "Use openai:text-embedding-3-small, or local:NAME@http://HOST:PORT/v1."
        )
    return model
