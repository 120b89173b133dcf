"""What is known of models: windows, features, prices."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.llm.naming import ModelName, Provider
from scaffold.llm.prices import FAMILIES, Family, Prices, find, known

_ANTHROPIC_OUTPUT: Sequence[tuple[str, int]] = (
    (r"claude-(2|v|3-(opus|sonnet|haiku))", 4_096),
    (r"claude-3[-.]5", 8_192),
    (r"claude-(opus-4(-0|-1|\.1|-2025|$)|4-opus)", 32_000),
    (r"claude-", 64_000),
)
"""The most output tokens that each generation surely gives: the Messages API refuses requests that ask for more."""

_OLD = re.compile(r"claude-(2|v|3)|gpt-[34]|chatgpt|o1|davinci|codex-mini")
"""Models that are still served, perhaps, but that nobody would begin with."""

_SEES_NOTHING = re.compile(r"claude-(2|v)|gpt-3|gpt-4(-32k|-0|$)|o1-(mini|preview)|o3-mini")
_REASONS = re.compile(r"claude-(3-7|[a-z]+-[4-9]|[4-9])|gpt-[5-9]|o\d|codex")


class ModelCard(Struct, frozen=True, kw_only=True):
    """What is known of one model; nothing is guessed that costs more when it is wrong."""

    model: str
    """The whole model string."""
    name: str
    """The model's name at its provider."""
    window_tokens: int | None = None
    max_output_tokens: int | None = None
    """The most it may be asked for; None where the provider needs not be told."""
    tools: bool = True
    thinking: bool = False
    """Whether it may be silent for minutes before it says anything."""
    thinking_tags: bool = False
    """Whether its thoughts may come as `<think>...</think>` within the text."""
    images: bool = True
    """Whether it may be shown pictures; True where only the server knows."""
    answer_schema: bool = True
    """Whether its answer can be held to a JSON schema."""
    prices: Prices | None = None
    """None where nobody knows, and for servers of one's own."""


_FAMILY: Mapping[Provider, Family] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "codex": "openai",
}


def card(model: ModelName) -> ModelCard:
    """Return what is known of `model`.

    Subscriptions (`codex`), servers of one's own (`local`) and cassettes have no price for a request here.
    """
    family = _FAMILY.get(model.provider)
    if family is None:
        return ModelCard(model=str(model), name=model.name, thinking=True, thinking_tags=True)
    found = find(family, model.name)
    return ModelCard(
        model=str(model),
        name=model.name,
        window_tokens=found.window if found else None,
        max_output_tokens=_anthropic_output(model.name) if family == "anthropic" else None,
        thinking=_REASONS.match(model.name) is not None,
        images=_SEES_NOTHING.match(model.name) is None,
        prices=Prices(found.periods) if found and model.provider != "codex" else None,
    )


def known_models() -> Sequence[ModelCard]:
    """Return the models one might begin with, provider by provider."""
    return tuple(
        card(ModelName(family, each.id))
        for family in FAMILIES
        for each in known(family)
        if each.window is not None and not _OLD.match(each.id)
    )


def _anthropic_output(name: str) -> int | None:
    return next((most for pattern, most in _ANTHROPIC_OUTPUT if re.match(pattern, name)), None)
