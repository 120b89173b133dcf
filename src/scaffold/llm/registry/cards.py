"""Model cards: context window, features and prices of each known model."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.llm.registry.model_name import ModelName, Provider
from scaffold.llm.registry.prices import FAMILIES, Family, Prices, find_model, priced_models
from scaffold.llm.registry.thinking import UNKNOWN_THINKING, ThinkingSupport, thinking_support

# The first pattern that matches counts, so older generations come before the general one.
# Output tokens that every model of a generation supports; providers refuse requests for more.
_OUTPUT: Sequence[tuple[str, int]] = (
    (r"claude-(2|v|3-(opus|sonnet|haiku))", 4_096),
    (r"claude-3[-.]5", 8_192),
    (r"claude-(opus-4(-0|-1|\.1|-2025|$)|4-opus)", 32_000),
    (r"claude-", 64_000),
    (r"gpt-3|gpt-4(-|$)", 4_096),
    (r"gpt-4\.1|o1-preview", 32_768),
    (r"gpt-4|chatgpt-4|gpt-5[^/]*-chat", 16_384),
)

# Outdated models, not suggested to users.
_OLD = re.compile(r"claude-(2|v|3)|gpt-[34]|chatgpt|o1|davinci|codex-mini")
_SEES_NOTHING = re.compile(r"claude-(2|v)|gpt-3|gpt-4(-32k|-0|$)|o1-(mini|preview)|o3-mini")

# Names of tools that the models of a family are trained to use.
_TRAINED_TOOLS: Sequence[tuple[str, frozenset[str]]] = (
    (r"(openai/)?gpt-(4\.1|[5-9]|oss)|o[34]|codex", frozenset({"apply_patch"})),
)


class ModelCard(Struct, frozen=True, kw_only=True):
    """The known properties of one model. Defaults are chosen so that a wrong one is cheap."""

    model: str
    """The whole model string."""
    name: str
    """The model's name at its provider."""
    window_tokens: int | None = None
    max_output_tokens: int | None = None
    """The output limit to request at most; None if unknown."""
    tools: bool = True
    thinking: ThinkingSupport = UNKNOWN_THINKING
    """How its thinking is controlled."""
    thinking_tags: bool = False
    """True if its thoughts may arrive as `<think>...</think>` in the text."""
    images: bool = True
    """True if it accepts images, or if only the server knows."""
    trained_tools: frozenset[str] = frozenset()
    """Names of the tools that it is trained to use; see `Tool.for_trained_models`."""
    prices: Prices | None = None
    """None if unknown, and for local servers."""

    @property
    def may_think(self) -> bool:
        """Whether it may think for minutes before it sends anything."""
        return self.thinking.form != "none"


_FAMILY: Mapping[Provider, Family] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "codex": "openai",
}


def model_card(model: ModelName) -> ModelCard:
    """Return the card of `model`; subscriptions (`codex`), local servers and cassettes have no prices."""
    family = _FAMILY.get(model.provider)
    trained = next((tools for pattern, tools in _TRAINED_TOOLS if re.match(pattern, model.name)), frozenset[str]())
    if family is None:
        return ModelCard(model=str(model), name=model.name, thinking_tags=True, trained_tools=trained)
    found = find_model(family, model.name)
    most = next((most for pattern, most in _OUTPUT if re.match(pattern, model.name)), None)
    return ModelCard(
        model=str(model),
        name=model.name,
        window_tokens=found.window if found else None,
        max_output_tokens=most,
        thinking=thinking_support(family, model.name),
        images=_SEES_NOTHING.match(model.name) is None,
        trained_tools=trained,
        prices=Prices(found.periods) if found and model.provider != "codex" else None,
    )


def known_models() -> Sequence[ModelCard]:
    """Return the models to suggest to users, grouped by provider."""
    return tuple(
        model_card(ModelName(family, each.id))
        for family in FAMILIES
        for each in priced_models(family)
        if each.window is not None and not _OLD.match(each.id)
    )
