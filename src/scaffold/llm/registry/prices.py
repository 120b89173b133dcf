"""Model prices from one small file, read on first use."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.model import Usage

Family = Literal["anthropic", "openai"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class TokenRate(Struct, frozen=True, array_like=True):
    """US dollars per million tokens for requests with more than `above` input tokens; None: same as `input`."""

    above: int
    input: float
    cached: float | None
    written: float | None
    output: float

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost in US dollars: fresh input, cache reads, cache writes and output."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        # Providers count cached and written tokens in the input as well.
        fresh_tokens = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
        dollars = fresh_tokens * self.input + usage.cached_input_tokens * cached + usage.cache_write_tokens * written
        return (dollars + usage.output_tokens * self.output) / 1_000_000


class PricePeriod(Struct, frozen=True):
    """Prices since a day (UTC; None: always). `rates` are sorted by `above`; the last one exceeded applies."""

    since: date | None
    rates: tuple[TokenRate, ...]


class Prices(Struct, frozen=True):
    """A model's past, current and announced prices by date."""

    periods: tuple[PricePeriod, ...]

    def on(self, day: date) -> Sequence[TokenRate]:
        """Return the rates of `day` (UTC), smallest `above` first."""
        running = [period for period in self.periods if period.since is None or period.since <= day]
        # Before the first known period, its prices are the nearest.
        return (running or self.periods[:1])[-1].rates

    def cost_usd(self, usage: Usage, day: date) -> float:
        """Return the cost in US dollars of one request with `usage` on `day`."""
        rates = self.on(day)
        reached = [rate for rate in rates if usage.input_tokens > rate.above]
        return (reached or rates)[-1].cost_usd(usage)


class PricedModel(Struct, frozen=True):
    """A model with its prices and the patterns of its names at the provider."""

    id: str
    window: int | None
    match: tuple[tuple[Literal["equals", "starts_with", "contains", "regex"], str], ...]
    periods: tuple[PricePeriod, ...]

    def fits(self, name: str) -> bool:
        """Return True if `name`, in lower case, matches a pattern."""
        return any(_FITS[kind](name, text) for kind, text in self.match)


class _PriceList(Struct, frozen=True):
    anthropic: tuple[PricedModel, ...]
    openai: tuple[PricedModel, ...]


_FITS: Mapping[str, Callable[[str, str], bool]] = {
    "equals": lambda name, text: name == text,
    "starts_with": lambda name, text: name.startswith(text),
    "contains": lambda name, text: text in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}


def priced_models(family: Family) -> Sequence[PricedModel]:
    """Return the models of a family in matching order."""
    models: tuple[PricedModel, ...] = getattr(_price_list(), family)
    return models


@cache
def find_model(family: Family, name: str) -> PricedModel | None:
    """Return the first model of `family` that matches `name`; None if there is none."""
    return next((each for each in priced_models(family) if each.fits(name.lower())), None)


def find_family(name: str) -> Family | None:
    """Return the only family with a model called `name`; None if there is none or more than one."""
    found = [family for family in FAMILIES if find_model(family, name) is not None]
    return found[0] if len(found) == 1 else None


@cache
def _price_list() -> _PriceList:
    return msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=_PriceList)
