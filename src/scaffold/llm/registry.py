"""What is known of models: windows, features, prices. Read from one small file, when a model is first asked for."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.llm.modelname import ModelName, Provider

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


class Tier(Struct, frozen=True, array_like=True):
    """US dollars for a million tokens, of requests with more than `above` input tokens; None: as other input."""

    above: int
    input: float
    cached: float | None
    written: float | None
    output: float

    def cost_usd(self, usage: Usage) -> float:
        """Return what `usage` costs: fresh input, what came from the cache, what was put into it, and output."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        fresh_tokens = usage.input_tokens - usage.cached_input_tokens - usage.written_input_tokens
        dollars = fresh_tokens * self.input + usage.cached_input_tokens * cached + usage.written_input_tokens * written
        return (dollars + usage.output_tokens * self.output) / 1_000_000


class Period(Struct, frozen=True):
    """Prices from a day on (UTC), None for always; of `tiers`, the last one counts that a request's input reaches."""

    since: date | None
    tiers: tuple[Tier, ...]


class Prices(Struct, frozen=True):
    """What a model cost, costs and will cost, by days."""

    periods: tuple[Period, ...]

    def on(self, day: date) -> Sequence[Tier]:
        """Return the prices of `day` (UTC), for small requests first."""
        running = [period for period in self.periods if period.since is None or period.since <= day]
        return (running or self.periods)[-1].tiers

    def cost_usd(self, usage: Usage, day: date) -> float:
        """Return what one request costs that used `usage` on `day`."""
        tiers = self.on(day)
        reached = [tier for tier in tiers if usage.input_tokens > tier.above]
        return (reached or tiers)[-1].cost_usd(usage)


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


Family = Literal["anthropic", "openai"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class _Known(Struct, frozen=True):
    id: str
    window: int | None
    match: tuple[tuple[Literal["equals", "starts_with", "contains", "regex"], str], ...]
    periods: tuple[Period, ...]

    def fits(self, name: str) -> bool:
        return any(_FITS[kind](name, text) for kind, text in self.match)


class _Book(Struct, frozen=True):
    anthropic: tuple[_Known, ...]
    openai: tuple[_Known, ...]


_FITS: Mapping[str, Callable[[str, str], bool]] = {
    "equals": lambda name, text: name == text,
    "starts_with": lambda name, text: name.startswith(text),
    "contains": lambda name, text: text in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}

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
    known = _find(family, model.name)
    return ModelCard(
        model=str(model),
        name=model.name,
        window_tokens=known.window if known else None,
        max_output_tokens=_anthropic_output(model.name) if family == "anthropic" else None,
        thinking=_REASONS.match(model.name) is not None,
        images=_SEES_NOTHING.match(model.name) is None,
        prices=Prices(known.periods) if known and model.provider != "codex" else None,
    )


def find_provider(name: str) -> Provider | None:
    """Return the one provider that makes a model called `name`; None if none does, or if it is not clear which."""
    found = [family for family in FAMILIES if _find(family, name) is not None]
    return found[0] if len(found) == 1 else None


def known_models() -> Sequence[ModelCard]:
    """Return the models one might begin with, provider by provider."""
    return tuple(
        card(ModelName(family, known.id))
        for family in FAMILIES
        for known in getattr(_book(), family)
        if known.window is not None and not _OLD.match(known.id)
    )


def _find(family: Family, name: str) -> _Known | None:
    known: tuple[_Known, ...] = getattr(_book(), family)
    return next((each for each in known if each.fits(name.lower())), None)


def _anthropic_output(name: str) -> int | None:
    return next((most for pattern, most in _ANTHROPIC_OUTPUT if re.match(pattern, name)), None)


@cache
def _book() -> _Book:
    return msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=_Book)
